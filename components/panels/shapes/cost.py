"""What a run costs, step by step, and how that grows with length, width and depth."""

from typing import Final

import pandas as pd
import streamlit as st

from components import controls
from components.figures.growth import growth_curves
from components.figures.shapes import cost_bars
from components.panels.look import Look, chart
from components.theme import format_bytes, format_number
from explorer import Run
from explorer.config import LIMITS
from explorer.stats import cost_by_part
from explorer.stats.shapes import Size, crossover_length, crossover_width, growth, steps

OVER: Final = {"length": "over length", "width": "over width", "depth": "over depth"}
COSTS: Final = {"flops": "FLOPs", "bytes": "Attention memory", "parameters": "Parameters"}
AXES: Final = {"length": "tokens (pos)", "width": "width (d_model)", "depth": "layers"}
Y_TITLES: Final = {"flops": "FLOPs of a run", "bytes": "bytes of all attention weights", "parameters": "parameters"}
LINES: Final = {
    "flops": {
        "attention_flops": "attention, all of it",
        "score_flops": "scores and weighted sum alone",
        "feed_forward_flops": "feed-forward",
    },
    "bytes": {"attention_bytes": "attention weights of all layers and heads"},
    "parameters": {
        "parameters": "all",
        "attention_parameters": "attention (4 d_model² a layer)",
        "feed_forward_parameters": "feed-forward (2 d_model d_ff a layer)",
    },
}
LONGEST: Final = 4096
CONTROLS: Final = 52
"""Height of the row of controls that stands above the curves, in CSS pixels."""


def by_part(look: Look) -> tuple[pd.DataFrame, list[str]]:
    """The share of each part of the encoder in parameters and FLOPs; every step of the run as a table."""
    shapes = look.run.tables.shapes()
    costs = cost_by_part(shapes).rename(columns={"part": "step"})
    chart(
        cost_bars(costs, palette=look.palette, height=look.height),
        key="cost",
        alt="Share of parameters and FLOPs by part",
    )
    table = every_step(look)
    return table, [
        f"In all: {format_number(int(table['parameters'].sum()))} parameters, "
        f"{format_number(int(table['flops'].sum()))} FLOPs in matrix products (a multiply-add counts 2), "
        f"{format_bytes(look.run.n_bytes)} recorded.",
        _about_mask(look.run),
    ]


def _about_mask(run: Run) -> str:
    """How the mask of a run is shaped, if it has one."""
    if run.causal:
        return (
            "The mask [batch, 1, query, key] is broadcast onto [batch, head, query, key]: attention is causal, so each "
            "query has a row of its own."
        )
    if run.use_mask and run.batch.n_padding:
        return (
            "The mask [batch, 1, 1, key] is broadcast onto [batch, head, query, key]: one row a sentence for all its "
            "heads and queries."
        )
    return "No mask is applied in this run, so it is no step of it. Pad the sentences to see it."


def every_step(look: Look) -> pd.DataFrame:
    """Every step from token ids to the output, in order."""
    batch, pos = look.run.batch.token_ids.shape
    masked = bool(look.run.use_mask and look.run.batch.n_padding)
    table = steps(
        look.run.config, batch=batch, pos=pos, masked=masked, causal=look.run.causal, precision=look.run.precision
    )
    table["axes"] = [f"[{', '.join(axes.split())}]" for axes in table["axes"]]
    table["shape"] = [f"[{', '.join(str(size) for size in shape)}]" for shape in table["shape"]]
    table["site"] = table["site"].fillna("")
    return table[
        ["step", "layer", "axes", "shape", "bytes", "parameters", "parameters_share", "flops", "flops_share", "site"]
    ]


def growing(look: Look) -> tuple[pd.DataFrame, list[str]]:
    """One cost over one size, all else held, with the present choice marked."""
    with st.container(horizontal=True):
        cost = controls.choice("cost", "Cost", COSTS, label_visibility="collapsed")
        over = controls.choice("grow", "Over", OVER, label_visibility="collapsed")
    config = look.run.config
    batch, pos = look.run.batch.token_ids.shape
    present = {"length": pos, "width": config.d_model, "depth": config.n_layers}[over]
    marks = _marks(look, over, cost)
    sizes = _sizes(over, present, [at for at, _ in marks])
    table = growth(config, over, sizes, batch=batch, pos=pos, precision=look.run.precision)
    figure = growth_curves(
        table["value"].to_numpy(),
        {label: table[column].to_numpy() for column, label in LINES[cost].items()},
        present=present,
        marks=marks,
        x_title=AXES[over],
        y_title=Y_TITLES[cost],
        palette=look.palette,
        height=look.height - CONTROLS,
    )
    chart(figure, key="grow", alt=f"{Y_TITLES[cost]} over {AXES[over]}")
    now = table[table["value"] == present].iloc[0]
    return table, [_law(over, cost), *_compared(look, now)]


def _sizes(over: Size, present: int, marks: list[int]) -> list[int]:
    """Powers of two over what can be chosen, the present choice, and what is marked."""
    most = LONGEST if over == "length" else LIMITS["d_model" if over == "width" else "n_layers"][1]
    powers = [2**n for n in range(13) if 2**n <= most]
    return sorted({*powers, most, present, *marks})


def _marks(look: Look, over: Size, cost: str) -> list[tuple[int, str]]:
    """Where attention overtakes feed-forward, if it does, and the longest text that this encoder reads."""
    config, pos = look.run.config, look.run.batch.token_ids.shape[1]
    marks = [(config.max_len, f"limit of this encoder: {format_number(config.max_len)}")] if over == "length" else []
    if cost == "flops" and over == "length":
        longest = crossover_length(config)
        marks.append((longest, f"from {format_number(longest)} attention costs more"))
    if cost == "flops" and over == "width" and (widest := crossover_width(config, pos)) is not None:
        marks.append((widest, f"up to {format_number(widest)} attention costs more"))
    return [(at, text) for at, text in marks if at <= max(LONGEST, config.max_len)]


def _law(over: Size, cost: str) -> str:
    """How steep the curves are, and why."""
    return {
        ("length", "flops"): "Projections and feed-forward grow with the length, scores and weighted sum with its "
        "square.",
        ("length", "bytes"): "Twice the length is four times the attention memory: every query has a weight for "
        "every key.",
        ("length", "parameters"): "Parameters do not depend on the length: the same weights serve every position.",
        ("width", "flops"): "Projections and feed-forward grow with the square of the width, scores with the width. "
        "d_ff keeps its ratio to d_model.",
        ("width", "bytes"): "Attention memory does not depend on the width, only on the number of heads. "
        "Where the number of heads does not divide a width, the nearest that does is taken.",
        ("width", "parameters"): "Twice the width is four times the weights of a layer. d_ff keeps its ratio to "
        "d_model.",
    }.get((over, cost), "Every layer costs the same, so cost grows with their number.")


def _compared(look: Look, now: pd.Series) -> list[str]:
    """What attention and feed-forward cost in this very run."""
    attention, feed_forward = float(now["attention_flops"]), float(now["feed_forward_flops"])
    return [
        f"Now attention takes {format_number(attention / feed_forward)} times the FLOPs of feed-forward, and its "
        f"weights {format_bytes(int(now['attention_bytes']))}."
    ]
