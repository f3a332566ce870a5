"""What training does, step by step: loss, accuracy and gradients."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import empty_figure
from components.figures.lines import log_axis, with_legend
from components.labels import plotly_escape
from components.theme import Palette

_DASHES = ("solid", "dash", "dot", "dashdot")
_ROWS = {"loss": ("y", (0.7, 1.0)), "accuracy": ("y2", (0.36, 0.64)), "gradient": ("y3", (0.0, 0.3))}


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """One training: a number for each step."""

    steps: np.ndarray
    loss: np.ndarray
    """In nats."""
    accuracy: np.ndarray
    """From 0 to 1."""
    gradients: np.ndarray
    """Norm of the gradient of each layer, `[step, layer]`."""


def training_curves(
    trainings: Mapping[str, Curves], *, n_steps: int, palette: Palette, title: str = "", height: int = 430
) -> go.Figure:
    """Loss, accuracy and the gradient of the first and the last layer over the steps, of each training.

    `n_steps` is where the axis ends from the beginning, so that the picture does not move while it grows.

    Raises:
        ValueError: If a curve does not have one number for each step.
    """
    figure = empty_figure("training_curves", palette, title=plotly_escape(title), height=height)
    for number, (name, curves) in enumerate(trainings.items()):
        n = len(curves.steps)
        if len(curves.loss) != n or len(curves.accuracy) != n or len(curves.gradients) != n:
            raise ValueError(f"{name}: loss, accuracy and gradients must have one number for each of {n} steps")
        colour, dash = palette.series[number], _DASHES[number % len(_DASHES)]
        for row, values in {"loss": curves.loss, "accuracy": curves.accuracy}.items():
            figure.add_trace(_line(name, row, curves.steps, values, colour, dash, seen=row == "loss"))
        n_layers = curves.gradients.shape[1]
        for layer in sorted({0, n_layers - 1}):
            label, width = f"{name}, layer {layer}", 1.5 if layer == 0 < n_layers - 1 else 2.5
            figure.add_trace(
                _line(
                    label, "gradient", curves.steps, curves.gradients[:, layer], colour, dash, seen=False, width=width
                )
            )
    every = [np.ravel(curves.gradients) for curves in trainings.values()]
    titles = {"loss": "loss, nats", "accuracy": "accuracy", "gradient": "gradient"}
    axes = {
        "yaxis" + axis[1:]: {"domain": domain, "title": {"text": titles[row]}, "nticks": 4}
        for row, (axis, domain) in _ROWS.items()
    }
    axes["yaxis"] |= {"rangemode": "tozero"}
    axes["yaxis2"] |= {"range": (-0.02, 1.04), "tickvals": [0, 0.5, 1]}
    axes["yaxis3"] |= log_axis(*every, np.array([]))
    axes["xaxis"] = {"title": {"text": "step"}, "range": (0, n_steps), "anchor": "y3"}
    figure.update_layout(with_legend(title, height), **axes)
    return figure


def _line(
    name: str, row: str, x: np.ndarray, y: np.ndarray, colour: str, dash: str, *, seen: bool, width: float = 2.5
) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=np.asarray(y, dtype=np.float32),
        mode="lines",
        line={"color": colour, "width": width, "dash": dash},
        yaxis=_ROWS[row][0],
        name=name,
        legendgroup=name,
        showlegend=seen,
        hovertemplate=f"{name}, step %{{x}}: {row} %{{y:.4~g}}<extra></extra>",
    )
