"""All heads together: over one layer, or over all layers up to the chosen one."""

from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.matrix import matrix_canvas, pack_matrix, packed_values
from components.panels.attention.display import Display
from components.panels.attention.grid import about_score, grid, score_picker
from components.panels.attention.head import about_direction, choose_token
from components.panels.attention.matrices import sum_matrix
from components.panels.look import Look, explain, numbers
from explorer.stats.rollout import SUMS

CHOICES: Final = {name: what.label for name, what in SUMS.items()}
MEANING: Final = {
    "mean": "How much each query attends to each key, on average over the heads of the layer.",
    "maximum": "For each query and key, the weight in the head that has most of it.",
    "residual": "The residual path counts as attention to oneself: half of each row.",
    "rollout": "How much of each input token has come to each position, if attention alone mixed tokens.",
    "product": "What rollout would be without the residual path.",
}


def show(look: Look, display: Display, row: Any) -> None:
    """The grid, and one sum over its heads."""
    with row:
        name = controls.choice("sum", "Sum", CHOICES, label_visibility="collapsed", width=225)
        score = score_picker(look)
    left, right = st.columns(2)
    with left:
        grid(look, display, score=score)
    with right:
        key = ("sum", name, look.layer, display.key)
        payload = state.payload(look.answer, look.sentence, key, lambda: pack_matrix(sum_matrix(look, display, name)))
        matrix_canvas(
            payload,
            key="sum_matrix",
            height=look.height,
            scale=state.get("scale"),
            marked=(display.row_of(look.token), None),
            on_pick=partial(choose_token, display),
        )
    explain(
        MEANING[name],
        f"{SUMS[name].label}: {SUMS[name].formula}, where wₕ is the pattern of head h, H the number of heads, A their "
        f"mean, I the identity and l the layer of the chosen head, {look.layer}.",
        "Padding is removed first." if look.padding.any() else "",
        _about_mask(look),
        about_direction(look.run),
        about_score(),
    )
    rows, cols = np.flatnonzero(~display.row_padding), np.flatnonzero(~display.padding[display.cols])
    names = np.array(display.names, dtype=object)
    values = np.nan_to_num(packed_values(payload)[np.ix_(rows, cols)])  # what a causal mask hides is 0
    strongest = values.argmax(axis=-1)
    table = pd.DataFrame(
        {
            "token": names[display.rows[rows]],
            "strongest_key": names[display.cols[cols]][strongest],
            "strongest_weight": values.max(axis=-1),
            "sum_of_row": values.sum(axis=-1, dtype=np.float64),
        }
    )

    def whole() -> pd.DataFrame:
        starts = [start for start, _ in display.spans]
        found = pd.DataFrame(values, columns=[f"{starts[i]} {display.names[i]}" for i in display.cols[cols]])
        found.insert(0, "query", [f"{starts[i]} {display.names[i]}" for i in display.rows[rows]])
        return found

    numbers(table, name="sums", downloads={"This table as CSV": lambda: table, "The matrix as CSV": whole})


def _about_mask(look: Look) -> str:
    if look.run.use_mask or not look.padding.any():
        return ""
    return "The mask is off, so what real tokens gave to padding is missing, and rows of one layer sum to less than 1."
