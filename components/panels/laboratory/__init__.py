"""The laboratory: experiments with norm placement that run while one looks at them."""

from collections.abc import Callable
from typing import Any, Final

import streamlit as st

from components import controls
from components.panels.laboratory import gradients, training
from components.panels.look import Look

PARTS: Final = {"gradients": "Gradients", "learn": "Training", "race": "Race"}
SHOW: Final[dict[str, Callable[[Look, Any], None]]] = {
    "gradients": gradients.show,
    "learn": training.learn,
    "race": training.race,
}


def show(look: Look) -> None:
    """One experiment. It has encoders of its own: what is looked at in the other views is not touched."""
    with st.container(horizontal=True, vertical_alignment="center"):
        part = controls.choice(
            "lab", "Experiment", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
        row = st.container(horizontal=True, vertical_alignment="center")
    SHOW[part](look, row)
