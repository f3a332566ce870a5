"""Shapes: what every step makes of the tensor, and what it costs."""

import streamlit as st

from components.figures.blocks import block_diagram
from components.figures.shapes import cost_bars
from components.panels.look import Look, chart, explain, numbers
from components.theme import format_bytes, format_number
from explorer.stats import cost_by_part

TALLER = 70
"""How much higher the diagram is than other figures, in CSS pixels: this view has no row of controls."""


def show(look: Look) -> None:
    """The block with its live shapes on the left, cost by part on the right."""
    run, config = look.run, look.run.config
    shapes = run.tables.shapes()
    shapes["shape"] = shapes["shape"].map(lambda shape: f"[{', '.join(str(size) for size in shape)}]")
    here = shapes[shapes["layer"].isna() | (shapes["layer"] == look.layer)]
    steps = dict(zip(here["site"].str.replace(r"^layers\.\d+\.", "", regex=True), here["shape"], strict=True))
    left, right = st.columns([3, 2])
    with left:
        figure = block_diagram(
            norm_placement=config.norm_placement,
            final_norm=bool(config.final_norm),
            embedding_norm=config.embedding_norm,
            positions=config.positions != "none",
            n_layers=config.n_layers,
            steps=steps,
            palette=look.palette,
            height=look.height + TALLER,
        )
        chart(figure, key="block", alt=f"The encoder block, {config.norm_placement}-LN, with live shapes")
    with right:
        costs = cost_by_part(shapes).rename(columns={"part": "step"})
        chart(
            cost_bars(costs, palette=look.palette, height=look.height - TALLER),
            key="cost",
            alt="Share of parameters and FLOPs by part",
        )
    batch, pos = run.batch.token_ids.shape
    explain(
        f"Axes: batch {batch} (sentences), pos {pos} (tokens), d_model {config.d_model}, head {config.n_heads}, "
        f"d_head {config.d_head}, d_ff {config.d_ff:,}. Every layer takes and gives [batch, pos, d_model].",
        f"In all: {format_number(int(shapes['parameters'].sum()))} parameters, "
        f"{format_number(int(shapes['flops'].sum()))} FLOPs in matrix products (a multiply-add counts 2), "
        f"{format_bytes(run.n_bytes)} recorded.",
    )
    shown = shapes.drop(columns="layer")
    numbers(shown, name="shapes", downloads={"This table as CSV": lambda: shown})
