"""The picture of A, that of B with the same colours, and their difference."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import streamlit as st

from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.overview import Scale
from components.panels.pair.two import Two

ENDS_OF_KEYS = ("a", "b", "difference")
"""By these the three are found on the page."""
Pick = Callable[[int | None, int | None], None]


def three(
    two: Two,
    values: Sequence[np.ndarray],
    *,
    key: str,
    of: Hashable,
    titles: Sequence[str],
    scale: Scale,
    colours: str | None = None,
    marked: tuple[int | None, int | None] = (None, None),
    row_paddings: Sequence[np.ndarray] | None = None,
    col_paddings: Sequence[np.ndarray] | None = None,
    height: int,
    end: float | None = None,
    on_pick: Pick,
    **shared: Any,
) -> None:
    """`values` are those of A, of B and the difference, `[row, col]` each; `of` says of what, among all of this key.

    A and B have one scale. That of the difference runs as far below 0 as above it, to `end` or its largest value.
    `shared` goes to each `Matrix`.
    """
    mode = colours or ("log" if scale.log else "linear")
    ends = [(-scale.high if scale.signed else 0.0, scale.high)] * 2
    largest = end or float(np.abs(values[2][np.isfinite(values[2])]).max(initial=0)) or 1.0
    ends.append((-largest, largest))
    for number, column in enumerate(st.columns(3)):

        def make(number: int = number) -> bytes:
            low, high = ends[number]
            return pack_matrix(
                Matrix(
                    values=values[number],
                    title=titles[number],
                    low=low,
                    high=high,
                    floor=scale.floor,
                    row_padding=None if row_paddings is None else row_paddings[number],
                    col_padding=None if col_paddings is None else col_paddings[number],
                    file=titles[number],
                    **shared,
                )
            )

        with column:
            matrix_canvas(
                two.payload((key, number, of, scale), make),
                key=f"{key}_{ENDS_OF_KEYS[number]}",
                height=height,
                scale=mode if number < 2 else "linear",
                marked=marked,
                on_pick=on_pick,
            )


def three_overviews(
    two: Two,
    values: Sequence[np.ndarray],
    rows: Sequence[str],
    *,
    key: str,
    of: Hashable,
    scale: Scale,
    row_title: str,
    quantity: str,
    unit: str,
    on_pick: Pick,
) -> None:
    """One number of every token at each row, `[row, slot]`, of both runs and the difference: padding hatched."""
    three(
        two,
        values,
        key=key,
        of=of,
        titles=[*two.names, two.difference],
        scale=scale,
        height=two.a.height,
        marked=(None, two.slot),
        col_paddings=[two.padding] * 3,
        rows=rows,
        cols=two.tokens,
        row_title=row_title,
        col_title="token",
        phrase=("at ", ", ", f": {quantity} "),
        unit=unit,
        square=False,
        on_pick=on_pick,
    )
