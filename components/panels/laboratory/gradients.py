"""Gradients at the start of training against depth, for both placements: the experiment of Xiong et al. 2020."""

from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.controls import PLACEMENTS
from components.figures.gradients import gradients_against_depth, gradients_by_layer
from components.panels.laboratory.run import PROGRESS, follow, start_and_stop
from components.panels.look import Look, chart, explain, numbers
from components.theme import format_number
from components.worker import Worker
from explorer.lab import RaceResult, RaceSettings, gradient_race, last_layer_table, layer_table, slopes
from explorer.lab.gradient_race import THEORY

KEY: Final = "gradients"
ABOUT: Final = (
    "Random words are hidden and have to be found again. The gradient of the loss is taken once, before any step of "
    "training, in encoders of width 128 with random weights.",
    "Theory: at depth L the gradient of the last layer's second feed-forward matrix, W₂, does not depend on L in "
    "Post-LN, and falls as 1 / √L in Pre-LN.",
    "With weights drawn from normal (0, 0.02) the effect vanishes: switch the initial weights to see it.",
)


def show(look: Look, row: Any) -> None:
    """Norms against depth on the left, layer by layer in the deepest encoders on the right."""
    with row:
        init = controls.choice(
            "lab_init", "Initial weights", controls.INITIALISATIONS, label_visibility="collapsed", width=200
        )

    def begin() -> None:
        settings = RaceSettings(init=init)
        state.begin_work((KEY, init), gradient_race(settings), total=settings.n_results)

    worker = state.work((KEY, init))
    with row:
        start_and_stop(worker, begin)
    follow(worker, lambda: _draw(look, worker))


def _draw(look: Look, worker: Worker[RaceResult] | None) -> None:
    results = [] if worker is None else worker.results
    if not results:
        explain(*ABOUT, "Press Start: it takes a few seconds.")
        return
    table = last_layer_table(results)
    points = {
        name: (rows["depth"].to_numpy(), rows["norm"].to_numpy())
        for placement, name in PLACEMENTS.items()
        if len(rows := table[table["placement"] == placement])
    }
    left, right = st.columns(2)
    with left:
        figure = gradients_against_depth(
            points,
            {PLACEMENTS[placement]: slope for placement, slope in THEORY.items()},
            palette=look.palette,
            title="Last layer, against depth",
            height=look.height - PROGRESS,
        )
        chart(figure, key="gradients_depth", alt="Gradient norm of the last feed-forward matrix against depth")
    deepest = max((result.depth for result in results), default=0)
    with right:
        lines = {
            PLACEMENTS[result.placement]: result.norms.matrix("linear2")
            for result in results
            if result.depth == deepest
        }
        figure = gradients_by_layer(
            lines, palette=look.palette, title=f"Layer by layer, {deepest} layers", height=look.height - PROGRESS
        )
        chart(figure, key="gradients_layers", alt="Gradient norm of each layer's second feed-forward matrix")
    explain(*ABOUT, _said(results))
    shown = _table(table, results)
    numbers(
        shown,
        name="gradients",
        downloads={"This table as CSV": lambda: shown, "Every layer as CSV": lambda: layer_table(results)},
    )


def _said(results: list[RaceResult]) -> str:
    """The slopes that were measured, beside those of the theory."""
    found = slopes(results)
    if found.empty:
        return ""
    said = [
        f"{PLACEMENTS[placement]}: slope {format_number(slope)}, theory {format_number(theory)}."
        for placement, slope, theory in zip(found["placement"], found["slope"], found["theory"], strict=True)
    ]
    return " ".join(["Slope of norm against depth, both as logarithms.", *said])


def _table(table: pd.DataFrame, results: list[RaceResult]) -> pd.DataFrame:
    shown = table.rename(columns={"norm": "gradient_norm"})
    shown["placement"] = shown["placement"].map(PLACEMENTS)
    firsts = [result.norms.matrix("linear2")[0] for result in results]
    return shown.assign(first_layer_norm=np.array(firsts, dtype=float)).drop(columns="seed")
