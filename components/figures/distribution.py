"""One number of every token in every LayerNorm: the tokens themselves, their median and their spread."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import NARROW_WIDTH, as_mask, empty_figure, name_axis, translucent, upright
from components.figures.lines import log_axis
from components.labels import axis_labels, plotly_escape
from components.theme import Palette, format_number

MOST_POINTS, MOST_PER_ROW = 1500, 60


def distribution(
    values: np.ndarray,
    row_names: Sequence[str],
    tokens: Sequence[str],
    *,
    quantity: str,
    palette: Palette,
    token_padding: np.ndarray | None = None,
    log: bool = False,
    selected_row: int | None = None,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """`values [row, token]`: each real token as a point, a line at the median, a box from 10th to 90th percentile.

    Within a row the tokens stand in the order of the text. Above 1,500 points at most 60 tokens a row are
    drawn, from the smallest value to the largest at even ranks, and the axis says so; median and percentiles are those
    of all. On a log axis values of 0 and below have no place: the axis counts them.

    Raises:
        ValueError: If the values do not match the names of rows and tokens.
    """
    expected = (len(row_names), len(tokens))
    if np.shape(values) != expected:
        raise ValueError(f"values must be [row, token] = {list(expected)}, not {list(np.shape(values))}")
    real = np.flatnonzero(~as_mask(token_padding, len(tokens), "token_padding"))
    kept = np.asarray(values, dtype=np.float32)[:, real]
    drawn = np.where(np.isfinite(kept) & ((kept > 0) | (not log)), kept, np.nan)
    absent = (kept <= 0).sum(axis=1) if log else np.zeros(len(kept), dtype=int)
    most = len(real) if kept.size <= MOST_POINTS else min(MOST_PER_ROW, max(2, MOST_POINTS // len(kept)), len(real))
    rows, names = axis_labels(row_names, 24), axis_labels([tokens[i] for i in real.tolist()])
    percentiles = np.array([_percentiles(row) for row in kept]).reshape(-1, 3)
    half = min(0.38, 0.12 * len(rows))  # of the width of a row: one row alone is not as wide as the figure

    figure = empty_figure("distribution", palette, title=plotly_escape(title), height=height, selected=selected_row)
    every = np.arange(len(rows))
    quiet = palette.series[0] if selected_row is None else palette.muted
    others, selected = every[every != selected_row], every[every == selected_row]
    for at, colour, outline in ((others, quiet, 0), (selected, palette.accent, 1.5)):
        if len(at):
            figure.add_trace(_boxes(percentiles, drawn, at, half, colour, outline))
            figure.add_trace(_points(drawn, at, most, half * 0.9, rows, names, colour))
            figure.add_trace(
                _medians(percentiles, absent, at, half, rows, palette.text if at is others else colour, log)
            )
    axis = upright(name_axis(row_names, title="LayerNorm", what="norm", room=NARROW_WIDTH, columns=24))
    axis["title"]["text"] += _left_out(most, len(real), int(absent.sum()), axis["title"]["text"])
    scale = log_axis(drawn) if log else {}
    figure.update_layout(xaxis=axis, yaxis={"title": {"text": plotly_escape(quantity)}} | scale)
    return figure


def _percentiles(values: np.ndarray) -> np.ndarray:
    """10th, 50th and 90th percentile of what is a number; NaN where nothing is."""
    known = values[np.isfinite(values)].astype(np.float64)
    return np.percentile(known, [10, 50, 90]) if known.size else np.full(3, np.nan)


def _boxes(
    percentiles: np.ndarray, drawn: np.ndarray, at: np.ndarray, half: float, colour: str, outline: float
) -> go.Scatter:
    """One filled trace. On a log axis a box that reaches down to 0 starts at the smallest value that is drawn."""
    floor = np.nanmin(drawn, initial=np.inf)
    xs: list[float] = []
    ys: list[float] = []
    for row in at:
        low, _, high = percentiles[row]
        if not high >= floor:  # NaN, or nothing that has a place
            continue
        low = max(low, floor)
        xs += [row - half, row + half, row + half, row - half, row - half, np.nan]
        ys += [low, low, high, high, low, np.nan]
    return go.Scatter(
        x=np.array(xs, dtype=np.float32),
        y=np.array(ys, dtype=np.float32),
        mode="lines",
        line={"width": outline, "color": colour},
        fill="toself",
        fillcolor=translucent(colour, 0.22),
        hoverinfo="skip",
        name="10th to 90th percentile",
    )


def _points(
    drawn: np.ndarray, at: np.ndarray, most: int, half: float, rows: Sequence[str], names: Sequence[str], colour: str
) -> go.Scatter:
    picked = [(row, token) for row in at for token in _even_ranks(drawn[row], most)]
    row, token = np.array(picked, dtype=int).reshape(-1, 2).T
    across = (2 * token / max(1, drawn.shape[1] - 1) - 1) * half if drawn.shape[1] > 1 else np.zeros(len(token))
    return go.Scatter(
        x=(row + across).astype(np.float32),
        y=drawn[row, token],
        mode="markers",
        marker={"size": 5 if len(rows) <= 16 else 3, "color": colour, "opacity": 0.55, "line": {"width": 0}},
        hovertext=[f"{rows[r]}, token <b>\u2068{names[t]}\u2069</b>" for r, t in picked],
        hovertemplate="%{hovertext}: %{y:.4~g}<extra></extra>",
        name="a token",
    )


def _even_ranks(values: np.ndarray, most: int) -> np.ndarray:
    """The tokens to draw: all that have a value, or `most` of them, the smallest and the largest among these."""
    order = np.argsort(values, kind="stable")[: np.isfinite(values).sum()]
    return order if len(order) <= most else order[np.linspace(0, len(order) - 1, most).round().astype(int)]


def _medians(
    percentiles: np.ndarray,
    absent: np.ndarray,
    at: np.ndarray,
    half: float,
    rows: Sequence[str],
    colour: str,
    log: bool,
) -> go.Scatter:
    """A stroke across each row, with a point to hover in its middle."""
    middle = np.where((percentiles[:, 1] > 0) | (not log), percentiles[:, 1], np.nan)
    hover = []
    for row in at:
        low, median, high = (format_number(float(value)) for value in percentiles[row])
        missing = f"<br>of 0 or below, not drawn: {absent[row]}" if absent[row] else ""
        hover += [f"<b>{rows[row]}</b>, median {median}<br>10th to 90th percentile: {low} to {high}{missing}"] * 3 + [
            ""
        ]
    return go.Scatter(
        x=(at[:, None] + np.array([-half, 0, half, np.nan])).ravel().astype(np.float32),
        y=(middle[at, None] + np.array([0, 0, 0, np.nan])).ravel().astype(np.float32),
        mode="lines",
        line={"width": 3, "color": colour},
        hovertext=hover,
        hoverinfo="text",
        name="median",
    )


def _left_out(most: int, n_tokens: int, absent: int, title: str) -> str:
    """What is not drawn, for the title of the axis: on a line of its own where the title has a rule already."""
    said = [f"{most} of {n_tokens} tokens drawn"] if most < n_tokens else []
    said += [f"{absent:,} values of 0 or below not drawn"] if absent else []
    return "".join(("<br>" if "·" in title or i else " · ") + text for i, text in enumerate(said))
