"""What was measured in A and in B, on one grid, and the difference."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from explorer.comparison.alignment import ABSENT, Alignment

T = TypeVar("T", bound=Hashable)
Row = tuple[Hashable, ...]
"""The name of a row of a grid, such as ("mid", 3)."""
Where = tuple[np.ndarray, np.ndarray]
"""Row and slot of each observation."""

PLACE = ("sentence", "layer", "pos", "position")
"""Columns that say where something was measured, in every table of `explorer.tables`."""


class Sides(NamedTuple):
    """A, B, and b - a: three read-only arrays of one shape. NaN where a side has nothing, and so in the difference.

    With A and B swapped, every difference is the same with the other sign, bit for bit.
    """

    a: Float[np.ndarray, "*axes"]
    b: Float[np.ndarray, "*axes"]
    difference: Float[np.ndarray, "*axes"]

    @classmethod
    def of(cls, a: Float[np.ndarray, "*axes"], b: Float[np.ndarray, "*axes"]) -> "Sides":
        """The two, and their difference."""
        sides = cls(a, b, b - a)
        for array in sides:
            array.flags.writeable = False
        return sides


def union(first: Sequence[T], second: Sequence[T], depth: Mapping[T, float]) -> list[T]:
    """What either has, once, by depth; in one depth in the order that both agree on."""
    merged: list[T] = []
    rest = list(second)
    for item in first:
        until = rest.index(item) + 1 if item in rest else 0
        merged += rest[:until] if until else [item]
        del rest[:until]
    return sorted(merged + rest, key=depth.__getitem__)


def rows_of(table_a: pd.DataFrame, table_b: pd.DataFrame, keys: Sequence[str]) -> list[Row]:
    """The rows that either table has, as values of these columns, from the embedding to the end. <NA> is None here.

    Both tables have a column `layer`. Rows without one come first or last, as in their own table.
    """
    depth_a, depth_b = _depths(table_a, keys), _depths(table_b, keys)
    return union(list(depth_a), list(depth_b), depth_a | depth_b)


def aligned(
    table_a: pd.DataFrame, table_b: pd.DataFrame, alignment: Alignment, keys: Sequence[str], value: str
) -> Sides:
    """One column of two tables as `[row, slot]`, in float64: rows as of `rows_of`, slots as of the alignment.

    The tables are of one sentence each, one observation a row and token.
    """
    rows = rows_of(table_a, table_b, keys)
    shape = len(rows), len(alignment.tokens)
    where_a, where_b = _where(table_a, alignment.a, keys, rows), _where(table_b, alignment.b, keys, rows)
    return Sides.of(_grid(table_a[value], where_a, shape), _grid(table_b[value], where_b, shape))


def beside(table_a: pd.DataFrame, table_b: pd.DataFrame, alignment: Alignment, keys: Sequence[str]) -> pd.DataFrame:
    """Two tables as one: the keys, slot and token, then each measured column as `_a`, `_b` and `_difference`.

    One row for each that either table has. What only one table has is NaN in the other, and so is its difference.
    """
    rows = rows_of(table_a, table_b, keys)
    shape = len(rows), len(alignment.tokens)
    where_a, where_b = _where(table_a, alignment.a, keys, rows), _where(table_b, alignment.b, keys, rows)
    there = np.zeros(shape, dtype=bool)
    there[where_a] = True
    there[where_b] = True
    row, slot = np.nonzero(there)
    columns: dict[str, object] = {
        key: pd.Series([rows[number][index] for number in row], dtype="Int64" if key == "layer" else None)
        for index, key in enumerate(keys)
    }
    columns |= {"slot": slot, "token": [alignment.tokens[number] for number in slot]}
    measured = table_a.select_dtypes("number").columns.intersection(table_b.columns, sort=False)
    for value in measured.difference([*keys, *PLACE], sort=False):
        sides = Sides.of(_grid(table_a[value], where_a, shape), _grid(table_b[value], where_b, shape))
        columns |= {f"{value}_{side}": grid[row, slot] for side, grid in sides._asdict().items()}
    return pd.DataFrame(columns)


def _where(table: pd.DataFrame, place: Int[np.ndarray, " slot"], keys: Sequence[str], rows: list[Row]) -> Where:
    number = {row: index for index, row in enumerate(rows)}
    slots = np.flatnonzero(place != ABSENT)
    slot_of = np.full(int(place.max()) + 1, ABSENT)
    slot_of[place[slots]] = slots
    return np.array([number[row] for row in _names(table, keys)]), slot_of[table["pos"]]


def _grid(values: pd.Series, where: Where, shape: tuple[int, int]) -> Float[np.ndarray, "row slot"]:
    grid = np.full(shape, np.nan)
    grid[where] = values.to_numpy(np.float64, na_value=np.nan)
    return grid


def _names(table: pd.DataFrame, keys: Sequence[str]) -> list[Row]:
    columns = [table[key].astype(object).where(table[key].notna(), None) for key in keys]
    return list(zip(*columns, strict=True))


def _depths(table: pd.DataFrame, keys: Sequence[str]) -> dict[Row, float]:
    """The rows of one table in its order, and the layer of each."""
    layer = table["layer"].to_numpy(np.float64, na_value=np.nan)
    before = np.isnan(layer) & ~np.maximum.accumulate(~np.isnan(layer))
    depth = np.where(before, -np.inf, np.where(np.isnan(layer), np.inf, layer))
    return dict(zip(_names(table, keys), depth.tolist(), strict=True))
