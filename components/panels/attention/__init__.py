"""Attention: every head of the sentence, and what is chosen of them at full size."""

from collections.abc import Callable
from typing import Any, Final

import streamlit as st

from components import controls, state
from components.panels.attention import ablation, head, queries, sums, token
from components.panels.attention.display import Display
from components.panels.look import Look

MODES: Final = {
    "map": "Map",
    "lines": "Lines",
    "token": "Token",
    "sums": "Sums",
    "queries": "Query · key",
    "ablation": "Heads off",
}
SHOW: Final[dict[str, Callable[[Look, Display, Any], None]]] = {
    "map": head.show,
    "lines": head.show,
    "token": token.show,
    "sums": sums.show,
    "queries": queries.show,
    "ablation": ablation.show,
}


def show(look: Look) -> None:
    """Layers x heads on the left, what is chosen on the right. Heads off: what was, and what is without them."""
    row = st.container(horizontal=True, vertical_alignment="center")
    with row:
        mode = controls.choice(
            "show", "Show", MODES, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
        controls.attention_options(pair=look.run.batch.is_pair(look.sentence))
    display = Display.of(
        look.run, look.sentence, units=state.get("units"), special=state.get("special"), pair=state.get("pair")
    )
    SHOW[mode](look, display, row)
