"""Training in front of the class: a small encoder learns a task, and two placements race."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

import explorer
from components import controls, state
from components.figures.training import Curves, training_curves
from components.labels import visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.laboratory.run import PROGRESS, follow, start_and_stop
from components.panels.look import Look, chart, explain, numbers
from components.theme import format_number
from components.worker import Worker
from explorer.lab.race import PLACEMENTS, Race
from explorer.lab.records import Evaluation, Record
from explorer.lab.settings import Settings
from explorer.lab.tasks import task_of
from explorer.lab.trained import Trained
from explorer.lab.training import Training

TASK_NAMES: Final = {"reverse": "Reverse", "copy": "Copy", "shift": "Shift"}
RATES: Final = {"0.003": "Learning rate 0.003", "0.001": "Learning rate 0.001", "0.0003": "Learning rate 0.0003"}
WARM_UPS: Final = {"0": "No warm-up", "50": "Warm-up over 50 steps", "100": "Warm-up over 100 steps"}
EVERY: Final = 10
"""Steps between two looks at how good the encoder is."""
ALONE: Final = Settings(steps=250)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """After some steps: of each runner the records so far, and how good it was at the last look."""

    step: int
    records: dict[str, tuple[Record, ...]]
    evaluations: dict[str, Evaluation]
    trained: dict[str, Trained]
    """Copies, which later steps leave alone."""


def learn(look: Look, row: Any) -> None:
    """One encoder learns one task: curves on the left, on the right the head that looks where the answer stands."""
    with row:
        task = controls.choice("task", "Task", TASK_NAMES, label_visibility="collapsed", width=115)
        placement = controls.choice(
            "lab_norm", "Norm placement", controls.PLACEMENTS, label_visibility="collapsed", width=110
        )
    settings = replace(ALONE, task=task_of(task), norm_placement=placement)
    key = ("learn", task, placement)

    def begin() -> None:
        trainings = {controls.PLACEMENTS[placement]: Training(settings)}
        state.begin_work(key, _steps(trainings), total=settings.steps, keep=1)

    worker = state.work(key)
    with row:
        start_and_stop(worker, begin, pausable=True)
        _keep(worker)
    follow(worker, lambda: _draw(look, worker, settings))


def race(look: Look, row: Any) -> None:
    """Pre-LN and Post-LN learn in step from the same batches."""
    with row:
        rate = controls.choice("rate", "Learning rate", RATES, label_visibility="collapsed", width=200)
        warm_up = controls.choice("warm_up", "Warm-up", WARM_UPS, label_visibility="collapsed", width=210)
    settings = replace(PLACEMENTS, learning_rate=float(rate), warm_up=int(warm_up))
    key = ("race", rate, warm_up)

    def begin() -> None:
        trainings = Race.of_placements(settings).trainings
        state.begin_work(key, _steps(trainings), total=settings.steps, keep=1)

    worker = state.work(key)
    with row:
        start_and_stop(worker, begin, pausable=True)
    follow(worker, lambda: _draw(look, worker, settings))


def _steps(trainings: dict[str, Training]) -> Iterator[Seen]:
    """One step of each training at a time, so that others may run between; every few of them are looked at."""
    first = next(iter(trainings.values()))
    evaluations: dict[str, Evaluation] = {}
    trained: dict[str, Trained] = {}
    while not first.done:
        for training in trainings.values():
            training.step()
        if first.n_steps % EVERY == 0 or first.done or not trained:
            evaluations = {name: training.evaluate() for name, training in trainings.items()}
            trained = {name: training.trained(evaluations[name]) for name, training in trainings.items()}
        records = {name: training.records for name, training in trainings.items()}
        yield Seen(first.n_steps, records, evaluations, trained)


def _draw(look: Look, worker: Worker[Seen] | None, settings: Settings) -> None:
    seen = worker.results[-1] if worker and worker.results else None
    if seen is None:
        explain(*_about(settings), "Press Start: it takes some seconds.")
        return
    left, right = st.columns(2)
    with left:
        figure = training_curves(
            {name: _curves(records) for name, records in seen.records.items()},
            n_steps=settings.steps,
            palette=look.palette,
            title="Loss, accuracy, and gradient of first and last layer",
            height=look.height - PROGRESS,
        )
        chart(figure, key="training", alt="Loss, accuracy and gradient norms over the steps of training")
    with right:
        name = max(seen.evaluations, key=lambda runner: seen.evaluations[runner].accuracy)
        _attention(look, name, seen)
    explain(*_said(seen, settings), *_about(settings))
    shown = _table(seen)
    numbers(
        shown,
        name="training",
        downloads={"This table as CSV": lambda: shown, "Every step as CSV": lambda: _every_step(seen)},
    )


def _attention(look: Look, name: str, seen: Seen) -> None:
    """The head that looks most where the answer stands, on the example of the task."""
    trained, evaluation = seen.trained[name], seen.evaluations[name]
    layer, head = evaluation.best_head
    run = explorer.run(trained.model, trained.model.batch([trained.settings.task.example]))
    tokens = [visible(token) for token in run.batch.tokens[0]]
    answers = [visible(answer) for answer in trained.answers(run)[0]]
    places = trained.settings.task.right(run.batch.token_ids, run.batch.key_padding_mask)[0].tolist()
    asked = zip(tokens, answers, places, strict=True)
    rows = [f"{token} → {answer}" if place >= 0 else token for token, answer, place in asked]
    matrix = Matrix(
        values=run.trace.pattern(layer)[0, head],
        rows=rows,
        cols=tokens,
        title=f"{name} · L{layer} H{head} after {format_number(evaluation.step)} steps",
        row_title="query → its answer",
        col_title="key (is looked at)",
        phrase=("", " attends to key ", ": "),
        file=f"trained-{seen.step}",
    )
    matrix_canvas(pack_matrix(matrix), key="lab_map", height=look.height - PROGRESS)


def _keep(worker: Worker[Seen] | None) -> None:
    """Makes the encoder a source of all views, and a file."""
    if worker is None or worker.alive or not worker.results:
        return
    trained = next(iter(worker.results[-1].trained.values()))
    st.button("Look into it", key="lab_keep", on_click=lambda: state.keep_trained(trained))
    st.download_button(
        "Save weights",
        data=trained.weights,
        file_name=f"encoder-explorer-{trained.settings.task.name}-{trained.step}.safetensors",
        mime="application/octet-stream",
        on_click="ignore",
        key="lab_weights",
    )


def _curves(records: tuple[Record, ...]) -> Curves:
    return Curves(
        steps=np.array([record.step for record in records]),
        loss=np.array([record.loss for record in records]),
        accuracy=np.array([record.accuracy for record in records]),
        gradients=np.array([record.gradient_norms for record in records]),
    )


def _table(seen: Seen) -> pd.DataFrame:
    """Where each runner stands now, on sentences for testing; and which head looks where the answer stands."""
    rows = []
    for name, evaluation in seen.evaluations.items():
        layer, head = evaluation.best_head
        rows.append(
            {
                "placement": name,
                "n_steps": evaluation.step,
                "loss": evaluation.loss,
                "accuracy": evaluation.accuracy,
                "layer": layer,
                "head": head,
                "weight_on_right": float(evaluation.weight_on_right[layer, head]),
                "n_asked": evaluation.n_asked,
            }
        )
    return pd.DataFrame(rows)


def _every_step(seen: Seen) -> pd.DataFrame:
    frames = []
    for name, records in seen.records.items():
        rows = [
            {"placement": name, "step": record.step, "loss": record.loss, "accuracy": record.accuracy,
             "learning_rate": record.learning_rate}
            | {f"gradient_of_layer_{layer}": norm for layer, norm in enumerate(record.gradient_norms)}
            for record in records
        ]  # fmt: skip
        frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)


def _about(settings: Settings) -> list[str]:
    task = settings.task
    return [
        f"{task.asks} Rows have up to {task.longest} letters, and are padded and masked.",
        f"{settings.n_layers} layers, width {settings.d_model}, {settings.n_heads} heads, learning rate "
        f"{format_number(settings.learning_rate)}, "
        + (f"warm-up over {settings.warm_up} steps" if settings.warm_up else "no warm-up")
        + f", {settings.batch} rows a step.",
    ]


def _said(seen: Seen, settings: Settings) -> list[str]:
    """Where it stands; for a race who is ahead, in numbers."""
    said = [
        f"{name}: {format_number(100 * evaluation.accuracy)} % right after {format_number(evaluation.step)} steps, on "
        f"{format_number(evaluation.n_asked)} letters for testing."
        for name, evaluation in seen.evaluations.items()
    ]
    if len(seen.evaluations) == 1:
        evaluation = next(iter(seen.evaluations.values()))
        layer, head = evaluation.best_head
        weight = float(evaluation.weight_on_right[layer, head])
        return [*said, f"L{layer} H{head} puts {format_number(weight)} of its weight where the answer stands."]
    ahead, behind = sorted(seen.evaluations, key=lambda name: -seen.evaluations[name].accuracy)
    if seen.evaluations[ahead].accuracy - seen.evaluations[behind].accuracy > 0.02:
        said.append(f"{behind} lags behind {ahead}.")
    if settings.warm_up == 0:
        said.append("Choose a warm-up or a smaller learning rate to see what they change.")
    return said
