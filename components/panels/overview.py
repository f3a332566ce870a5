"""The overview of a view: one number for each token at each stage of the encoder, as a map that chooses both."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from components import state
from components.labels import visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.look import Look

WIDE = 10
"""Colours are logarithmic where the largest value is more than this many times the smallest."""
FLOOR = 1e-6
"""The smallest share of the largest value that logarithmic colours tell apart."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the colours of one overview, or of several with one scale, stand for."""

    high: float
    signed: bool
    log: bool
    floor: float

    @classmethod
    def of(cls, tables: Sequence[np.ndarray], *, limit: float | None = None) -> "Scale":
        """Over all that is known in these tables. `limit` is the largest possible size, where there is one."""
        known = np.concatenate([table[np.isfinite(table)] for table in tables])
        sizes = np.abs(known)
        high = limit or (float(sizes.max()) if sizes.size else 0.0) or 1.0
        smallest = float(sizes.min()) if sizes.size else 0.0
        signed = bool((known < 0).any())
        log = not signed and limit is None and high > WIDE * smallest
        return cls(high, signed, log, max(smallest / high, FLOOR) if log else 0.5)


def overview(
    look: Look,
    values: np.ndarray,
    rows: Sequence[str],
    *,
    key: str,
    of: Hashable,
    chosen_row: int | None,
    title: str,
    row_title: str,
    quantity: str,
    unit: str,
    scale: Scale | None = None,
    on_pick: Callable[[int | None, int | None], None],
) -> None:
    """`values [row, pos]` of the sentence, padding hatched; `of` says of what, among all that this key shows.

    Values of both signs diverge around 0. Without a scale the colours are those of these values alone.
    """
    colours = scale or Scale.of([values])

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=values,
                rows=rows,
                cols=[visible(token) for token in look.tokens],
                col_padding=look.padding,
                title=title,
                row_title=row_title,
                col_title="token",
                phrase=("at ", ", ", f": {quantity} "),
                unit=unit,
                low=-colours.high if colours.signed else 0.0,
                high=colours.high,
                floor=colours.floor,
                square=False,
                chosen_row=chosen_row,
                file=f"{key}-{unit}",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, (key, of, chosen_row), make),
        key=key,
        height=look.height,
        scale="log" if colours.log else "linear",
        marked=(None, look.token),
        on_pick=on_pick,
    )
