"""Padding: what it does to a sentence without the mask, how the mask works, and what padding costs."""

from collections.abc import Callable
from typing import Final

import streamlit as st

from components import controls, page
from components.panels.look import Look, explain, numbers
from components.panels.padding import batch, maps, mask, pooling, ways
from components.panels.padding.chosen import Shown, head_picker, padding_pickers
from explorer import ExplorerError

PARTS: Final = {
    "ways": "Three ways",
    "maps": "Attention",
    "mask": "Mask",
    "batch": "Batch",
    "pooling": "Pooling",
}
SHOW: Final[dict[str, Callable[[Look], Shown]]] = {
    "ways": ways.show,
    "maps": maps.show,
    "mask": mask.show,
    "batch": batch.show,
    "pooling": pooling.show,
}


def show(look: Look) -> None:
    """One part. What cannot be run is refused in place of its picture, and the controls stay."""
    with st.container(horizontal=True, vertical_alignment="center"):
        part = controls.choice(
            "pad_show", "Show", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
        if part != "batch":
            padding_pickers(look, every=part == "pooling")
        if part in ("maps", "batch"):
            head_picker(look)
        if part == "mask":
            mask.picker()
        if part == "batch":
            batch.twenty_button()
    try:
        shown = SHOW[part](look)
    except ExplorerError as error:
        page.refusal(error)
        return
    explain(*shown.said)
    numbers(shown.table, name="padding", downloads={"This table as CSV": lambda: shown.table} | shown.downloads)
