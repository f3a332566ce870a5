"""The canvas on the page, and the way a choice travels between it and the server.

Two components, because they change at different times: the grid gets the pixels, once a sentence;
the announcer gets the choice and a number a head, and tells the grid inside the browser.
"""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from components.canvas import announce, echo_key, module

from .payload import read_header
from .score import GridScore, announcement

_HERE = Path(__file__).parent
_LAST_SERIAL = 2**53 - 1  # the largest integer a browser counts exactly

_grid = st.components.v2.component(
    "attention_grid",
    css=(_HERE / "grid.css").read_text(encoding="utf-8"),
    js=module(_HERE, "draw.js", "grid.js"),
)


def attention_grid(
    payload: bytes,
    *,
    selected: tuple[int, int],
    on_pick: Callable[[int, int], None],
    key: str = "grid",
    height: int = 430,
    score: GridScore | None = None,
    off: Collection[tuple[int, int]] = (),
) -> None:
    """Draw the payload of `pack` with `selected` (layer, head) framed; `height` is in CSS pixels.

    A `score` is drawn over the tiles and beside the names of layers and heads; the heads (layer, head)
    in `off` are crossed out. Both travel with the choice: neither sends the payload again.

    `on_pick(layer, head)` runs as a callback, before the script, when a tile is chosen by mouse or
    keyboard; both numbers are within the payload. Pass the choice back as `selected` in the rerun
    that follows: it is the server that decides, the canvas only runs ahead of it. A `selected`
    outside the grid is clamped to the nearest tile.

    Raises:
        ValueError: If the score is of another architecture, or `key` holds anything but letters,
            digits, `_` and `-`; the browser finds the grid by the class name made of it.
    """
    header = read_header(payload)
    n_layers, n_heads = header["n_layers"], header["n_heads"]
    if score is not None and np.shape(score.values) != (n_layers, n_heads):
        raise ValueError(f"the score must be [{n_layers}, {n_heads}], as the grid, not {np.shape(score.values)}")
    layer, head = (_clamp(int(selected[0]), n_layers), _clamp(int(selected[1]), n_heads))
    said: dict[str, Any] = {}
    if score is not None:
        said["score"] = announcement(score)
    if off:
        said["off"] = sorted([int(layer), int(head)] for layer, head in off)
    picked = partial(_picked, key, n_layers, n_heads, on_pick)
    with st.container(gap=None):  # the announcer has no height and must not leave a gap either
        _grid(key=key, data=payload, height=height, on_pick_change=picked)
        announce(key, layer=layer, head=head, echo=st.session_state.get(echo_key(key), 0), **said)


def read_pick(value: object, n_layers: int, n_heads: int) -> tuple[int, int, int] | None:
    """(layer, head, serial) out of what a browser sent, or None where it is no pick.

    Layer and head are clamped to the grid: a pick made just before the architecture shrank lands on
    the last tile. The serial numbers the picks of one page.
    """
    if not isinstance(value, dict):
        return None
    numbers = [number for name in ("layer", "head", "serial") if type(number := value.get(name)) is int]
    if len(numbers) < 3:  # one is missing or no integer; a bool is no layer either
        return None
    layer, head, serial = numbers
    return _clamp(layer, n_layers), _clamp(head, n_heads), min(max(serial, 0), _LAST_SERIAL)


def _picked(key: str, n_layers: int, n_heads: int, on_pick: Callable[[int, int], None]) -> None:
    state = st.session_state.get(key)
    pick = read_pick(state.get("pick") if isinstance(state, dict) else None, n_layers, n_heads)
    if pick is None:
        return
    layer, head, serial = pick
    # The announcement names the last pick it knows of, so the canvas can tell an answer from old news.
    st.session_state[echo_key(key)] = serial
    on_pick(layer, head)


def _clamp(number: int, count: int) -> int:
    return min(max(number, 0), count - 1)
