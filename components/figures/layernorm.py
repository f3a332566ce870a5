"""What LayerNorm does to each token: over all norms at once, and one norm entering and leaving."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import NARROW_WIDTH, as_mask, empty_figure, hatch, name_axis, runs, upright
from components.figures.token_heatmap import token_heatmap
from components.labels import plotly_escape
from components.theme import Palette

_ROWS = {"entering": ("y", (0.54, 1.0)), "leaving": ("y2", (0.0, 0.46))}


def norm_overview(
    values: np.ndarray,
    norm_names: Sequence[str],
    tokens: Sequence[str],
    *,
    palette: Palette,
    quantity: str,
    token_padding: np.ndarray | None = None,
    log: bool = False,
    selected_norm: int | None = None,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """One statistic of every LayerNorm, `values [norm, token]`, in the order in which the norms run."""
    return token_heatmap(
        "norm_overview",
        values,
        norm_names,
        tokens,
        palette=palette,
        quantity=quantity,
        row_title="LayerNorm",
        row_what="norm",
        token_padding=token_padding,
        log=log,
        selected_row=selected_norm,
        title=title,
        height=height,
    )


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
    return figure


def _row(row: str, mean: np.ndarray, std: np.ndarray, padded: np.ndarray, colour: str) -> go.Scatter:
    centre, spread = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
    centre[padded] = spread[padded] = np.nan
    many = len(centre) > 128
    return go.Scatter(
        x=np.arange(len(centre)),
        y=centre,
        error_y={"type": "data", "array": spread, "thickness": 1 if many else 1.8, "width": 0 if many else 4},
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
        low, high = _reach(trace.y, trace.error_y.array)
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
