"""Where the vectors of the stream point: how far they turn, how alike they are, and what is added along them."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import empty_figure
from components.figures.lines import band, check_additions, check_lengths, depth_axis, line, with_legend
from components.labels import plotly_escape
from components.theme import Palette


def cosine_curves(
    checkpoint_names: Sequence[str],
    successive: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    between: np.ndarray,
    attn_cosine: np.ndarray,
    ff_cosine: np.ndarray,
    attn_positions: np.ndarray,
    ff_positions: np.ndarray,
    *,
    palette: Palette,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """Cosines over depth: 1 points the same way, 0 stands at a right angle, -1 points back.

    `successive`, `[checkpoint]`, is that of a token with itself at the checkpoint before, the mean over tokens (NaN at
    the first); `low` and `high` are its 10th and 90th percentile. `between`, `[checkpoint]`, is the mean over pairs of
    different tokens (NaN for one token). `attn_cosine` and `ff_cosine`, `[layer]`, are those of what a sublayer adds
    with the stream it is added to, drawn at the index of the checkpoint that follows the addition.

    Raises:
        ValueError: If an array does not have one number for each checkpoint, or for each layer.
    """
    n = len(checkpoint_names)
    check_lengths(n, successive=successive, low=low, high=high, between=between)
    check_additions(attn_cosine, ff_cosine, attn_positions, ff_positions)
    turn, attn, ff, alike = palette.series[:4]
    at = np.arange(n)
    figure = empty_figure("cosine_curves", palette, title=plotly_escape(title), height=height)
    figure.add_traces(
        [
            band(low, high, turn),
            line("with checkpoint before", at, successive, turn, width=3, dash="solid", symbol="circle", size=7),
            line("between tokens", at, between, alike, width=2, dash="dash", symbol="triangle-up", size=9),
            line("attention adds", attn_positions, attn_cosine, attn, width=1.5, dash="dot", symbol="square", size=9),
            line("feed-forward adds", ff_positions, ff_cosine, ff, width=1.5, dash="dot", symbol="diamond", size=10),
        ]
    )
    figure.update_layout(
        with_legend(title, height),
        xaxis=depth_axis(checkpoint_names),
        yaxis={
            "title": {"text": "cosine"},
            "range": (-1.05, 1.05),
            "tickvals": [-1, -0.5, 0, 0.5, 1],
            "zeroline": True,
            "zerolinecolor": palette.muted,
            "zerolinewidth": 1,
        },
    )
    return figure
