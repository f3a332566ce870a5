"""One quantity over depth in several encoders, each a line with its spread."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import empty_figure
from components.figures.lines import band, check_lengths, depth_axis, line, log_axis, with_legend
from components.labels import plotly_escape
from components.theme import Palette

_DASHES, _SYMBOLS = ("solid", "dash"), ("circle", "diamond")


def compared_over_depth(
    checkpoint_names: Sequence[str],
    lines: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    *,
    quantity: str,
    palette: Palette,
    log: bool = False,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """Mean, low and high of each of two encoders, `[checkpoint]` each: NaN where one has no such checkpoint.

    Raises:
        ValueError: If an array does not have one number for each checkpoint.
    """
    n = len(checkpoint_names)
    figure = empty_figure("compared_over_depth", palette, title=plotly_escape(title), height=height)
    for number, (name, (mean, low, high)) in enumerate(lines.items()):
        check_lengths(n, mean=mean, low=low, high=high)
        colour, style = palette.series[number], number % 2
        figure.add_trace(band(low, high, colour).update(showlegend=False))
        figure.add_trace(
            line(name, np.arange(n), mean, colour, width=3, dash=_DASHES[style], symbol=_SYMBOLS[style], size=8)
        )
    every = [part for parts in lines.values() for part in parts]
    figure.update_layout(
        with_legend(title, height),
        xaxis=depth_axis(checkpoint_names),
        yaxis={"title": {"text": quantity}, "hoverformat": ".4~g"} | (log_axis(*every) if log else {}),
    )
    return figure
