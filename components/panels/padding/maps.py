"""Attention of one head three ways: alone, beside padding that is masked, and beside padding that is not."""

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import state
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.look import Look
from components.panels.padding.chosen import (
    Shown,
    names_of,
    number_of,
    padding_of,
    real_places,
    token_chooser,
    ways_of,
)
from components.theme import format_number
from explorer.padding import padding_attention

TITLES: Final = {"alone": "Alone", "masked": "Masked", "unmasked": "Not masked"}


def show(look: Look) -> Shown:
    """The chosen head three ways, with one scale from 0 to 1."""
    ways = ways_of(look)
    for column, name in zip(st.columns(3), TITLES, strict=True):
        with column:
            _head(look, getattr(ways, name), name)
    heads = _heads(ways)
    return Shown(heads, _said(look, ways, heads), {"Each query as CSV": lambda: _queries(ways)})


def _head(look: Look, answer: state.Answer, name: str) -> None:
    """One pattern. Rows of padding mean nothing and are hatched; its columns too where the mask hides them."""
    padding = padding_of(answer)
    title = f"{TITLES[name]} · L{look.layer} H{look.head}"

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=answer.run.trace.pattern(look.layer)[0, look.head],
                rows=names_of(answer.run.batch),
                cols=names_of(answer.run.batch),
                title=title,
                row_title="query",
                col_title="key",
                phrase=("query ", " attends to key ", ": "),
                row_padding=padding,
                col_padding=padding & (name != "unmasked"),
                whole=True,  # a window on it would leave out the padding
                file=title,
            )
        )

    choose = token_chooser(look, padding)
    matrix_canvas(
        state.payload(answer, 0, ("padding map", name, look.layer, look.head), make),
        key=f"map_{name}",
        height=look.height,
        scale=state.get("scale"),
        marked=(int(real_places(padding)[number_of(look)]), None),
        on_pick=lambda row, col: choose(col if row is None else row),
    )


def _queries(ways: state.Ways) -> pd.DataFrame:
    """One row a layer, head and real query, masked and not: see `padding_attention`."""
    masked, unmasked = (padding_attention(ways.alone.run, way.run) for way in (ways.masked, ways.unmasked))
    named = {"difference": "weights"}
    return masked.drop(columns=["difference", "on_padding"]).assign(
        **{
            f"{name}_{named.get(column, column)}": table[column]
            for column in ("difference", "on_padding")
            for name, table in (("masked", masked), ("unmasked", unmasked))
        }
    )


def _heads(ways: state.Ways) -> pd.DataFrame:
    """One row a head: the largest difference of its weights on real keys, and its mean weight on padding."""

    def make() -> pd.DataFrame:
        columns = {f"{way}_weights": "max" for way in ("masked", "unmasked")}
        columns |= {"masked_on_padding": "max", "unmasked_on_padding": "mean"}
        return _queries(ways).groupby(["layer", "head"], as_index=False).agg(columns)

    table = state.table(ways.unmasked, 0, "padding heads", make)
    return table.sort_values("unmasked_on_padding", ascending=False, kind="stable", ignore_index=True)


def _said(look: Look, ways: state.Ways, heads: pd.DataFrame) -> list[str]:
    padding = padding_of(ways.masked)
    if not padding.any():
        return [f"This sentence fills all {len(padding)} places that the encoder has: nothing is left to pad."]
    masked, unmasked = (way.run.trace.pattern(look.layer)[0, look.head] for way in (ways.masked, ways.unmasked))
    alone = ways.alone.run.trace.pattern(look.layer)[0, look.head]
    real = real_places(padding)
    moved = np.abs(masked[np.ix_(real, real)] - alone).max()
    largest = float(masked[:, padding].max())
    sums = masked[padding][:, real].sum(axis=-1, dtype=np.float64)
    share = float(unmasked[np.ix_(real, np.flatnonzero(padding))].sum(axis=-1, dtype=np.float64).mean())
    first, everywhere = heads.iloc[0], float(heads["unmasked_on_padding"].mean())
    return [
        "Masked: the largest weight in a column of padding is "
        f"{'exactly 0' if largest == 0 else format_number(largest)}, and between real tokens the weights are those of "
        f"the sentence alone{', exactly' if moved == 0 else f' to {format_number(float(moved))}'}.",
        f"Rows of padding are softmax rows like any other: over the {len(real)} real keys each sums to "
        f"{_around_one(sums)}. They mean nothing, and no real token reads them; so they are hatched.",
        f"Not masked: in this head real tokens give {format_number(100 * share)} % of their weight to padding, over "
        f"all heads {format_number(100 * everywhere)} %, and most in "
        f"L{int(first['layer'])} H{int(first['head'])}: {format_number(100 * float(first['unmasked_on_padding']))} %.",
    ]


def _around_one(sums: np.ndarray) -> str:
    """1 where all are 1 but for rounding, else their range."""
    low, high = float(sums.min()), float(sums.max())
    return "1" if max(abs(low - 1), abs(high - 1)) < 1e-5 else f"{format_number(low)} to {format_number(high)}"
