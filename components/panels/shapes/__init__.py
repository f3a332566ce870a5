"""Shapes: the block with every value in it, what each costs, how the cost grows, and each of them opened."""

from collections.abc import Callable
from typing import Final

import pandas as pd
import streamlit as st

from components import controls, state
from components.diagram import block_diagram, block_layout
from components.panels.look import Look, explain, numbers
from components.panels.shapes import cost, tensor

TALLER = 40
"""How much higher the diagram is than other figures, in CSS pixels: no row of controls stands above it."""
PARTS: Final = {"cost": "Cost of a run", "growth": "How cost grows", "tensor": "Tensor"}
Part = Callable[[Look], tuple[pd.DataFrame, list[str]]]
SHOW: Final[dict[str, Part]] = {"cost": cost.by_part, "growth": cost.growing, "tensor": tensor.show}


def show(look: Look) -> None:
    """The block with its live shapes on the left; on the right its cost, or the value that was clicked."""
    left, right = st.columns([8, 7])
    with right:
        part = controls.choice(
            "shape_show", "Show", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
        shown, said = SHOW[part](look)
    with left:
        diagram(look, key="block", height=look.height + TALLER, opened=part == "tensor")
    config = look.run.config
    batch, pos = look.run.batch.token_ids.shape
    explain(
        "Click a value in the diagram to open it." if part != "tensor" else "",
        *said,
        f"Axes: batch {batch} (sentences), pos {pos} (tokens), d_model {config.d_model}, head {config.n_heads}, "
        f"d_head {config.d_head}, d_ff {config.d_ff:,}. Every layer takes and gives [batch, pos, d_model].",
    )
    numbers(
        shown,
        name="shapes",
        downloads={
            "This table as CSV": lambda: shown,
            "Every step as CSV": lambda: cost.every_step(look),
            "Every recorded tensor as CSV": look.run.tables.shapes,
        },
    )


def diagram(look: Look, *, key: str, height: int, opened: bool = False) -> None:
    """The block of this run. A click opens a value; the one that is `opened` is marked."""
    config = look.run.config
    layout = block_layout(
        norm_placement=config.norm_placement,
        final_norm=bool(config.final_norm),
        embedding_norm=config.embedding_norm,
        positions=config.positions != "none",
        n_layers=config.n_layers,
        sizes=tensor.sizes(look.run),
    )
    block_diagram(layout, key=key, height=height, chosen=tensor.chosen(look) if opened else None, on_pick=_pick)


def _pick(site: str) -> None:
    state.put("site", site.replace(" ", "_"))
    state.put("shape_show", "tensor")
