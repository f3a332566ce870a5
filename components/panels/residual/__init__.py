"""The residual stream: how long each token's vector is, where it turns, what it holds, and what becomes of it."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pandas as pd
import streamlit as st

from components import controls, state
from components.panels.look import Look, explain, numbers
from components.panels.overview import Scale, overview
from components.panels.residual import curves, paths, pictures, sentences
from components.panels.residual.checkpoints import Checkpoints, stream_table

QUANTITIES: Final = {
    "norm": "L2 norm of the stream",
    "turned": "Cosine with the one before",
    "added": "L2 norm of what is added",
    "added_cosine": "Cosine of what is added",
}
PARTS: Final = {
    "growth": "Growth",
    "directions": "Directions",
    "token": "Token",
    "checkpoint": "Checkpoint",
    "paths": "Paths",
    "sentences": "Sentences",
}
Part = Callable[[Look, Checkpoints, pd.DataFrame], tuple[pd.DataFrame, list[str]]]
SHOW: Final[dict[str, Part]] = {
    "growth": curves.growth,
    "directions": curves.directions,
    "token": pictures.token,
    "checkpoint": pictures.checkpoint,
    "paths": paths.show,
    "sentences": sentences.show,
}


def show(look: Look) -> None:
    """Checkpoints x tokens on the left, what is chosen of the stream on the right."""
    stream = stream_table(look)
    points = Checkpoints.of(look)
    with st.container(horizontal=True, vertical_alignment="center"):
        quantity = controls.choice(
            "stream", "Shown in the overview", QUANTITIES, label_visibility="collapsed", width=230
        )
        if state.now("stream_show") == "sentences":
            sentences.pooling_picker()
        else:
            points.picker(look)
        part = controls.choice(
            "stream_show", "Show", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
    left, right = st.columns(2)
    with left:
        _overview(look, points, stream, quantity)
    with right:
        shown, said = SHOW[part](look, points, stream)
    explain(*said, "Click a cell on the left to choose its checkpoint and token.")
    downloads = {
        "This table as CSV": lambda: shown,
        "All checkpoints as CSV": look.run.tables.stream,
        "All layers as CSV": look.run.tables.residual,
    }
    numbers(shown, name="residual", downloads=downloads | sentences.downloads(look, part))


def _overview(look: Look, points: Checkpoints, stream: pd.DataFrame, quantity: str) -> None:
    """One number of every checkpoint at every token. Before the first one, nothing has turned or been added."""
    last = len(points.points) - (quantity.startswith("added") and points.points[-1][0] == "final")
    first = 0 if quantity == "norm" else 1
    values = points.per_token(look, stream, quantity)[first:last]
    overview(
        look,
        values,
        points.names[first:last],
        key="stream_map",
        of=quantity,
        chosen_row=points.chosen - first if first <= points.chosen < last else None,
        title="Residual stream",
        row_title="checkpoint",
        quantity=QUANTITIES[quantity].replace("L2", "l2").lower().replace("l2", "L2"),
        unit="L2 norm" if quantity in ("norm", "added") else "cosine",
        scale=None if quantity in ("norm", "added") else Scale.of([values], limit=1.0),
        on_pick=partial(points.pick, look.head, first),
    )
