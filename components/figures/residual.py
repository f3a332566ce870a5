"""The residual stream: how long each token's vector is, and what the sublayers add to it."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import NARROW_WIDTH, empty_figure, name_axis, translucent, upright, value_ticks
from components.figures.token_heatmap import token_heatmap
from components.labels import plotly_escape
from components.theme import Palette, format_number


def norm_heatmap(
    values: np.ndarray,
    checkpoint_names: Sequence[str],
    tokens: Sequence[str],
    *,
    palette: Palette,
    quantity: str = "L2 norm",
    token_padding: np.ndarray | None = None,
    log: bool = False,
    selected_checkpoint: int | None = None,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """The length of the stream, `values [checkpoint, token]`, from the embedding at the top to the output."""
    return token_heatmap(
        "norm_heatmap",
        values,
        checkpoint_names,
        tokens,
        palette=palette,
        quantity=quantity,
        row_title="residual stream at",
        row_what="checkpoint",
        token_padding=token_padding,
        log=log,
        selected_row=selected_checkpoint,
        title=title,
        height=height,
    )


def stream_growth(
    checkpoint_names: Sequence[str],
    mean: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    attn_added: np.ndarray,
    ff_added: np.ndarray,
    attn_positions: np.ndarray,
    ff_positions: np.ndarray,
    *,
    palette: Palette,
    log: bool = False,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """The mean length of the stream over the real tokens, `[checkpoint]`, with its 10th to 90th percentile as a band.

    `attn_added` and `ff_added`, `[layer]`, are the mean lengths of what each sublayer adds, drawn at
    `attn_positions` and `ff_positions`: the index of the checkpoint that follows the addition.

    Raises:
        ValueError: If an array does not have one number for each checkpoint, or for each layer.
    """
    n = len(checkpoint_names)
    for label, array in {"mean": mean, "low": low, "high": high}.items():
        if np.shape(array) != (n,):
            raise ValueError(f"{label} must be [checkpoint] = [{n}], not {list(np.shape(array))}")
    for label, added, at in (("attention", attn_added, attn_positions), ("feed-forward", ff_added, ff_positions)):
        if np.shape(added) != np.shape(at):
            raise ValueError(f"{label}: {np.shape(added)} additions do not match {np.shape(at)} positions")
    stream, attn, ff = palette.series[0], palette.series[1], palette.series[2]
    figure = empty_figure("stream_growth", palette, title=plotly_escape(title), height=height)
    figure.add_traces(
        [
            _band(low, high, stream),
            _line("stream, mean", np.arange(n), mean, stream, width=3, symbol="circle", size=7),
            _line("attention adds", attn_positions, attn_added, attn, width=1.5, symbol="square", size=9),
            _line("feed-forward adds", ff_positions, ff_added, ff, width=1.5, symbol="diamond", size=10),
        ]
    )
    figure.update_layout(
        showlegend=True,
        xaxis=upright(
            name_axis(checkpoint_names, title="residual stream at", what="checkpoint", room=NARROW_WIDTH, columns=24)
        ),
        yaxis={"title": {"text": "L2 norm"}, "hoverformat": ".4~g"}
        | (_log_axis(low, high, attn_added, ff_added) if log else {"rangemode": "tozero"}),
    )
    return figure


def _log_axis(*parts: np.ndarray) -> dict[str, object]:
    """A logarithmic axis over all that is positive, labelled in the unit of the data."""
    values = np.concatenate([np.asarray(part, dtype=float) for part in parts])
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return {"type": "log"}
    ticks = value_ticks("log", float(values.min()) / 1.2, float(values.max()) * 1.2)
    return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": [format_number(t) for t in ticks]}


def _band(low: np.ndarray, high: np.ndarray, colour: str) -> go.Scatter:
    """A closed outline: along the upper edge and back along the lower one."""
    forth = np.arange(len(low))
    return go.Scatter(
        x=np.concatenate([forth, forth[::-1]]),
        y=np.concatenate([np.asarray(high, dtype=np.float32), np.asarray(low, dtype=np.float32)[::-1]]),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=translucent(colour, 0.22),
        hoverinfo="skip",
        name="10th to 90th percentile",
    )


def _line(name: str, x: np.ndarray, y: np.ndarray, colour: str, *, width: float, symbol: str, size: int) -> go.Scatter:
    return go.Scatter(
        x=np.asarray(x),
        y=np.asarray(y, dtype=np.float32),
        mode="lines+markers",
        line={"color": colour, "width": width, "dash": "solid" if width > 2 else "dot"},
        marker={"color": colour, "symbol": symbol, "size": size},
        name=name,
        hovertemplate=f"{name} at %{{x}}: %{{y:.4~g}}<extra></extra>",
    )
