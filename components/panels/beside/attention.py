"""The same head of both placements, and how far all heads differ."""

from functools import partial

import numpy as np
import streamlit as st

from components import state
from components.attention_grid import GridScore
from components.matrix import matrix_canvas, pack_matrix
from components.panels.attention.display import Display
from components.panels.attention.grid import grid
from components.panels.attention.head import choose_token
from components.panels.attention.matrices import head_matrix
from components.panels.look import Look, explain, numbers
from components.theme import format_number
from explorer.ablation import attention_change

MODES = {"map": "Map", "lines": "Lines"}


def show(post: Look, pre: Look) -> None:
    """All heads with their difference on the left, then the chosen head of each."""
    change = state.table(
        post.answer,
        post.sentence,
        ("placements", pre.answer.key),
        lambda: attention_change(post.run, pre.run, sentence=post.sentence),
    )
    size = post.run.config.n_layers, post.run.config.n_heads
    moved = change["change"].to_numpy().reshape(size)
    mode = "lines" if state.get("show") == "lines" else "map"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.segmented_control(
            "Show",
            list(MODES),
            default=mode,
            format_func=MODES.__getitem__,
            key="both_show",
            label_visibility="collapsed",
            required=True,
            on_change=lambda: state.put("show", st.session_state["both_show"]),
        )
    display = Display.of(
        post.run, post.sentence, units=state.get("units"), special=state.get("special"), pair=state.get("pair")
    )
    columns = st.columns([4, 3, 3])
    with columns[0]:
        grid(post, display, score=GridScore("Weight that would have to move", moved, max(float(moved.max()), 1e-9)))
    for column, look, name in zip(columns[1:], (post, pre), ("Post-LN", "Pre-LN"), strict=True):
        with column:
            _head(look, display, name, mode)
    layer, head = np.unravel_index(moved.argmax(), size)
    here = moved[post.layer, post.head]
    explain(
        "Left, all heads of Post-LN; a number is how much weight of a head would have to move to make it that of "
        "Pre-LN, from 0 to 1, on average over the real queries.",
        f"In L{post.layer} H{post.head} it is {format_number(here)}, over all heads {format_number(moved.mean())}, "
        f"and most in L{layer} H{head}: {format_number(moved[layer, head])}.",
        _what_to_see(post),
    )
    numbers(
        change.drop(columns="off")
        .rename(columns={"change": "moved"})
        .sort_values("moved", ascending=False, kind="stable"),
        name="placements",
        downloads={"All sentences as CSV": lambda: attention_change(post.run, pre.run)},
    )


def _head(look: Look, display: Display, name: str, mode: str) -> None:
    title = f"{name} · L{look.layer} H{look.head}"
    payload = state.payload(
        look.answer,
        look.sentence,
        ("both head", look.layer, look.head, display.key),
        lambda: pack_matrix(head_matrix(look.run, look, display, title=title, file=title)),
    )
    matrix_canvas(
        payload,
        key=f"head_{name[:-3].lower()}",
        height=look.height,
        mode=mode,
        scale=state.get("scale"),
        marked=(display.row_of(look.token), None),
        on_pick=partial(choose_token, display),
    )


def _what_to_see(post: Look) -> str:
    if post.answer.model.report.trained:
        return (
            "The twin was trained to attend as the published encoder does, so the heads look alike. "
            "What differs is the stream that they read and write."
        )
    return (
        "Both have the same random weights. Already in layer 0 Pre-LN reads the embeddings normalised and Post-LN as "
        "they are; deeper down each reads a stream of its own."
    )
