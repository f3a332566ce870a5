"""How a cost grows with one size, on two logarithmic axes: a power is a straight line."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import NARROW_WIDTH, empty_figure
from components.figures.lines import log_axis, with_legend
from components.labels import plotly_escape
from components.theme import Palette, format_number

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_COLUMNS, _LETTER, _LINE = 25, 6.0, 16
_CHROME = 190


def growth_curves(
    x: np.ndarray,
    lines: Mapping[str, np.ndarray],
    *,
    present: float,
    marks: Sequence[tuple[float, str]],
    x_title: str,
    y_title: str,
    palette: Palette,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """`lines`, each `[x]`, over sizes `x`: the slope of a curve is its power. A value that is not above 0 is a gap.

    A line marks the `present` size, dotted ones the other `marks`. Their labels stand above all curves.

    Raises:
        ValueError: If a size is not above 0, or a line does not have one number for each.
    """
    sizes = np.asarray(x, dtype=np.float64)
    labels = [(float(present), f"now: {format_number(present)}"), *((float(at), text) for at, text in marks)]
    if sizes.ndim != 1 or not (np.concatenate([sizes, [at for at, _ in labels]]) > 0).all():
        raise ValueError(f"x [size], present and marks must be above 0, not {list(sizes)} and {labels}")
    curves = {}
    for name, values in lines.items():
        if np.shape(values) != sizes.shape:
            raise ValueError(f"{name} must be [size] = {list(sizes.shape)}, not {list(np.shape(values))}")
        curves[name] = np.where(np.isfinite(values) & (np.asarray(values) > 0), values, np.nan)

    figure = empty_figure("growth_curves", palette, title=plotly_escape(title), height=height)
    for number, (name, values) in enumerate(curves.items()):
        colour = palette.series[number % len(palette.series)]
        dash = _DASHES[(number + number // len(palette.series)) % len(_DASHES)]
        figure.add_trace(_curve(name, sizes, values, colour, dash, x_title, y_title))
    places = np.array([at for at, _ in labels])
    span = _span(np.concatenate([sizes, places]), 0.04)
    room = _mark(figure, labels, span, palette)
    low, high = _span(np.concatenate([*curves.values()]), 0.05)
    high += (high - low) * room / (height - _CHROME - room)  # the labels stand in it
    figure.update_layout(
        with_legend(title, height),
        xaxis=log_axis(sizes, places) | {"title": {"text": plotly_escape(x_title)}, "range": span},
        yaxis=log_axis(*curves.values()) | {"title": {"text": plotly_escape(y_title)}, "range": (low, high)},
    )
    return figure


def _curve(name: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, x_title: str, y_title: str) -> go.Scatter:
    name, x_title, y_title = plotly_escape(name), plotly_escape(x_title), plotly_escape(y_title)
    return go.Scatter(
        x=x.astype(np.float32),
        y=y.astype(np.float32),
        mode="lines+markers",
        line={"color": colour, "width": 2.5, "dash": dash},
        marker={"color": colour, "size": 6 if len(x) <= 24 else 3},
        name=name,
        hovertext=[
            f"{name}<br>{x_title}: {format_number(float(at))}<br>{y_title}: {format_number(float(value))}"
            for at, value in zip(x, y, strict=True)
        ],
        hoverinfo="text",
    )


def _span(values: np.ndarray, margin: float) -> tuple[float, float]:
    """The powers of ten from the smallest to the largest value, and a share of that beyond."""
    known = np.log10(values[values > 0])  # NaN is not
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    beyond = margin * (high - low) or 0.5
    return low - beyond, high + beyond


def _mark(figure: go.Figure, labels: Sequence[tuple[float, str]], span: tuple[float, float], palette: Palette) -> float:
    """Draws each line and its label, the first one solid; returns the height in pixels that the labels take.

    A label stands to the right of its line, or to the left of one in the right half of the figure. One that would
    cover another moves below it.
    """
    boxes: list[tuple[float, float, float, float]] = []
    for number, (at, text) in enumerate(labels):
        place = float(np.log10(at))
        centre = (place - span[0]) / (span[1] - span[0]) * NARROW_WIDTH
        rows = textwrap.wrap(text, _COLUMNS)
        width, to_left = 8 + _LETTER * max(map(len, rows), default=0), centre > NARROW_WIDTH / 2
        x0, x1 = (centre - width, centre) if to_left else (centre, centre + width)
        top = 2.0
        for a, b, _, bottom in sorted(boxes, key=lambda box: box[2]):
            if x0 < b and x1 > a:
                top = max(top, bottom)
        boxes.append((x0, x1, top, top + _LINE * len(rows) + 2))
        colour = palette.muted if number else palette.text
        figure.add_vline(x=at, line={"color": colour, "width": 1.5, "dash": "dot" if number else "solid"})
        figure.add_annotation(
            x=place,
            y=1,
            yref="paper",
            text="<br>".join(map(plotly_escape, rows)),
            showarrow=False,
            xanchor="right" if to_left else "left",
            xshift=-3 if to_left else 3,
            yanchor="top",
            yshift=-top,
            align="right" if to_left else "left",
            bgcolor=palette.background,
            borderpad=0,
            font={"size": 12, "color": palette.text},
        )
    return max(bottom for *_, bottom in boxes) + 2
