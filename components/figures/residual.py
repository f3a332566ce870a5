"""The residual stream: how long each token's vector is, and what the sublayers add to it."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import empty_figure
from components.figures.lines import band, check_additions, check_lengths, depth_axis, line, log_axis, with_legend
from components.labels import plotly_escape
from components.theme import Palette


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
    check_lengths(n, mean=mean, low=low, high=high)
    check_additions(attn_added, ff_added, attn_positions, ff_positions)
    stream, attn, ff = palette.series[0], palette.series[1], palette.series[2]
    figure = empty_figure("stream_growth", palette, title=plotly_escape(title), height=height)
    figure.add_traces(
        [
            band(low, high, stream),
            line("stream, mean", np.arange(n), mean, stream, width=3, dash="solid", symbol="circle", size=7),
            line("attention adds", attn_positions, attn_added, attn, width=1.5, dash="dot", symbol="square", size=9),
            line("feed-forward adds", ff_positions, ff_added, ff, width=1.5, dash="dot", symbol="diamond", size=10),
        ]
    )
    figure.update_layout(
        with_legend(title, height),
        xaxis=depth_axis(checkpoint_names),
        yaxis={"title": {"text": "L2 norm"}, "hoverformat": ".4~g"}
        | (log_axis(low, high, attn_added, ff_added) if log else {"rangemode": "tozero"}),
    )
    return figure
