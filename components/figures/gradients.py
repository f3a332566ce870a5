"""Gradients at the start of training: against depth, and layer by layer."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import empty_figure
from components.figures.lines import line, log_axis, with_legend
from components.labels import plotly_escape
from components.theme import Palette

_SYMBOLS = ("circle", "diamond")


def gradients_against_depth(
    points: Mapping[str, tuple[np.ndarray, np.ndarray]],
    theory: Mapping[str, float],
    *,
    palette: Palette,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """Norms over depths for each placement, `(depths, norms)`, on two logarithmic axes; a slope is a power.

    A dotted line of the slope of the theory goes through the middle of the points it stands for.

    Raises:
        ValueError: If a placement does not have one norm for each depth.
    """
    figure = empty_figure("gradients_against_depth", palette, title=plotly_escape(title), height=height)
    for number, (name, (depths, norms)) in enumerate(points.items()):
        if np.shape(depths) != np.shape(norms):
            raise ValueError(f"{name}: {np.shape(depths)} depths do not match {np.shape(norms)} norms")
        colour = palette.series[number]
        figure.add_trace(_line(name, depths, norms, number, palette))
        if len(depths) > 1:
            middle = np.exp(np.log(norms).mean()) * (depths / np.exp(np.log(depths).mean())) ** theory[name]
            figure.add_scatter(
                x=depths,
                y=middle,
                mode="lines",
                line={"color": colour, "width": 1.5, "dash": "dot"},
                name=f"{name}, theory",
                hoverinfo="skip",
            )
    all_depths, all_norms = ([pair[i] for pair in points.values()] for i in (0, 1))
    ticks = [2, 4, 6, 8, 12]
    figure.update_layout(
        with_legend(title, height),
        xaxis=log_axis(*all_depths, np.array(ticks))
        | {"title": {"text": "layers"}, "tickvals": ticks, "ticktext": [str(tick) for tick in ticks]},
        yaxis=log_axis(*all_norms, np.array([])) | {"title": {"text": "norm of the gradient of the last W₂"}},
    )
    return figure


def gradients_by_layer(
    lines: Mapping[str, np.ndarray], *, palette: Palette, title: str = "", height: int = 430
) -> go.Figure:
    """The norm of the gradient of W₂ in each layer, `[layer]`, of each placement, on a logarithmic axis."""
    figure = empty_figure("gradients_by_layer", palette, title=plotly_escape(title), height=height)
    for number, (name, norms) in enumerate(lines.items()):
        figure.add_trace(_line(name, np.arange(len(norms)), norms, number, palette))
    figure.update_layout(
        with_legend(title, height),
        xaxis={"title": {"text": "layer"}, "dtick": 1, "showgrid": False},
        yaxis=log_axis(*lines.values(), np.array([])) | {"title": {"text": "norm of the gradient of W₂"}},
    )
    return figure


def _line(name: str, x: np.ndarray, y: np.ndarray, number: int, palette: Palette) -> go.Scatter:
    return line(name, x, y, palette.series[number], width=3, dash="solid", symbol=_SYMBOLS[number % 2], size=9)
