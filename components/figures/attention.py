"""One attention head at full size: who looks at whom, and how much."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import (
    BAR_MARGIN,
    LOG_FLOOR,
    SCALES,
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
from components.theme import Palette

_BAR_TITLES = {"linear": "weight", "sqrt": "weight (√ scale)", "log": "weight (log scale)"}
_CHROME = 140
_GAPS_UP_TO = 40


def attention_heatmap(
    pattern: np.ndarray,
    tokens: Sequence[str],
    *,
    palette: Palette,
    layer: int,
    head: int,
    query_padding: np.ndarray | None = None,
    key_padding: np.ndarray | None = None,
    scale: str = "linear",
    height: int = 430,
) -> go.Figure:
    """The attention weights of one head, `pattern [query, key]`: queries top to bottom, keys left to right.

    Colours run from 0 to 1 in every head, so two heads compare at a glance. `scale` "sqrt" or "log" moves the
    colours towards small weights, never the weights. Rows of padded queries, and columns of padded keys, are not
    data: hatched, and the hover says "padding". Pass `key_padding` all False to see what an encoder without a
    mask gives to its pads.

    Raises:
        ValueError: If the pattern is not square over the tokens, or the scale has no name here.
    """
    n = len(tokens)
    if np.shape(pattern) != (n, n):
        raise ValueError(f"the pattern must be [query, key] = [{n}, {n}] for {n} tokens, not {list(np.shape(pattern))}")
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, not {scale!r}")
    padded_queries = as_mask(query_padding, n, "query_padding")
    padded_keys = as_mask(key_padding, n, "key_padding")
    weights = np.array(pattern, dtype=np.float32)
    weights[padded_queries, :] = np.nan
    weights[:, padded_keys] = np.nan

    low = LOG_FLOOR if scale == "log" else 0.0
    bar = colourbar(_BAR_TITLES[scale], scale, low, 1.0)
    figure = empty_figure(
        "attention_heatmap", palette, title=f"L{layer} H{head}", height=height, layer=layer, head=head
    )
    figure.add_heatmap(
        z=weights,
        x0=0,
        dx=1,
        y0=0,
        dy=1,
        zmin=0,
        zmax=1,
        colorscale=_weight_colours(palette, scale),
        showscale=scale == "linear",
        colorbar=bar,
        xgap=1 if n <= _GAPS_UP_TO else 0,
        ygap=1 if n <= _GAPS_UP_TO else 0,
        # The isolates U+2068 and U+2069 keep a right-to-left token from turning the sentence around.
        hovertemplate="query <b>\u2068%{y}\u2069</b> attends to key <b>\u2068%{x}\u2069</b>: %{z:.4~g}<extra></extra>",
        hoverongaps=False,
        name="weight",
    )
    boxes = _padding_boxes(padded_queries, padded_keys)
    if boxes:
        figure.add_trace(hatch(boxes, palette))
    if scale != "linear":
        figure.add_trace(colourbar_trace(palette.sequential, bar))
    room = height - _CHROME
    figure.update_layout(
        margin={"t": BAR_MARGIN},
        title={"pad": {"b": 22}},
        xaxis=upright(name_axis(tokens, title="key (is looked at)", what="token", room=room), room)
        | {"scaleanchor": "y", "constrain": "domain", "constraintoward": "right"},
        yaxis=name_axis(tokens, title="query (looks)", what="token", room=room, reverse=True)
        | {"constrain": "domain", "constraintoward": "top"},
    )
    return figure


def _weight_colours(palette: Palette, scale: str) -> list[list[object]]:
    """Colours over the weights 0 to 1. On the log scale all below the floor of 0.0001 share the palest colour."""
    if scale != "log":
        return scaled(palette.sequential, scale, 0.0, 1.0)
    stops = scaled(palette.sequential, "log", LOG_FLOOR, 1.0)
    raised = [[LOG_FLOOR + (1 - LOG_FLOOR) * place, colour] for place, colour in stops]
    return [[0.0, stops[0][1]], *raised[:-1], [1.0, stops[-1][1]]]


def _padding_boxes(queries: np.ndarray, keys: np.ndarray) -> list[tuple[float, float, float, float]]:
    """The padded part as boxes that do not overlap: whole rows, then in the other rows the padded columns."""
    right = len(keys) - 0.5
    rows = [(-0.5, right, y0, y1) for y0, y1 in runs(queries)]
    return rows + [(x0, x1, y0, y1) for x0, x1 in runs(keys) for y0, y1 in runs(~queries)]
