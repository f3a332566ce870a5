"""What all figures share: the empty figure, axes of names, the hatch over padding, ticks of a log scale.

Names are never coordinates. An axis of tokens runs over the integers 0 .. n-1, so equal tokens stay apart and
`1`, `2020-01` or `$x$` cannot change its kind. Named ticks carry `ticktext`; `labelalias` holds the label of every
position once, and the hover takes the names of unnamed positions from there. That costs one string a token,
where a text for each cell would cost one a cell.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from components.labels import MAX_GRAPHEMES, axis_labels
from components.theme import Palette, template

MAX_TICK_LABELS = 48
LABEL_PITCH = 12
# The width in pixels that a plot has in half a page at 1280 x 800: what must fit, fits there.
NARROW_WIDTH = 320
PADDING = "padding: not part of the text"


def empty_figure(name: str, colours: Palette, *, title: str, height: int, **meta: Any) -> go.Figure:
    """A figure without traces that carries the page's look and `meta={"figure": name, ...}`, by which it is found."""
    return go.Figure(
        layout={
            "template": template(colours),
            "title": {"text": title},
            "height": height,
            "meta": {"figure": name, **meta},
            "margin": {"t": 34 if title else 12},
            "uirevision": name,
            "hovermode": "closest",
            "showlegend": False,
        }
    )


def naming_step(count: int, room: float) -> int:
    """Every how many positions one is named: at most 48 labels, and no more than fit `room` pixels."""
    return max(1, math.ceil(count / min(MAX_TICK_LABELS, max(1, int(room // LABEL_PITCH)))))


def name_axis(
    names: Sequence[str], *, title: str, what: str, room: float, columns: int = MAX_GRAPHEMES, reverse: bool = False
) -> dict[str, Any]:
    """An integer axis with a name at each position, or at every 2nd, 3rd ...: then the title states the rule.

    `room` is the length in pixels on which horizontal lines of text can be stacked, `columns` the longest label.
    """
    labels, step = axis_labels(names, columns), naming_step(len(names), room)
    named = list(range(0, len(names), step))
    ends = [-0.5, len(names) - 0.5]
    return {
        "type": "linear",
        "tickmode": "array",
        "tickvals": named,
        "ticktext": [labels[i] for i in named],
        "labelalias": {str(i): label for i, label in enumerate(labels)},
        "hoverformat": "d",
        "range": ends[::-1] if reverse else ends,
        "minallowed": ends[0],
        "maxallowed": ends[1],
        "showgrid": False,
        "ticks": "",
        "title": {"text": title if step == 1 else f"{title} · every {_ordinal(step)} {what} named"},
    }


def upright(axis: dict[str, Any], width: float = NARROW_WIDTH) -> dict[str, Any]:
    """The x axis with its labels level where they fit side by side in `width` pixels, else turned to read upwards."""
    longest = max((len(text) for text in axis["ticktext"]), default=0)
    fits = len(axis["tickvals"]) * (longest * 7 + 10) <= width
    return axis | {"tickangle": 0 if fits else -90}


def hatch(boxes: Sequence[tuple[float, float, float, float]], colours: Palette, **trace: Any) -> go.Scatter:
    """One trace that hatches the boxes (x0, x1, y0, y1): not data, and the hover says so.

    A heatmap below needs `hoverongaps=False`, or its own hover would say NaN.
    """
    xs: list[float | None] = []
    ys: list[float | None] = []
    for x0, x1, y0, y1 in boxes:
        xs += [x0, x1, x1, x0, x0, None]
        ys += [y0, y0, y1, y1, y0, None]
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillpattern={
            "shape": "/",
            "size": 7,
            "solidity": 0.28,
            "fgcolor": colours.padding,
            "bgcolor": colours.padding_surface,
            "fillmode": "replace",
        },
        hoveron="fills",
        hoverinfo="text",
        text=PADDING,
        showlegend=False,
        name="padding",
        **trace,
    )


def runs(flags: np.ndarray) -> list[tuple[float, float]]:
    """The stretches of True, as edges between cells: [F, T, T] gives (0.5, 2.5)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], np.asarray(flags, dtype=np.int8), [0]))))
    return [(float(a) - 0.5, float(b) - 0.5) for a, b in edges.reshape(-1, 2)]


def as_mask(flags: np.ndarray | None, length: int, name: str) -> np.ndarray:
    """Bool `[length]`, True = padding; None means no padding.

    Raises:
        ValueError: If it is not bool or has another length.
    """
    if flags is None:
        return np.zeros(length, dtype=bool)
    flags = np.asarray(flags)
    if flags.dtype != np.bool_ or flags.shape != (length,):
        raise ValueError(f"{name} must be bool [{length}], not {flags.dtype} {list(flags.shape)}")
    return flags


def translucent(colour: str, opacity: float) -> str:
    """`#rrggbb` with an opacity, as rgba."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def log_ticks(low: float, high: float, *, most: int = 7) -> list[float]:
    """Round values at which a log scale is labelled: 1, 2, 5 times a power of ten, or powers alone.

    Where it spans less than that, evenly spaced round values: 1.2, 1.4, 1.6.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [d * 10.0**p for p in powers for d in digits if low * 0.999 <= d * 10.0**p <= high * 1.001]
        if len(found) <= most:
            break
    return found[:: math.ceil(len(found) / most)] if len(found) > 2 else _even_ticks(low, high, most)


def _even_ticks(low: float, high: float, most: int) -> list[float]:
    """The multiples of 1, 2 or 5 times a power of ten that lie between two values: as many as there may be."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for digit in (1, 2, 5, 10):
        step = digit * power
        ticks = [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(ticks) <= most:
            break
    return ticks


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
