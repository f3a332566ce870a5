"""The mask as a tensor: a row a sentence, its copy for every query, and what it does to scores and weights."""

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, page, state
from components.matrix import Side, clear_end
from components.panels.look import Look
from components.panels.padding.chosen import (
    Shown,
    names_of,
    ways_of,
    width_for,
)
from components.panels.padding.fills import precisions, written
from components.panels.padding.tensors import NO_KEY, STRIP, broadcast, sentences, square
from components.theme import format_number
from explorer import Batch, MaskError
from explorer.model.attention import attention_mask
from explorer.stats.masking import WAYS, fills, rows_without_a_key

HIDE: Final = {name: way.label for name, way in WAYS.items()}


def picker() -> None:
    """How hidden keys are hidden."""
    controls.choice("hide", "Hidden keys", HIDE, label_visibility="collapsed", width=198)


def show(look: Look) -> Shown:
    """Mask, scores before and after it, and the weights after softmax, with the sum of each row.

    Where causal attention leaves rows without a key there are no scores: then the mask alone, and why it is refused.
    """
    batch = padded_batch(look)
    padding, hidden = batch.key_padding_mask[0].numpy(), hidden_keys(look, batch)
    if rows_without_a_key(hidden).any():
        return _refused(look, padding, names_of(batch), hidden)
    masked = ways_of(look).masked
    scores = masked.run.trace.raw_scores(look.layer)[0, look.head]
    way = WAYS[state.get("hide")]
    weights = way.weights(scores, hidden)
    columns = st.columns([3, 3, 3, 4])
    with columns[0]:
        sentences(look)
        broadcast(look, batch, hidden, height=look.height - STRIP - 16)
    key = (masked.key, look.layer, look.head, state.get("hide"))
    end = clear_end(scores[~padding])
    given = {"before": scores, "after": way.scores(scores, hidden)}
    for column, (title, values) in zip(columns[1:3], given.items(), strict=True):
        with column:
            finite = np.where(np.isfinite(values), values, np.nan)  # −∞ has no colour, and is hatched
            square(look, batch, finite, (title, *key), title=f"Scores {title}", unit="score", ends=(-end, end))
    with columns[3]:
        title = f"After softmax{'' if way.right else ': wrong'}"
        sums = (Side("sum", weights.sum(axis=-1)),)
        square(look, batch, weights, ("weights", *key), title=title, unit="weight", sides=sums)
    table = fills(scores, hidden)
    return Shown(
        written(table),
        [*_about(look, padding, hidden), *_damage(padding, hidden, weights), *precisions(table)],
        {
            "Scores as CSV": lambda: _as_table(batch, scores),
            "Weights as CSV": lambda: _as_table(batch, weights),
        },
    )


def padded_batch(look: Look) -> Batch:
    """The chosen sentence at the chosen width."""
    return look.answer.model.batch(
        [look.run.batch.sentences[look.sentence]],
        pad_to=width_for(look, every=False),
        padding_side=state.now("padded_side"),
    )


def hidden_keys(look: Look, batch: Batch) -> np.ndarray:
    """Which keys the mask hides from which queries, `[query, key]`: padding, and what stands after, if causal."""
    n_pos = batch.token_ids.shape[1]
    hidden = attention_mask(batch.key_padding_mask, causal=look.run.causal, n_pos=n_pos)
    return np.zeros((n_pos, n_pos), bool) if hidden is None else hidden[0, 0].expand(n_pos, n_pos).numpy()


def _refused(look: Look, padding: np.ndarray, names: list[str], hidden: np.ndarray) -> Shown:
    """The mask alone. Rows without a key are marked, and the reason stands where the scores would be."""
    left, right = st.columns([3, 5])
    batch = padded_batch(look)
    with left:
        sentences(look)
        try:
            ways_of(look)
        except MaskError as error:
            page.refusal(error)
    with right:
        broadcast(look, batch, hidden, height=look.height)
    n_keys = (~hidden).sum(axis=-1)
    n_refused = int((n_keys == 0).sum())
    return Shown(
        pd.DataFrame({"query": names, "padding": np.where(padding, "yes", ""), "n_keys": n_keys}),
        [
            "A cell of 1 is hidden. What comes before all words is padding, and the mask hides it; what comes after a "
            f"token is hidden by the triangle. So {n_refused} rows, marked {NO_KEY.strip()}, have no key left.",
            "A softmax over no key has nothing to share out: with −∞ everywhere it is 0 / 0. So this is refused before "
            "anything is computed.",
        ],
    )


def _about(look: Look, padding: np.ndarray, hidden: np.ndarray) -> list[str]:
    """What the mask hides, and what causal attention does to it."""
    said = []
    if padding.any():
        said.append(
            f"The mask has one flag for each key of each sentence, true for its {int(padding.sum())} padding tokens. "
            "It is the same for every query and every head, so it is broadcast: one row serves them all."
        )
    else:
        said.append(f"This sentence fills all {len(padding)} places that the encoder has: no padding is hidden.")
    if look.run.causal:
        later = int(np.triu(np.ones_like(hidden), k=1).sum())
        said.append(
            f"Attention is causal: each query has a row of its own, and the triangle hides the {format_number(later)} "
            "pairs whose key stands after the query."
        )
    elif padding.any() and state.get("padded_side") == "left":
        said.append(
            f"With causal attention the {int(padding.sum())} rows at the top would have no key at all, for all before "
            "them is padding: such a run is refused."
        )
    return said


def _damage(padding: np.ndarray, hidden: np.ndarray, weights: np.ndarray) -> list[str]:
    """What the chosen way does to the rows of real tokens."""
    if not hidden.any():
        return []
    rows = weights[~padding]
    lowest = format_number(float(rows.sum(axis=-1).min()))
    share = format_number(100 * float((rows * hidden[~padding]).sum(axis=-1).mean()))
    keys = "padding" if (hidden == padding).all() else "hidden keys"
    return {
        "minus_infinity": [
            "−∞ goes in before softmax: exp(−∞) is 0, so hidden keys get exactly 0 and the others share all of the 1. "
            "Each row sums to 1."
        ],
        "zero_after": [
            "0 after softmax comes too late: hidden keys have had their share of the sum. Rows of real tokens sum to "
            f"as little as {lowest}, so what they gather of the values shrinks."
        ],
        "zero_before": [
            f"0 is a score like any other: exp(0) is 1. Rows sum to 1, but real tokens give {share} % of their weight "
            f"to {keys}."
        ],
        "nothing": [f"Nothing is hidden: real tokens give {share} % of their weight to {keys}."],
    }[state.get("hide")]


def _as_table(batch: Batch, values: np.ndarray) -> pd.DataFrame:
    """Queries down, keys across, padding named."""
    names = [f"{place} {name}" for place, name in enumerate(names_of(batch))]
    table = pd.DataFrame(values, columns=names)
    table.insert(0, "query", names)
    return table
