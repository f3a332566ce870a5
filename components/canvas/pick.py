"""What a browser sent: read with suspicion, and brought into the canvas that it was sent from."""

from typing import Any, Final

import streamlit as st

LAST_SERIAL: Final = 2**53 - 1
"""The largest integer a browser counts exactly."""


def sent(key: str, event: str) -> Any:
    """What a component sent with this trigger, or None."""
    state = st.session_state.get(key)
    return state.get(event) if isinstance(state, dict) else None


def clamp(number: int, count: int) -> int:
    """The nearest of the numbers 0 to count - 1."""
    return min(max(number, 0), count - 1)
