"""A batch of sentences of different lengths: where its padding is, what it costs, and batches that cost less."""

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import state
from components.labels import shorten, visible
from components.matrix import Matrix, Side, matrix_canvas, pack_matrix
from components.panels.look import Look
from components.panels.padding.chosen import Shown, lengths_of, number_of
from components.panels.padding.sentences import TWENTY
from components.theme import format_number
from explorer.model.positions import position_ids
from explorer.stats.batching import Buckets, all_buckets, padding_cost, suggestion

FEW: Final = 4
"""Of so many sizes at most a sentence of the page tells each."""


def twenty_button() -> None:
    """Puts twenty sentences of 1 to 20 words into the text box."""
    st.button(
        "Use 20 sentences of 1 to 20 words", key="twenty", on_click=state.replace_text, args=(TWENTY.rstrip("\n"),)
    )


def show(look: Look) -> Shown:
    """The batch as a rectangle on the left, the map of the chosen sentence without its padding on the right."""
    left, right = st.columns(2)
    with left:
        _rectangle(look)
    with right:
        _own_map(look)
    lengths, config = lengths_of(look), look.run.config
    width = look.run.batch.token_ids.shape[1]
    choices = all_buckets(config, lengths)
    return Shown(_table(choices), _said(look, lengths, width, choices), {"Sentences as CSV": lambda: _sentences(look)})


def _rectangle(look: Look) -> None:
    """Sentences x places: the position of each real token, padding hatched."""
    batch = look.run.batch
    padding = batch.key_padding_mask.numpy()
    n_sentences, width = padding.shape
    values = np.where(padding, np.nan, position_ids(batch.key_padding_mask).numpy())
    lengths = np.array(lengths_of(look))

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=values,
                rows=[_name(look, number, 24) for number in range(n_sentences)],
                cols=[str(place) for place in range(width)],
                title=f"The batch: {n_sentences} × {width} tokens",
                row_title="sentence",
                col_title="place in the row",
                phrase=("", ", place ", ": position "),
                unit="position",
                high=float(max(width - 1, 1)),
                square=False,
                chosen_row=look.sentence,
                sides=(Side("real", lengths), Side("padding", width - lengths)),
                file="batch",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("padding batch", look.answer.lines), make),
        key="pad_batch",
        height=look.height,
        marked=(None, look.token),
        on_pick=lambda row, col: _pick(look, row, col),
    )


def _pick(look: Look, row: int | None, col: int | None) -> None:
    """A row chooses its sentence, a column the token in that place."""
    if row is not None:
        state.put("sentence", row)
    if col is not None:
        state.put("token", col)


def _own_map(look: Look) -> None:
    """The chosen head in the chosen sentence: its real tokens alone."""
    real = np.flatnonzero(~look.padding)
    names = [visible(look.tokens[place]) for place in real]
    title = f"Sentence {look.answer.lines[look.sentence]} · L{look.layer} H{look.head}"

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=look.pattern[np.ix_(real, real)],
                rows=names,
                cols=names,
                title=title,
                row_title="query",
                col_title="key",
                phrase=("query ", " attends to key ", ": "),
                file=title,
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("own map", look.layer, look.head, look.answer.lines), make),
        key="own_map",
        height=look.height,
        scale=state.get("scale"),
        marked=(number_of(look), None),
        on_pick=lambda row, col: state.put("token", int(real[row if row is not None else col or 0])),
    )


def _name(look: Look, sentence: int, most: int) -> str:
    return f"{look.answer.lines[sentence]}: {shorten(visible(look.run.batch.sentences[sentence]), most)}"


def _table(choices: list[Buckets]) -> pd.DataFrame:
    """One row a number of batches."""
    suggested = suggestion(choices)
    return pd.DataFrame(
        [
            {
                "n_batches": len(choice.batches),
                "suggested": "yes" if choice is suggested else "",
                "saving": choice.saving,
                "token_share": choice.cost.token_share,
                "flop_share": choice.cost.flop_share,
                "n_padding": choice.cost.n_tokens - choice.cost.n_real,
                "batch_flops": choice.cost.flops,
                "batches": _sizes(choice),
            }
            for choice in choices
        ]
    )


def _sizes(choice: Buckets) -> str:
    """`3 × 6, 4 × 12`: sentences x width."""
    return ", ".join(f"{len(batch)} × {width}" for batch, width in zip(choice.batches, choice.widths, strict=True))


def _sentences(look: Look) -> pd.DataFrame:
    """One row a sentence, and the batch that the suggestion puts it in, from 1."""
    lengths = lengths_of(look)
    suggested = suggestion(all_buckets(look.run.config, lengths))
    bucket = {number: i for i, batch in enumerate(suggested.batches, start=1) for number in batch}
    return pd.DataFrame(
        {
            "line": look.answer.lines,
            "sentence_text": look.run.batch.sentences,
            "n_tokens": lengths,
            "n_padding": [look.run.batch.token_ids.shape[1] - length for length in lengths],
            "suggested_batch": [bucket[number] for number in range(len(lengths))],
        }
    )


def _said(look: Look, lengths: list[int], width: int, choices: list[Buckets]) -> list[str]:
    cost = padding_cost(look.run.config, lengths, width)
    own = f"On the right is sentence {look.answer.lines[look.sentence]} by itself: its {lengths[look.sentence]} tokens."
    if cost.n_tokens == cost.n_real:
        alone = "one sentence" if len(lengths) == 1 else "sentences of one length"
        return [f"This batch has no padding: it is {alone}. Type sentences of different lengths to see some.", own]
    return [
        f"The batch is one rectangle: {format_number(cost.n_tokens)} tokens, of which "
        f"{format_number(100 * cost.token_share)} % are padding. The mask hides padding, and saves nothing: "
        f"{format_number(100 * cost.flop_share)} % of the FLOPs are spent on it.",
        "Colour is the position that the encoder gives to a token; padding does not count.",
        *_suggested(choices),
        own,
    ]


def _suggested(choices: list[Buckets]) -> list[str]:
    """Sentences of like length in a batch, and what that saves."""
    best = suggestion(choices)
    if len(choices) == 1:
        return ["All sentences have one length: padding to it, and no further, would waste nothing."]
    sizes = f": {_sizes(best)}" if len(best.batches) <= FEW else ""
    return [
        f"Sorted by length into {len(best.batches)} batches (sentences × width{sizes}) the same sentences need "
        f"{format_number(100 * best.saving)} % fewer FLOPs than in one batch as wide as the longest.",
        f"One batch for each of the {len(choices)} lengths would save {format_number(100 * choices[-1].saving)} %, and "
        "have no padding.",
    ]
