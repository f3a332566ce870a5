"""Starting, watching and stopping work that takes a while."""

from collections.abc import Callable
from typing import Any, Final

import streamlit as st

from components.theme import format_seconds
from components.worker import Worker

PROGRESS: Final = 60
"""Height that the progress bar takes from the figures, in CSS pixels."""
LOOK_EVERY: Final = 1.0  # seconds
SAYS: Final = {
    "running": "running",
    "paused": "paused",
    "stopped": "stopped",
    "done": "done",
    "failed": "could not go on; the reason is in the server's log",
}


def start_and_stop(worker: Worker[Any] | None, begin: Callable[[], None], *, pausable: bool = False) -> None:
    """The buttons that belong to the present stage."""
    stage = worker.stage if worker else None
    if worker and stage in ("running", "paused"):
        if pausable and stage == "running":
            st.button("Pause", key="lab_pause", on_click=worker.pause)
        if stage == "paused":
            st.button("Resume", key="lab_resume", on_click=worker.resume)
        st.button("Stop", key="lab_stop", on_click=worker.stop)
    else:
        st.button("Start" if worker is None else "Start again", key="lab_start", on_click=begin, type="primary")


def follow(worker: Worker[Any] | None, draw: Callable[[], None]) -> None:
    """Draws what is there, again and again while more is to come, with a progress bar above."""
    moving = worker is not None and worker.alive

    def look() -> None:
        if worker is not None:
            done = worker.n_done
            text = f"{done} of {worker.total} steps, {format_seconds(worker.seconds)}, {SAYS[worker.stage]}"
            st.progress(min(1.0, done / worker.total), text=text)
        draw()
        if moving and worker is not None and not worker.alive:
            st.rerun()  # once more as a whole: the buttons change, and nothing is looked at again and again

    st.fragment(look, run_every=LOOK_EVERY if moving else None)()
