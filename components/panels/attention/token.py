"""One token in all layers and heads: where it looks, and who looks at it."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from components import state
from components.labels import visible
from components.matrix import matrix_canvas, pack_matrix
from components.panels.attention.display import Display
from components.panels.attention.head import about_direction, about_display, about_padding
from components.panels.attention.matrices import token_matrix
from components.panels.look import Look, explain, numbers


def show(look: Look, display: Display, row: Any) -> None:
    """Two matrices with a row a head. A click on a row chooses that head, on a column that token."""
    look = replace(look, token=display.nearest(look.token))
    with row:
        token_picker(look)
    places = display.row_of(look.token), display.col_of(look.token)
    for into, (side, place) in enumerate(zip(st.columns(2), places, strict=True)):
        with side:
            if place is None:
                explain("The chosen token is not on this side of the pair. Choose another token, or all of the pair.")
            else:
                _matrix(look, display, place, into=bool(into))
    explain(
        "Each row is a head, each group of rows a layer. Left: the weights that the token gives, which sum to 1. "
        "Right: the weight that each token gives to it. Click a row to choose its head, a column to choose its token.",
        about_display(look, display),
        about_padding(look),
        about_direction(look.run),
    )
    table = _table(look)
    numbers(table, name="token", downloads={"This table as CSV": lambda: table})


def token_picker(look: Look) -> None:
    """The chosen token, by its place and name."""
    real = np.flatnonzero(~look.padding)
    options = {f"{pos} {visible(look.tokens[pos])}": int(pos) for pos in real}
    wanted = next(option for option, pos in options.items() if pos == look.token)
    state.choose_elsewhere(
        "token_choice", "Token", list(options), wanted, lambda option: state.put("token", options[option])
    )


def _matrix(look: Look, display: Display, place: int, *, into: bool) -> None:
    key = ("token", into, look.token, look.layer, look.head, display.key)
    matrix_canvas(
        state.payload(
            look.answer, look.sentence, key, lambda: pack_matrix(token_matrix(look, display, place, into=into))
        ),
        key="looked_at" if into else "looks",
        height=look.height,
        scale=state.get("scale"),
        on_pick=partial(_pick, look.run.config.n_heads, display, into),
    )


def _pick(n_heads: int, display: Display, into: bool, row: int | None, col: int | None) -> None:
    if row is not None:
        state.put("sel", divmod(row, n_heads))
    elif col is not None:
        state.put("token", display.position(col, None) if into else display.position(None, col))


def _table(look: Look) -> pd.DataFrame:
    """One row a head: the key the token looks at most, and the real query that looks at it most."""
    rows, pos = [], look.token
    real = np.flatnonzero(~look.padding)
    for layer in range(look.run.config.n_layers):
        pattern = look.run.trace.pattern(layer)[look.sentence]  # [head, query, key]
        keys, queries = pattern[:, pos].argmax(axis=-1), real[pattern[:, real, pos].argmax(axis=-1)]
        for head, (key, query) in enumerate(zip(keys, queries, strict=True)):
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "strongest_key": look.tokens[key],
                    "strongest_weight": pattern[head, pos, key],
                    "strongest_query": look.tokens[query],
                    "weight_from_query": pattern[head, query, pos],
                }
            )
    return pd.DataFrame(rows)
