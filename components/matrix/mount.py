"""The matrix on the page, and the way a choice travels between it and the server."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from components.canvas import LAST_SERIAL, announce, clamp, echo_key, module, read_packet, sent, style

_HERE = Path(__file__).parent

_matrix = st.components.v2.component(
    "matrix",
    css=style(_HERE, "matrix.css"),
    js=module(_HERE, "map.js", "lines.js", "matrix.js"),
)


def matrix_canvas(
    payload: bytes,
    *,
    key: str,
    height: int,
    mode: str = "map",
    scale: str = "linear",
    marked: tuple[int | None, int | None] = (None, None),
    on_pick: Callable[[int | None, int | None], None] | None = None,
) -> None:
    """Draws the payload of `pack_matrix`: `mode` "map" or "lines", `scale` "linear", "sqrt" or "log".

    Mode, scale and the marked row and column travel apart: changing them does not send the matrix again. `on_pick`
    runs as a callback, before the script, with the row and column of a click or of Enter; None is the side that was
    not meant, as in a click on a row's name. Both numbers are within the matrix.
    """
    header, _ = read_packet(payload)
    picked = partial(_picked, key, len(header["rows"]), len(header["cols"]), on_pick)
    with st.container(gap=None):  # the announcement has no height and must not leave a gap either
        _matrix(key=key, data=payload, height=height, on_pick_change=picked)
        row, col = marked
        announce(key, mode=mode, scale=scale, row=row, col=col, echo=st.session_state.get(echo_key(key), 0))


def read_pick(value: Any, n_rows: int, n_cols: int) -> tuple[int | None, int | None, int] | None:
    """(row, col, serial) out of what a browser sent, or None where it is no pick. Numbers are clamped to the matrix."""
    if not isinstance(value, dict) or type(serial := value.get("serial")) is not int:
        return None
    found: list[int | None] = []
    for name, count in (("row", n_rows), ("col", n_cols)):
        number = value.get(name)
        if number is not None and type(number) is not int:
            return None
        found.append(None if number is None else clamp(number, count))
    if found == [None, None]:
        return None
    return found[0], found[1], clamp(serial, LAST_SERIAL + 1)


def _picked(key: str, n_rows: int, n_cols: int, on_pick: Callable[[int | None, int | None], None] | None) -> None:
    pick = read_pick(sent(key, "pick"), n_rows, n_cols)
    if pick is None:
        return
    row, col, serial = pick
    st.session_state[echo_key(key)] = serial
    if on_pick is not None:
        on_pick(row, col)
