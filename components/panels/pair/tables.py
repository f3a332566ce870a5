"""The numbers of two runs in one table."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pandas as pd

from components.labels import visible
from components.panels.look import numbers
from components.panels.pair.two import Two
from components.theme import format_number

ONE_SCALE: Final = (
    "Both have one scale of colours; the difference has its own, as far below 0 as above it. "
    "What only one run has is hatched in the other: it is missing, not 0."
)

HEADINGS: Final = {
    "setting_a": "{a}",
    "setting_b": "{b}",
    "value_a": "{a}",
    "value_b": "{b}",
    "difference_ab": "{b} − {a}",
    "norm_a": "L2 norm in {a}",
    "norm_b": "L2 norm in {b}",
    "distance": "L2 norm of {b} − {a}",
    "change": "L2 norm of {b} − {a}",
    "relative": "Share of the length in {a}",
    "cosine": "Cosine of {a} and {b}",
    "shape_a": "Shape in {a}",
    "shape_b": "Shape in {b}",
    "n_a": "Numbers in {a}",
    "n_b": "Numbers in {b}",
}
"""Columns of two runs, with the names that these have on the page. Files keep the names of the columns."""


def pair_numbers(
    two: Two, table: pd.DataFrame, *, downloads: dict[str, Callable[[], pd.DataFrame]] | None = None
) -> None:
    """The numbers behind the pictures of two runs, and their downloads."""
    a, b = two.names
    shown = table.drop(columns="slot", errors="ignore")
    shown = shown.rename(columns={name: heading.format(a=a, b=b) for name, heading in HEADINGS.items()})
    numbers(shown, name="pair", downloads=downloads or {"This table as CSV": lambda: table})


def tidy(two: Two, values: Sequence[np.ndarray], rows: Sequence[str], row: str) -> pd.DataFrame:
    """A row for each value `[row, slot]` that either has, the largest difference first, what only one has last."""
    at, slot = np.nonzero(np.isfinite(values[0]) | np.isfinite(values[1]))
    tokens = np.array(two.tokens, dtype=object)
    table = pd.DataFrame({row: np.array(rows, dtype=object)[at], "token": tokens[slot]})
    for name, array in zip(("value_a", "value_b", "difference_ab"), values, strict=True):
        table[name] = array[at, slot]
    size = table["difference_ab"].abs().to_numpy()
    order = np.argsort(-np.where(np.isnan(size), -1, size), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def about_largest(two: Two, table: pd.DataFrame, row: str, quantity: str) -> str:
    """Where the two differ most, from the table of `tidy`."""
    differing = table[table["difference_ab"].notna()]
    if differing.empty:
        return f"{two.names[0]} and {two.names[1]} have nothing in common here."
    first = differing.iloc[0]
    if first["difference_ab"] == 0:
        return f"{two.names[0]} and {two.names[1]} are exactly equal here: every difference is 0."
    return (
        f"The {quantity} differs most at {visible(first['token'])} in {first[row]}: {format_number(first['value_a'])} "
        f"in {two.names[0]}, {format_number(first['value_b'])} in {two.names[1]}."
    )
