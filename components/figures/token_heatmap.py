"""Rows x tokens: one number for each token at each stage of the encoder, as a heatmap."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import (
    BAR_MARGIN,
    NARROW_WIDTH,
    as_mask,
    colourbar,
    colourbar_trace,
    empty_figure,
    hatch,
    name_axis,
    runs,
    scaled,
    upright,
)
from components.labels import plotly_escape
from components.theme import Palette

_CHROME = 140


def token_heatmap(
    name: str,
    values: np.ndarray,
    row_names: Sequence[str],
    tokens: Sequence[str],
    *,
    palette: Palette,
    quantity: str,
    row_title: str,
    row_what: str,
    token_padding: np.ndarray | None = None,
    log: bool = False,
    selected_row: int | None = None,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """A heatmap of `values [row, token]`; padded tokens are hatched and take no part in the colour range.

    Colours span the smallest to the largest value of the real tokens, the colour bar is in real units. With values
    below 0 they diverge around 0, equally far to both sides. `log` colours by order of magnitude; values of 0 and
    below have none and share the lowest colour.

    Raises:
        ValueError: If the values do not match the names of rows and tokens.
    """
    expected = (len(row_names), len(tokens))
    if np.shape(values) != expected:
        raise ValueError(f"values must be [row, token] = {list(expected)}, not {list(np.shape(values))}")
    padded = as_mask(token_padding, len(tokens), "token_padding")
    z = np.array(values, dtype=np.float32)
    z[:, padded] = np.nan

    scale, low, high = _colour_range(z, log)
    colours = palette.diverging if low < 0 else palette.sequential
    bar = colourbar(plotly_escape(quantity), scale, low, high)
    figure = empty_figure(name, palette, title=plotly_escape(title), height=height, selected=selected_row)
    figure.add_heatmap(
        z=z,
        x0=0,
        dx=1,
        y0=0,
        dy=1,
        zmin=low,
        zmax=high,
        colorscale=scaled(colours, scale, low, high),
        showscale=scale == "linear",
        colorbar=bar,
        xgap=1 if len(tokens) <= 64 else 0,
        ygap=1 if len(row_names) <= 64 else 0,
        hovertemplate="%{y}, token <b>\u2068%{x}\u2069</b><br>"
        + plotly_escape(quantity)
        + ": %{z:.4~g}<extra></extra>",
        hoverongaps=False,
        name=plotly_escape(quantity),
    )
    if padded.any():
        bottom = len(row_names) - 0.5
        figure.add_trace(hatch([(x0, x1, -0.5, bottom) for x0, x1 in runs(padded)], palette))
    if scale != "linear":
        figure.add_trace(colourbar_trace(colours, bar))
    if selected_row is not None:
        _outline_row(figure, selected_row, len(tokens), palette)
    figure.update_layout(
        margin={"t": BAR_MARGIN},
        title={"pad": {"b": 22}},
        xaxis=upright(name_axis(tokens, title="token", what="token", room=NARROW_WIDTH)),
        yaxis=name_axis(row_names, title=row_title, what=row_what, room=height - _CHROME, columns=24, reverse=True),
    )
    return figure


def _colour_range(z: np.ndarray, log: bool) -> tuple[str, float, float]:
    """Scale, lowest and highest value of the colours; never an empty range."""
    real = z[np.isfinite(z)].astype(float)
    if log and (real > 0).any():
        real = real[real > 0]
        low, high = float(real.min()), float(real.max())
        return ("log", low, high) if high > low * 1.001 else ("log", low / 2, high * 2)
    if not real.size:
        return "linear", 0.0, 1.0
    low, high = float(real.min()), float(real.max())
    if low < 0:
        largest = max(-low, high)
        return "linear", -largest, largest
    if high - low <= 1e-6 * high:
        return "linear", 0.0, high * 2 or 1.0
    return "linear", low, high


def _outline_row(figure: go.Figure, row: int, n_tokens: int, palette: Palette) -> None:
    """Two outlines: the wider one in the page's own colour parts the accent from cells that are as blue."""
    for line in ({"color": palette.background, "width": 6}, {"color": palette.accent, "width": 3}):
        figure.add_shape(type="rect", x0=-0.5, x1=n_tokens - 0.5, y0=row - 0.5, y1=row + 0.5, line=line, layer="above")
