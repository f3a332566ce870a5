"""Lines over depth or size: one line with its hover, a band around it, and a log axis in the unit of the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import NARROW_WIDTH, log_ticks, name_axis, runs, translucent, upright
from components.theme import format_number


def line(
    name: str, x: np.ndarray, y: np.ndarray, colour: str, *, width: float, dash: str, symbol: str, size: int
) -> go.Scatter:
    """A line with a symbol at each point. NaN is a gap; a line without any point is not in the legend."""
    values = np.asarray(y, dtype=np.float32)
    return go.Scatter(
        x=np.asarray(x),
        y=values,
        mode="lines+markers",
        line={"color": colour, "width": width, "dash": dash},
        marker={"color": colour, "symbol": symbol, "size": size},
        name=name,
        showlegend=bool(np.isfinite(values).any()),
        hovertemplate=f"{name} at %{{x}}: %{{y:.4~g}}<extra></extra>",
    )


def band(low: np.ndarray, high: np.ndarray, colour: str) -> go.Scatter:
    """A closed outline, along the upper edge and back along the lower one: one for each stretch without NaN."""
    low, high = np.asarray(low, dtype=np.float32), np.asarray(high, dtype=np.float32)
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    for start, end in runs(np.isfinite(low) & np.isfinite(high)):
        forth = np.arange(int(start + 0.5), int(end + 0.5))
        gap = [np.array([np.nan])] if xs else []
        xs += [*gap, forth, forth[::-1]]
        ys += [*gap, high[forth], low[forth[::-1]]]
    return go.Scatter(
        x=np.concatenate(xs).astype(np.float32) if xs else [],
        y=np.concatenate(ys).astype(np.float32) if ys else [],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=translucent(colour, 0.22),
        hoverinfo="skip",
        showlegend=bool(xs),
        name="10th to 90th percentile",
    )


def with_legend(title: str, height: int) -> dict[str, Any]:
    """The layout of a figure whose legend is seen: below the title where there is one, which it would else touch."""
    if not title:
        return {"showlegend": True}
    return {
        "showlegend": True,
        "title": {"yref": "container", "yanchor": "top", "pad": {"t": 8, "b": 0}},
        "legend": {"yref": "container", "y": 1 - 32 / height, "yanchor": "top"},
    }


def depth_axis(checkpoint_names: Sequence[str]) -> dict[str, Any]:
    """The checkpoints of the residual stream along x."""
    return upright(
        name_axis(checkpoint_names, title="residual stream at", what="checkpoint", room=NARROW_WIDTH, columns=24)
    )


def log_axis(*parts: np.ndarray) -> dict[str, Any]:
    """A logarithmic axis over all that is positive, labelled in the unit of the data."""
    values = np.concatenate([np.asarray(part, dtype=float).ravel() for part in parts])
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return {"type": "log"}
    ticks = log_ticks(float(values.min()) / 1.2, float(values.max()) * 1.2)
    return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": [format_number(t) for t in ticks]}


def check_lengths(n: int, **arrays: np.ndarray) -> None:
    """Raises ValueError, with the name, for an array that does not have one number for each of `n` checkpoints."""
    for label, array in arrays.items():
        if np.shape(array) != (n,):
            raise ValueError(f"{label} must be [checkpoint] = [{n}], not {list(np.shape(array))}")


def check_additions(attn: np.ndarray, ff: np.ndarray, attn_positions: np.ndarray, ff_positions: np.ndarray) -> None:
    """Raises ValueError where what a sublayer adds does not have one position for each number."""
    for label, added, at in (("attention", attn, attn_positions), ("feed-forward", ff, ff_positions)):
        if np.shape(added) != np.shape(at) or np.ndim(added) != 1:
            raise ValueError(f"{label}: {np.shape(added)} additions do not match {np.shape(at)} positions")
