"""The pictures of the mask part: the mask as it is given, its copy for every query, and queries x keys."""

from typing import Final

import numpy as np

from components import state
from components.labels import shorten, visible
from components.matrix import Matrix, Side, matrix_canvas, pack_matrix
from components.panels.look import Look
from components.panels.padding.chosen import (
    lengths_of,
    names_of,
    number_of,
    real_places,
    token_chooser,
    width_for,
)
from explorer import Batch

STRIP: Final = 156
"""Height of the mask as it is given, in CSS pixels: two sentences and their tokens."""
NO_KEY: Final = "✕ "
"""Stands before the name of a query that has no key."""


def sentences(look: Look) -> None:
    """The mask as it is given: [batch, key]. Sentences that are longer than the width are left out."""
    width, side = width_for(look, every=False), state.now("padded_side")
    shown = [(number, length) for number, length in enumerate(lengths_of(look)) if length <= width]
    place = np.arange(width)
    values = np.array([place >= length if side == "right" else place < width - length for _, length in shown])
    names = [f"{look.answer.lines[n]}: {shorten(visible(look.run.batch.sentences[n]), 24)}" for n, _ in shown]
    chosen = next(i for i, (number, _) in enumerate(shown) if number == look.sentence)

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=values.astype(np.float32),
                rows=names,
                cols=[str(number) for number in place],
                title=f"mask [{len(shown)}, {width}]",
                row_title="sentence",
                col_title="key",
                phrase=("", ", place ", ": "),
                unit="1 = hidden",
                square=False,
                whole=True,
                chosen_row=chosen,
                file="mask",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("mask rows", width, side, look.answer.lines), make),
        key="mask_rows",
        height=STRIP,
        on_pick=lambda row, _: None if row is None else state.put("sentence", shown[row][0]),
    )


def broadcast(look: Look, batch: Batch, hidden: np.ndarray, *, height: int) -> None:
    """The mask of the sentence as every query of every head meets it. Rows without a key are marked."""
    n, n_keys = len(hidden), (~hidden).sum(axis=-1)
    refused = not n_keys.all()
    square(
        look,
        batch,
        hidden.astype(np.float32),
        ("broadcast", look.run.causal),
        title=f"broadcast to [1, {look.run.config.n_heads}, {n}, {n}]",
        unit="1 = hidden",
        marks=[NO_KEY if count == 0 else "" for count in n_keys],
        sides=(Side("keys left", n_keys),) if refused else (),
        height=height,
    )


def square(
    look: Look,
    batch: Batch,
    values: np.ndarray,
    key: tuple[object, ...],
    *,
    title: str,
    unit: str,
    ends: tuple[float, float] = (0.0, 1.0),
    sides: tuple[Side, ...] = (),
    marks: list[str] | None = None,
    height: int | None = None,
) -> None:
    """Queries x keys of the padded sentence. Rows of padding are hatched, but for those of the mask itself."""
    padding = batch.key_padding_mask[0].numpy()

    def make() -> bytes:
        names = names_of(batch)
        rows = [mark + name for mark, name in zip(marks or [""] * len(names), names, strict=True)]
        return pack_matrix(
            Matrix(
                values=values,
                rows=rows,
                cols=names,
                title=title,
                row_title="query",
                col_title="key",
                phrase=("query ", ", key ", f": {'' if marks else unit + ' '}"),
                unit=unit,
                low=ends[0],
                high=ends[1],
                row_padding=None if marks else padding,
                square=False,
                whole=True,  # a window on it would leave out the padding
                sides=sides,
                file=title,
            )
        )

    choose = token_chooser(look, padding)
    where = (len(padding), state.now("padded_side"), *key)
    matrix_canvas(
        state.payload(look.answer, look.sentence, where, make),
        key=f"mask_{key[0]}",
        height=height or look.height,
        marked=(int(real_places(padding)[number_of(look)]), None),
        on_pick=lambda row, col: choose(col if row is None else row),
    )
