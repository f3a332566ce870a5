"""The diagram on the page, and the way a choice travels between it and the server."""

from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from components.canvas import announce, module, sent
from components.diagram.layout import Layout
from components.theme import DARK, LIGHT, Palette

_HERE = Path(__file__).parent
SERIES = {"norm": 0, "attention": 1, "feed-forward": 2}
"""Which of the series colours a kind of box has; every other kind is grey."""


def _colours(colours: Palette) -> str:
    series = "".join(f"--{kind}: {colours.series[i]}; " for kind, i in SERIES.items())
    return f"{{ {series}--muted: {colours.muted}; --surface: {colours.surface} }}"


# Printed, the diagram is light on white in every theme, as a canvas is.
_CSS = f"""{(_HERE / "diagram.css").read_text(encoding="utf-8")}
.diagram {_colours(LIGHT)}
@media screen {{ .diagram.dark {_colours(DARK)} }}
@media print {{ .diagram {{ --ink: {LIGHT.text}; --paper: {LIGHT.background}; --accent: {LIGHT.accent} }} }}
"""

_diagram = st.components.v2.component("block_diagram", css=_CSS, js=module(_HERE, "diagram.js"))


def block_diagram(layout: Layout, *, key: str, height: int, chosen: str | None, on_pick: Callable[[str], None]) -> None:
    """Draws the layout, `height` CSS pixels high, with the site `chosen` marked.

    The choice travels apart from the drawing. `on_pick(site)` runs as a callback, before the script, with one of
    `layout.sites`.
    """
    with st.container(gap=None):  # the announcement has no height and must not leave a gap either
        _diagram(
            key=key, data=asdict(layout), height=height, on_pick_change=partial(_picked, key, layout.sites, on_pick)
        )
        announce(key, chosen=chosen)


def read_pick(value: Any, sites: Collection[str]) -> str | None:
    """The site out of what a browser sent, or None where there is no such site to choose."""
    site = value.get("site") if isinstance(value, dict) else None
    return site if isinstance(site, str) and site in sites else None


def _picked(key: str, sites: Collection[str], on_pick: Callable[[str], None]) -> None:
    site = read_pick(sent(key, "pick"), sites)
    if site is not None:
        on_pick(site)
