"""A matrix with names on both sides, as it travels to the canvas."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from components.canvas import read_packet, write_packet
from components.labels import EMPTY

VERSION = 1
MAX_SIDE = 4096
"""Most rows or columns: 32 layers of 128 heads."""
CLEAR = 99
"""The percentile of all sizes at which colours around 0 end where `clear_end` chooses it."""


@dataclass(frozen=True, slots=True)
class Side:
    """A column of numbers beside the rows, such as the sum of each."""

    title: str
    values: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Values `[row, col]` and every word that the canvas says about them. Names are plain text, shown as they are.

    Raises:
        ValueError: If values, names and padding disagree, the colours have no range, or there is no such row.
    """

    values: np.ndarray
    rows: Sequence[str]
    cols: Sequence[str]
    title: str
    row_title: str
    col_title: str
    phrase: tuple[str, str, str]
    """What the hover says: before the row's name, between the names, before the value."""
    unit: str = "weight"
    low: float = 0.0
    high: float = 1.0
    """The values at the ends of the colours. From below 0 to above it: differences, with 0 in the middle."""
    floor: float = 1e-4
    """Share of `high` at which logarithmic colours begin; what is smaller has the first colour."""
    row_padding: np.ndarray | None = None
    col_padding: np.ndarray | None = None
    square: bool = True
    """Whether a cell is as wide as it is high."""
    whole: bool = False
    """Whether all of it is drawn at once however small a cell becomes; else a window on it, where cells are legible."""
    written: bool = False
    """Whether the value stands in each cell that has room for it."""
    row_group: int = 1
    """Rows that belong together, such as the heads of a layer: a line parts the groups."""
    chosen_row: int | None = None
    """A row that is framed whatever the reader does, such as the chosen head."""
    sides: Sequence[Side] = field(default=())
    file: str = "matrix"
    """In the name of a saved picture, where all but ASCII letters, digits and `_` become `-`."""

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.cols))
        if np.shape(self.values) != shape or 0 in shape or max(shape) > MAX_SIDE:
            raise ValueError(f"values must be [row, col] = {list(shape)}, 1 to {MAX_SIDE}, not {np.shape(self.values)}")
        for name, flags, count in (("row", self.row_padding, shape[0]), ("col", self.col_padding, shape[1])):
            if flags is not None and (np.asarray(flags).dtype != bool or np.shape(flags) != (count,)):
                raise ValueError(f"{name}_padding must be bool [{count}]")
        for side in self.sides:
            if np.shape(side.values) != (shape[0],):
                raise ValueError(f"the side {side.title!r} must have {shape[0]} values, not {np.shape(side.values)}")
        if not 0 < self.high < math.inf or self.low not in (0, -self.high):
            raise ValueError(f"colours must run from 0 up, or evenly around 0, not from {self.low} to {self.high}")
        if not 0 < self.floor < 1:
            raise ValueError(f"floor ({self.floor}) must lie between 0 and 1, both excluded: it is a share of high")
        if self.row_group < 1:
            raise ValueError(f"row_group ({self.row_group}) must be at least 1")
        if self.chosen_row is not None and not 0 <= self.chosen_row < shape[0]:
            raise ValueError(f"chosen_row ({self.chosen_row}) must be one of {shape[0]} rows")


def pack_matrix(matrix: Matrix) -> bytes:
    """Header, then float32 `[row, col]`, then float32 `[side, row]`. NaN is a cell without a value."""

    def flags(padding: np.ndarray | None, count: int) -> list[int]:
        return [0] * count if padding is None else np.asarray(padding).astype(int).tolist()

    header = {
        "version": VERSION,
        "rows": [name or EMPTY for name in matrix.rows],
        "cols": [name or EMPTY for name in matrix.cols],
        "title": matrix.title,
        "row_title": matrix.row_title,
        "col_title": matrix.col_title,
        "phrase": list(matrix.phrase),
        "unit": matrix.unit,
        "low": float(matrix.low),
        "high": float(matrix.high),
        "floor": float(matrix.floor),
        "row_padding": flags(matrix.row_padding, len(matrix.rows)),
        "col_padding": flags(matrix.col_padding, len(matrix.cols)),
        "square": matrix.square,
        "whole": matrix.whole,
        "written": matrix.written,
        "beyond": _beyond(matrix),
        "row_group": matrix.row_group,
        "chosen_row": matrix.chosen_row,
        "sides": [side.title for side in matrix.sides],
        "file": re.sub(r"[^A-Za-z0-9_]+", "-", matrix.file).strip("-") or "matrix",
    }
    parts = [matrix.values, *(side.values for side in matrix.sides)]
    body = b"".join(np.ascontiguousarray(part, dtype="<f4").tobytes() for part in parts)
    return write_packet(header, body)


def _beyond(matrix: Matrix) -> list[bool]:
    """Whether values lie below and above the colours: they have the colour of its end, and the legend says so."""
    values, rounding = np.asarray(matrix.values, dtype=np.float64), 1e-6 * matrix.high
    return [bool((values < matrix.low - rounding).any()), bool((values > matrix.high + rounding).any())]


def clear_end(values: np.ndarray) -> float:
    """The size at which colours around 0 end: all but a hundredth of the values are smaller.

    A few dimensions of a stream are so large that all others would be pale. NaN and infinity are left out.
    """
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    sizes = sizes[np.isfinite(sizes)]
    return (float(np.percentile(sizes, CLEAR)) or float(sizes.max()) or 1.0) if sizes.size else 1.0


def packed_values(payload: bytes) -> np.ndarray:
    """The values `[row, col]` of what `pack_matrix` made, read-only."""
    header, body = read_packet(payload)
    shape = len(header["rows"]), len(header["cols"])
    return np.frombuffer(body, dtype="<f4", count=shape[0] * shape[1]).reshape(shape)
