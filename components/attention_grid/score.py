"""One number a head, drawn over the grid, with the means of its layers and of its heads."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.theme import INFINITY, MINUS, MISSING, format_number


@dataclass(frozen=True, slots=True)
class GridScore:
    """Values `[layer, head]` under one name; NaN is a head without a value. Bars run from 0 to `high`.

    Raises:
        ValueError: If the values are not `[layer, head]`, or bars would have no length.
    """

    label: str
    """Name and unit, such as "Entropy (nats)"."""
    values: np.ndarray
    high: float
    """The value of a full bar; a larger one is drawn as full."""

    def __post_init__(self) -> None:
        if np.ndim(self.values) != 2 or 0 in np.shape(self.values):
            raise ValueError(f"values must be [layer, head], not {list(np.shape(self.values))}")
        if not 0 < self.high < math.inf:  # also false for NaN
            raise ValueError(f"high ({self.high}) must be a positive number: it is the end of the bar")


def short_number(value: float) -> str:
    """Two significant digits for the 30 pixels of a tile: .68, 1.9, 12, 120, 3.4k; ≈0 below .01."""
    if math.isnan(value):
        return MISSING
    sign, size = (MINUS if value < 0 else ""), abs(value)
    if math.isinf(size):
        return sign + INFINITY
    if size < 0.00995:
        return "≈0" if size else "0"
    unit = ""
    for larger in "kMG":
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    digits = f"{size:.2g}" if size < 99.5 else f"{size:.0f}"
    return sign + (digits[1:] if digits.startswith("0.") else digits) + unit


def announcement(score: GridScore) -> dict[str, Any]:
    """The score as the grid draws it: bars from 0 to 1, and texts. NaN, which no browser reads, is None and "–"."""
    values = np.asarray(score.values, dtype=np.float64)
    bars = (values / score.high).clip(0, 1).round(3)
    return {
        "label": score.label,
        "high": format_number(float(score.high)),
        "bars": [[None if math.isnan(bar) else bar for bar in layer] for layer in bars.tolist()],
        "short": [[short_number(value) for value in layer] for layer in values.tolist()],
        "full": [[format_number(value) for value in layer] for layer in values.tolist()],
        "layers": [short_number(mean) for mean in _means(values, axis=1)],
        "heads": [short_number(mean) for mean in _means(values, axis=0)],
    }


def _means(values: np.ndarray, axis: int) -> list[float]:
    """Means of what has a value; NaN where nothing has one."""
    known = (~np.isnan(values)).sum(axis)
    return np.where(known, np.nansum(values, axis) / np.maximum(known, 1), np.nan).tolist()
