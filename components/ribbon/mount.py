"""The ribbon on the page, and the way a choice travels between it and the server."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from components.canvas import announce, module, sent

_HERE = Path(__file__).parent
KINDS = ("word", "special", "pad")
ROW, HIGHEST = 28, 90
"""CSS pixels of a row, and of the whole before it scrolls. Known beforehand, so that nothing below it jumps."""

_ribbon = st.components.v2.component(
    "token_ribbon",
    css=(_HERE / "ribbon.css").read_text(encoding="utf-8"),
    js=module(_HERE, "ribbon.js"),
)


def token_ribbon(
    rows: Sequence[Sequence[tuple[str, str]]],
    lines: Sequence[int],
    *,
    sentence: int,
    token: int,
    on_pick: Callable[[int, int], None],
    key: str = "ribbon",
) -> None:
    """One row a sentence, one box a token: `rows` holds (name, kind), kind one of `KINDS`; padding cannot be chosen.

    The choice travels apart from the names. `on_pick(sentence, token)` runs as a callback, before the script.
    """
    sizes = [len(row) for row in rows]
    data = {
        "lines": list(lines),
        "names": [[name for name, _ in row] for row in rows],
        "kinds": ["".join(kind[0] for _, kind in row) for row in rows],
    }
    with st.container(gap=None):  # the announcement has no height and must not leave a gap either
        _ribbon(
            key=key,
            data=data,
            height=min(HIGHEST, ROW * len(rows)),
            on_pick_change=partial(_picked, key, sizes, on_pick),
        )
        announce(key, sentence=sentence, token=token)


def read_pick(value: Any, sizes: Sequence[int]) -> tuple[int, int] | None:
    """(sentence, token) out of what a browser sent, or None where there is no such token."""
    if not isinstance(value, dict):
        return None
    sentence, token = value.get("sentence"), value.get("token")
    if type(sentence) is not int or type(token) is not int or not 0 <= sentence < len(sizes):
        return None
    return (sentence, token) if 0 <= token < sizes[sentence] else None


def _picked(key: str, sizes: Sequence[int], on_pick: Callable[[int, int], None]) -> None:
    pick = read_pick(sent(key, "pick"), sizes)
    if pick is not None:
        on_pick(*pick)
