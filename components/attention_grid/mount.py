"""The canvas on the page, and the way a choice travels between it and the server.

Three components, because they change at different times: the grid gets the pixels, once a sentence;
the announcer gets the choice and a number a head, and tells the grid inside the browser; a third hands
over the weights of the one head that the pointer rests on, where the payload had no room for them.
"""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from components.canvas import LAST_SERIAL, announce, clamp, echo_key, module, sent, style, write_packet

from .payload import read_header
from .score import GridScore, announcement

_HERE = Path(__file__).parent

_grid = st.components.v2.component(
    "attention_grid",
    css=style(_HERE, "grid.css"),
    js=module(_HERE, "draw.js", "grid.js"),
)
_exact = st.components.v2.component("attention_grid_exact", js=module(_HERE, "exact.js"))


def attention_grid(
    payload: bytes,
    *,
    selected: tuple[int, int],
    on_pick: Callable[[int, int], None],
    key: str = "grid",
    height: int = 430,
    score: GridScore | None = None,
    off: Collection[tuple[int, int]] = (),
    exact: Callable[[int, int], np.ndarray] | None = None,
) -> None:
    """Draw the payload of `pack` with `selected` (layer, head) framed; `height` is in CSS pixels.

    A `score` is drawn over the tiles and beside the names of layers and heads; the heads (layer, head)
    in `off` are crossed out. Both travel with the choice: neither sends the payload again.

    `exact(layer, head)` gives the weights `[query, key]` that the payload was packed from. It is asked
    for a head that the pointer rests on, where cells are single tokens but their weights did not fit.

    `on_pick(layer, head)` runs as a callback, before the script, when a tile is chosen by mouse or
    keyboard; both numbers are within the payload. Pass the choice back as `selected` in the rerun
    that follows: it is the server that decides, the canvas only runs ahead of it. A `selected`
    outside the grid is clamped to the nearest tile.

    Raises:
        ValueError: If the score is of another architecture, exact weights are of other tokens, or
            `key` holds anything but letters, digits, `_` and `-`; the browser finds the grid by the
            class name made of it.
    """
    header = read_header(payload)
    n_layers, n_heads = header["n_layers"], header["n_heads"]
    if score is not None and np.shape(score.values) != (n_layers, n_heads):
        raise ValueError(f"the score must be [{n_layers}, {n_heads}], as the grid, not {np.shape(score.values)}")
    layer, head = (clamp(int(selected[0]), n_layers), clamp(int(selected[1]), n_heads))
    said: dict[str, Any] = {}
    if score is not None:
        said["score"] = announcement(score)
    if off:
        said["off"] = sorted([int(layer), int(head)] for layer, head in off)
    pooled = header["row_starts"] or header["col_starts"]
    if exact is not None and not pooled and not header["exact"]:
        said["probes"] = True
    picked = partial(_picked, key, n_layers, n_heads, on_pick)
    probed = partial(_probed, key, n_layers, n_heads, header["digest"])
    with st.container(gap=None):  # the announcer has no height and must not leave a gap either
        _grid(key=key, data=payload, height=height, on_pick_change=picked, on_probe_change=probed)
        announce(key, layer=layer, head=head, echo=st.session_state.get(echo_key(key), 0), **said)
        digest, probe = st.session_state.get(_probe_key(key), (None, (0, 0)))
        if exact is not None and "probes" in said and digest == header["digest"]:
            _exact(key=f"{key}-exact", data=_weights(key, header, probe, exact))


def read_pick(value: object, n_layers: int, n_heads: int) -> tuple[int, int, int] | None:
    """(layer, head, serial) out of what a browser sent, or None where it is no pick.

    Layer and head are clamped to the grid: a pick made just before the architecture shrank lands on
    the last tile. The serial numbers the picks of one page.
    """
    numbers = _integers(value, "layer", "head", "serial")
    if numbers is None:
        return None
    layer, head, serial = numbers
    return clamp(layer, n_layers), clamp(head, n_heads), clamp(serial, LAST_SERIAL + 1)


def read_probe(value: object, n_layers: int, n_heads: int) -> tuple[int, int] | None:
    """(layer, head) whose weights a browser asks for, or None where it asks for nothing."""
    numbers = _integers(value, "layer", "head")
    return None if numbers is None else (clamp(numbers[0], n_layers), clamp(numbers[1], n_heads))


def _picked(key: str, n_layers: int, n_heads: int, on_pick: Callable[[int, int], None]) -> None:
    pick = read_pick(sent(key, "pick"), n_layers, n_heads)
    if pick is None:
        return
    layer, head, serial = pick
    # The announcement names the last pick it knows of, so the canvas can tell an answer from old news.
    st.session_state[echo_key(key)] = serial
    on_pick(layer, head)


def _probed(key: str, n_layers: int, n_heads: int, digest: int) -> None:
    probe = read_probe(sent(key, "probe"), n_layers, n_heads)
    if probe is not None:
        st.session_state[_probe_key(key)] = (digest, probe)


def _probe_key(key: str) -> str:
    """Session key of the head that was asked for last, behind the digest of its payload."""
    return f"{key}-probe"


def _weights(
    key: str, header: dict[str, Any], probe: tuple[int, int], exact: Callable[[int, int], np.ndarray]
) -> bytes:
    layer, head = probe
    weights = np.asarray(exact(layer, head), dtype="<f4")
    shape = (header["rows"], header["cols"])
    if weights.shape != shape:
        raise ValueError(f"exact weights must be [query, key] = {list(shape)}, not {list(weights.shape)}")
    padded = np.array(header["query_padding"], dtype=bool)
    about = {"target": key, "digest": header["digest"], "layer": layer, "head": head}
    return write_packet(about, np.where(padded[:, None], np.float32(0), weights).tobytes())


def _integers(value: object, *names: str) -> list[int] | None:
    """The numbers with these names out of what a browser sent; None where one is missing or no integer."""
    if not isinstance(value, dict):
        return None
    numbers = [number for name in names if type(number := value.get(name)) is int]  # a bool is no layer
    return numbers if len(numbers) == len(names) else None
