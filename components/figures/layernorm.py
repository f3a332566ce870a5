"""What one LayerNorm does: to each token, to one token in all its features, and with which gamma and beta."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import NARROW_WIDTH, as_mask, empty_figure, hatch, name_axis, runs, translucent, upright
from components.figures.lines import band
from components.labels import plotly_escape
from components.theme import Palette, format_number

MANY = 128
"""Tokens above which the spread is a band and not a bar each."""
_ROWS = {"entering": ("y", (0.54, 1.0)), "leaving": ("y2", (0.0, 0.46))}


def norm_detail(
    mean_in: np.ndarray,
    std_in: np.ndarray,
    mean_out: np.ndarray,
    std_out: np.ndarray,
    tokens: Sequence[str],
    *,
    palette: Palette,
    token_padding: np.ndarray | None = None,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """Mean ± one population standard deviation over d_model of each token, entering and leaving one LayerNorm.

    The rows share the token axis and have own y ranges: before the norm the sizes differ, after it they are alike.

    Raises:
        ValueError: If an array is not `[token]`.
    """
    n = len(tokens)
    padded = as_mask(token_padding, n, "token_padding")
    figure = empty_figure("norm_detail", palette, title=plotly_escape(title), height=height)
    statistics = {"entering": (mean_in, std_in), "leaving": (mean_out, std_out)}
    for colour, (row, (mean, std)) in zip(palette.series, statistics.items(), strict=False):
        if np.shape(mean) != (n,) or np.shape(std) != (n,):
            raise ValueError(f"{row}: mean and std must be [token] = [{n}], not {np.shape(mean)} and {np.shape(std)}")
        figure.add_trace(_row(row, mean, std, padded, colour))
    _lay_out(figure, tokens, padded, palette)
    if n > MANY:  # an error bar each would take the browser a second
        for colour, (axis, _), trace in zip(palette.series, _ROWS.values(), figure.data[:2], strict=False):
            around = band(trace.y - trace.customdata, trace.y + trace.customdata, colour)
            figure.add_trace(around.update(yaxis=axis, name="mean ± std"))
    return figure


def _row(row: str, mean: np.ndarray, std: np.ndarray, padded: np.ndarray, colour: str) -> go.Scatter:
    centre, spread = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
    centre[padded] = spread[padded] = np.nan
    many = len(centre) > MANY
    return go.Scatter(
        x=np.arange(len(centre)),
        y=centre,
        error_y=None if many else {"type": "data", "array": spread, "thickness": 1.8, "width": 4},
        customdata=spread,
        mode="markers",
        marker={"size": 4 if many else 8, "color": colour},
        yaxis=_ROWS[row][0],
        name=row,
        hovertemplate=f"{row}, token <b>\u2068%{{x}}\u2069</b><br>"
        "mean %{y:.4~g}, std %{customdata:.4~g}<extra></extra>",
    )


def _lay_out(figure: go.Figure, tokens: Sequence[str], padded: np.ndarray, palette: Palette) -> None:
    axes = {"xaxis": upright(name_axis(tokens, title="token", what="token", room=NARROW_WIDTH)) | {"anchor": "y2"}}
    for trace, (row, (axis, domain)) in zip(list(figure.data), _ROWS.items(), strict=True):
        low, high = _reach(trace.y, trace.customdata)
        title = {"text": f"{row}<br>mean ± std"}
        axes["yaxis" + axis[1:]] = {"domain": domain, "range": (low, high), "nticks": 5, "title": title}
        figure.add_shape(type="rect", xref="paper", yref="paper", x0=0, x1=1, y0=domain[0], y1=domain[1])
        if padded.any():
            figure.add_trace(hatch([(x0, x1, low, high) for x0, x1 in runs(padded)], palette, yaxis=axis))
    figure.update_shapes(line={"color": palette.grid, "width": 1}, layer="below")
    figure.update_layout(axes)


def _reach(centre: np.ndarray, spread: np.ndarray) -> tuple[float, float]:
    """The range that shows every real token with its error bar, and a little room around."""
    ends = np.concatenate([centre - spread, centre + spread]).astype(float)
    ends = ends[np.isfinite(ends)]
    low, high = (float(ends.min()), float(ends.max())) if ends.size else (-1.0, 1.0)
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room


def token_strips(
    before: np.ndarray,
    after: np.ndarray,
    *,
    palette: Palette,
    named: Sequence[int] = (),
    row_names: tuple[str, str] = ("entering", "leaving"),
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """Every feature of one token, `[d_model]`, entering a LayerNorm and leaving it, over one axis of dimensions.

    Each strip has a line at its mean and a band of one population standard deviation around it. `named` dimensions are
    written at their bars. `row_names` say what the two strips are where they are something else.

    Raises:
        ValueError: If the two are not of one length.
    """
    if np.ndim(before) != 1 or np.shape(before) != np.shape(after):
        raise ValueError(f"before and after must be [d_model], not {np.shape(before)} and {np.shape(after)}")
    figure = empty_figure("token_strips", palette, title=plotly_escape(title), height=height)
    axes: dict[str, Any] = {
        "xaxis": {"title": {"text": "dimension of d_model"}, "anchor": "y2", "showgrid": False, "hoverformat": "d"}
    }
    rows = zip(map(plotly_escape, row_names), _ROWS.values(), (before, after), strict=True)
    for colour, (row, (axis, domain), values) in zip(palette.series, rows, strict=False):
        values = np.asarray(values, dtype=np.float64)
        mean, std = float(values.mean()), float(values.std())
        figure.add_scatter(  # one path: a bar each would take the browser half a second
            x=np.arange(len(values)),
            y=values,
            mode="lines",
            line={"color": colour, "width": 1, "shape": "hvh"},
            fill="tozeroy",
            fillcolor=translucent(colour, 0.6),
            yaxis=axis,
            name=row,
            hovertemplate=f"{row}, dimension <b>%{{x}}</b>: %{{y:.4~g}}<extra></extra>",
        )
        band = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": axis, "layer": "below"}
        figure.add_shape(band | {"y0": mean - std, "y1": mean + std, "fillcolor": palette.grid, "line": {"width": 0}})
        figure.add_shape(
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": mean, "y1": mean, "yref": axis}
            | {"line": {"color": palette.muted, "width": 1, "dash": "dot"}}
        )
        for dimension in named:
            up = values[dimension] >= mean
            figure.add_annotation(
                x=dimension,
                y=values[dimension],
                yref=axis,
                text=str(dimension),
                showarrow=False,
                yshift=9 if up else -9,
                font={"size": 12, "color": palette.text},
            )
        low, high = _reach(values, np.zeros_like(values))
        extra = 0.12 * (high - low)
        axes["yaxis" + axis[1:]] = {
            "domain": domain,
            "range": (low - extra, high + extra),
            "nticks": 5,
            "title": {"text": f"{row}<br>mean {format_number(mean)}<br>std {format_number(std)}"},
        }
    figure.update_layout(axes)
    return figure


def gain_curves(
    gamma: np.ndarray, beta: np.ndarray, *, palette: Palette, title: str = "", height: int = 430
) -> go.Figure:
    """Gamma and beta of one LayerNorm, each sorted from smallest to largest; the hover names the dimension."""
    figure = empty_figure("gain_curves", palette, title=plotly_escape(title), height=height)
    for colour, name, values in zip(palette.series, ("gamma", "beta"), (gamma, beta), strict=False):
        order = np.argsort(values, kind="stable")
        figure.add_scatter(
            x=np.arange(len(values)),
            y=np.asarray(values)[order],
            customdata=order,
            mode="lines",
            line={"color": colour, "width": 2},
            name=name,
            hovertemplate=f"{name} of dimension <b>%{{customdata}}</b>: %{{y:.4~g}}<extra></extra>",
        )
    figure.update_layout(
        showlegend=True,
        legend={"x": 1, "xanchor": "right"},
        xaxis={"title": {"text": "dimensions, from the smallest value to the largest"}, "showgrid": False},
        yaxis={"title": {"text": "value"}},
    )
    return figure


def difference_bars(
    names: Sequence[str], differences: np.ndarray, *, palette: Palette, title: str = "", height: int = 430
) -> go.Figure:
    """One bar a name: a difference that is 0 or more, written at its end. Sizes differ by decades, so the axis is log.

    A difference of 0 has no bar, and "0" in its place; one that is no number "–".
    """
    sizes = np.asarray(differences, dtype=np.float64)
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    low = 10.0 ** np.floor(np.log10(known.min()) - 1) if known.size else 0.1
    high = 10.0 ** np.ceil(np.log10(known.max()) + 0.5) if known.size else 10.0
    figure = empty_figure("difference_bars", palette, title=plotly_escape(title), height=height)
    figure.add_bar(
        x=np.where(np.isfinite(sizes) & (sizes > 0), sizes, low),
        y=np.arange(len(names)),
        orientation="h",
        marker={"color": palette.series[0]},
        text=[format_number(float(size)) for size in sizes],
        textposition="outside",
        cliponaxis=False,
        hoverinfo="skip",
        name="difference",
    )
    figure.update_layout(
        xaxis={
            "type": "log",
            "range": [float(np.log10(low)), float(np.log10(high)) + 0.3],
            "title": {"text": "largest difference (log)"},
            "exponentformat": "power",
        },
        yaxis={
            "tickvals": list(range(len(names))),
            "ticktext": [plotly_escape(name) for name in names],
            "autorange": "reversed",
            "showgrid": False,
        },
        bargap=0.5,
    )
    return figure
