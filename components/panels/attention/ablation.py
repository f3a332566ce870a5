"""Heads switched off: the same text with and without them, side by side."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import streamlit as st

from components import state
from components.attention_grid import GridScore
from components.labels import visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.attention.display import Display
from components.panels.attention.grid import grid
from components.panels.attention.head import about_display, choose_token
from components.panels.attention.matrices import head_matrix
from components.panels.look import Look, explain, numbers, token_matrix
from components.theme import format_number
from explorer import Run
from explorer.ablation import attention_change, output_change, stream_change

HIGHEST: Final = 590
"""In three columns a map is as wide as its column allows; more height would stay empty."""


def show(look: Look, display: Display, row: Any) -> None:
    """The grid with the heads that are off; the chosen head before and after; what became of each token's output."""
    look = replace(look, height=min(look.height, HIGHEST))
    run, off = look.run, state.heads_off(look.run)
    with row:
        off_buttons(look, off)
    after = state.without(look.answer, off)
    heads = state.table(
        look.answer, look.sentence, ("heads", off), lambda: attention_change(run, after, sentence=look.sentence)
    )
    change = heads.pivot(index="layer", columns="head", values="change").to_numpy()
    left, middle, right = st.columns(3)
    with left:
        grid(look, display, score=GridScore(label="Change of weights", values=change, high=1.0), off=off)
    for place, which, name in ((middle, run, "before"), (right, after, "after")):
        with place:
            _head(look, display, which, name, off)
    _stream(look, after, off)
    outputs = state.table(
        look.answer, look.sentence, ("outputs", off), lambda: output_change(run, after, sentence=look.sentence)
    )
    explain(*_summary(look, off, outputs["cosine"].to_numpy(), change), about_display(look, display))
    downloads = {"Output of each token as CSV": lambda: outputs, "Change of each head as CSV": lambda: heads}
    numbers(outputs, name="ablation", downloads=downloads)


def off_buttons(look: Look, off: frozenset[tuple[int, int]], *, whole_page: bool = False) -> None:
    """Switch the chosen head, its layer or all heads off and on. `whole_page`: what is off changes the run of the page.

    Of a head that this encoder does not have, nothing can be switched.
    """
    config, chosen = look.run.config, (look.layer, look.head)
    every = {(number, head) for number in range(config.n_layers) for head in range(config.n_heads)}
    layer = {pair for pair in every if pair[0] == look.layer}
    whole = layer <= off
    options = {
        "one": (f"Switch L{look.layer} H{look.head} {'on' if chosen in off else 'off'}", off ^ {chosen}),
        "layer": (f"Switch layer {look.layer} {'on' if whole else 'off'}", off - layer if whole else off | layer),
        "every": ("All off", every),
        "none": ("All on", frozenset()),
    }
    for key, (label, heads) in options.items():
        st.button(
            label,
            key=f"off_{key}",
            on_click=partial(_switch, heads, whole_page=whole_page),
            disabled=heads == off or not heads <= every,
        )


def _switch(off: Iterable[tuple[int, int]], *, whole_page: bool) -> None:
    state.put("off", tuple(sorted(off)))
    if whole_page:
        state.run_whole_page()


def _head(look: Look, display: Display, run: Run, name: str, off: frozenset[tuple[int, int]]) -> None:
    title = f"L{look.layer} H{look.head} {name}"
    switched = f"{title}: off" if name == "after" and (look.layer, look.head) in off else title
    key = ("ablation", name, off if name == "after" else (), look.layer, look.head, display.key)
    matrix_canvas(
        state.payload(
            look.answer,
            look.sentence,
            key,
            lambda: pack_matrix(head_matrix(run, look, display, title=switched, file=title.replace(" ", "-"))),
        ),
        key=name,
        height=look.height,
        scale=state.get("scale"),
        marked=(display.row_of(look.token), None),
        on_pick=partial(choose_token, display),
    )


def _stream(look: Look, after: Run, off: frozenset[tuple[int, int]]) -> None:
    """How far each token's vector has moved by the end of each layer."""

    def make() -> bytes:
        layers = list(range(look.run.config.n_layers))
        table = stream_change(look.run, after, sentence=look.sentence)
        values = token_matrix(table, layers, "layer", "change", len(look.tokens))
        tokens = [visible(token) for token in look.tokens]
        largest = float(np.nanmax(values, initial=0))
        return pack_matrix(
            Matrix(
                values=values,
                rows=[f"L{layer}" for layer in layers],
                cols=tokens,
                title="How far each token moves",
                row_title="end of layer",
                col_title="token",
                phrase=("at the end of ", ", ", " has moved by this share of its length: "),
                unit="share of its length",
                high=largest if largest > 0 else 1.0,
                col_padding=look.padding,
                square=False,
                file="change-of-the-stream",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("stream", off), make),
        key="moved",
        height=min(look.height, 130 + 18 * look.run.config.n_layers),
        marked=(None, look.token),
        on_pick=lambda row, col: state.put("token", look.token if col is None else col),
    )


def _summary(look: Look, off: frozenset[tuple[int, int]], cosine: np.ndarray, change: np.ndarray) -> list[str]:
    if not off:
        return ["Choose a head in the grid and switch it off. What it would have added is then 0."]
    layer, head = np.unravel_index(np.nanargmax(change), change.shape)
    return [
        f"Off: {len(off)} of {change.size} heads. Their z is 0, so a layer without heads adds only the bias of its "
        "output projection.",
        f"The cosine between the output before and after is {format_number(float(cosine.mean()))} on average over "
        f"{len(cosine)} real tokens, and {format_number(float(cosine.min()))} at least.",
        f"The weights of L{layer} H{head} change most: {format_number(float(change[layer, head]))} of 1 moves to "
        "other keys.",
    ]
