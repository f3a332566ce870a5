"""One head, as a map or as lines."""

from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.labels import visible
from components.matrix import matrix_canvas, pack_matrix
from components.panels.attention.display import Display
from components.panels.attention.grid import about_score, grid, score_picker
from components.panels.attention.matrices import head_matrix
from components.panels.look import Look, explain, numbers
from components.theme import format_number
from explorer import Run
from explorer.stats.heads import SCORES

TABLES: Final = {"queries": "Queries of this head", "heads": "Scores of all heads"}


def show(look: Look, display: Display, row: Any) -> None:
    """The grid, and the chosen head at full size."""
    with row:
        score = score_picker(look)
    left, right = st.columns(2)
    with left:
        grid(look, display, score=score)
    with right:
        chosen_head(look, display, mode=state.get("show"))
    explain(
        "Each tile of the grid is one head. Choose one by click or with the arrow keys.",
        "In a map, a row is a token that looks (query) and a column a token that is looked at (key). Rows sum to 1."
        if state.get("show") == "map"
        else "Lines run from the token that looks (query) to the token that is looked at (key).",
        _strongest_link(look),
        about_score(),
        about_display(look, display),
        about_padding(look),
        about_direction(look.run),
    )
    tables(look, display)


def chosen_head(look: Look, display: Display, *, mode: str, key: str = "head") -> None:
    """The chosen head on a canvas. A click on a row chooses its token."""
    payload = state.payload(
        look.answer,
        look.sentence,
        ("head", look.layer, look.head, display.key),
        lambda: pack_matrix(head_matrix(look.run, look, display)),
    )
    matrix_canvas(
        payload,
        key=key,
        height=look.height,
        mode=mode,
        scale=state.get("scale"),
        marked=(display.row_of(look.token), None),
        on_pick=partial(choose_token, display),
    )


def choose_token(display: Display, row: int | None, col: int | None) -> None:
    """Moves the choice of token, for all views."""
    state.put("token", display.position(row, col))


def tables(look: Look, display: Display) -> None:
    """The queries of the chosen head, or the scores of all heads."""
    kind = controls.choice(
        "table", "Table", TABLES, widget=st.segmented_control, label_visibility="collapsed", required=True
    )
    if kind == "heads":
        table = state.head_scores(look.answer, look.sentence)
    else:
        table = look.run.tables.attention(look.layer, head=look.head, sentence=look.sentence)
    numbers(
        table,
        name="attention",
        downloads={
            "This table as CSV": lambda: table,
            "Weights of this head as CSV": partial(weights, look, display),
            "All heads as CSV": lambda: look.run.tables.attention(),
        },
    )
    if kind == "heads":
        explain("w[q, k] is the weight of key k in the row of query q. Padding is neither query nor neighbour.")
        st.text("\n".join(f"{score.label}: {score.formula}" for score in SCORES.values()))


def weights(look: Look, display: Display) -> pd.DataFrame:
    """The head as it is shown, a row a real query. Padded keys are left out where the mask hid them."""
    values, _ = display.apply(look.pattern)
    rows, cols = np.flatnonzero(~display.row_padding), np.flatnonzero(~display.col_padding)
    starts = [start for start, _ in display.spans]

    def named(numbers: np.ndarray) -> list[str]:
        return [f"{starts[number]} {display.names[number]}" for number in numbers]

    table = pd.DataFrame(values[np.ix_(rows, cols)], columns=named(display.cols[cols]))
    table.insert(0, "query", named(display.rows[rows]))
    return table


def _strongest_link(look: Look) -> str:
    """The strongest weight from one word to another, special tokens and padding left out."""
    words = np.array([start < end for start, end in look.run.batch.offsets[look.sentence]])
    if words.sum() < 2:
        return ""
    links = np.where(np.outer(words, words) & ~np.eye(len(words), dtype=bool), look.pattern, -1)
    query, key = np.unravel_index(links.argmax(), links.shape)
    return (
        f"Special tokens aside, L{look.layer} H{look.head} attends most from {visible(look.tokens[query])} "
        f"to {visible(look.tokens[key])}: {format_number(links[query, key])}."
    )


def about_display(look: Look, display: Display) -> str:
    """What is merged or left out, and how much weight that had in the chosen head."""
    said = []
    units, special, pair = display.key
    if units == "words":
        said.append("The pieces of a word are merged: weights of keys are added, those of queries averaged.")
    if special != "shown" or pair != "all":
        _, left_out = display.apply(look.pattern)
        share = float(left_out[~display.row_padding].mean())
        said.append(f"What is hidden takes {format_number(100 * share)} % of the weight of the queries shown.")
        said.append(
            "Rows are divided by what is left, so that they sum to 1."
            if display.renormalise
            else "The other weights stay as they are, so rows sum to less than 1."
        )
    return " ".join(said)


def about_padding(look: Look) -> str:
    """What became of padding in the chosen head."""
    padding = look.padding
    if not padding.any():
        return ""
    if look.run.use_mask:
        return "Padding gets no weight: its columns are exactly 0, and its rows mean nothing, so both are hatched."
    share = look.pattern[~padding][:, padding].sum(axis=-1).mean()
    return f"The mask is off: in this head, real tokens give {format_number(100 * share)} % of their weight to padding."


def about_direction(run: Run) -> str:
    """What a causal mask hides."""
    return (
        "Attention is causal: what stands after the query is hatched, and has no weight at all." if run.causal else ""
    )
