"""Many readers on one server: each has his own page, and the server does not grow."""

import gc
from typing import Any

import numpy as np
import pytest
import torch

import explorer
from components import state
from tests.app.page import SMALL, Page


def test_two_sessions_never_see_each_others_numbers() -> None:
    def alone(seed: int, **link: str) -> np.ndarray:
        return Page(**SMALL, seed=str(seed), **link).ok().heatmap["z"]

    expected = {seed: alone(seed) for seed in range(6)}
    assert len({array.tobytes() for array in expected.values()}) == 6
    state.shared.clear()
    first, second = Page(**SMALL), Page(**SMALL)
    for seed in range(1, 6):
        first.set("seed", seed)
        second.set("seed", 6 - seed)
        for page, own in ((first, seed), (second, 6 - seed)):
            page.at.run()
            np.testing.assert_array_equal(page.ok().heatmap["z"], expected[own])
            assert page.link.get("seed") == str(own)


def test_what_one_reader_chooses_moves_nobody_else() -> None:
    first, second = Page(**SMALL), Page(**SMALL)
    first.pick(0, 0).set("view", "residual").set("sentence", 1).set("mask", False)
    second.at.run()
    assert second.ok().link == SMALL | {"sel": "1.1"}
    assert second.value("view") == "attention"
    assert second.value("sentence") == 0


@pytest.mark.parametrize(
    ("mine", "yours"),
    [
        ("I like \U0001f680\nyes", "I like \U0001f642\nyes"),  # signs without a vector are one token to the encoder
        ("MY NAME\nyes", "my name\nyes"),  # and so is a word in capitals
        ("a  b\nyes", "a b\nyes"),
    ],
    ids=["unknown signs", "capitals", "spaces"],
)
def test_nobody_sees_what_somebody_else_typed(mine: str, yours: str) -> None:
    Page(layers="1", text=mine).ok()
    page = Page(layers="1", text=yours).ok()
    assert page.control("sentence").options == [f"{i}: {line}" for i, line in enumerate(yours.split("\n"), start=1)]


def test_the_ribbon_and_the_figure_are_in_the_readers_own_letters() -> None:
    """Composed and decomposed accents are one word, with one vector, and yet two ways to type it."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    Page(**SMALL, text=composed).ok()
    page = Page(**SMALL, text=decomposed).ok()
    assert page.rows[0][1] == decomposed
    assert page.heatmap["cols"][1] == decomposed
    assert page.grid[0]["tokens"][1] == decomposed
    assert page.at.dataframe[0].value["Token"][1] == decomposed


def test_the_global_random_generator_is_untouched() -> None:
    before = torch.get_rng_state()
    Page(**SMALL, seed="3", init="normal").set("seed", 4).ok()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_shared_trained_encoder_is_changed_by_nobody(minilm: explorer.Model) -> None:
    Page().set("layers", 2).set("mask", False).set("layers", 6).ok()
    found = state.trained()
    assert isinstance(found, explorer.Model)
    for name, parameter in minilm.encoder.state_dict().items():
        assert torch.equal(parameter, found.encoder.state_dict()[name]), name
    assert found.config.n_layers == 6


def _arrays(value: Any) -> list[str]:
    """Types in a session that grow with the text."""
    heavy = (np.ndarray, torch.Tensor, explorer.Run, explorer.Model, explorer.Batch, bytes)
    if isinstance(value, dict):
        return [name for part in value.values() for name in _arrays(part)]
    if isinstance(value, list | tuple | set):
        return [name for part in value for name in _arrays(part)]
    return [type(value).__name__] if isinstance(value, heavy) else []


def _traces() -> int:
    """How many records of runs are alive in this process."""
    gc.collect()
    return sum(isinstance(thing, explorer.Trace) for thing in gc.get_objects())


def test_forty_sentences_leave_no_more_than_the_bound(passes: list[explorer.Run]) -> None:
    others = _traces()  # what tests before this one still hold
    page = Page(**SMALL)
    kept = []
    for i in range(40):
        page.set("text", f"sentence number {i}\nand another one").ok()
        kept.append(len(state.shared().runs))
    assert len(passes) == 41
    assert max(kept) == kept[-1] == 32
    shared = state.shared()
    assert shared.runs.n_bytes == sum(run.n_bytes for run in shared.runs._values.values()) <= 2**30
    assert len(shared.payloads) == 2 * 41  # the grid and the head of each: small ones, so bytes do not bound them
    assert shared.payloads.n_bytes == sum(map(len, shared.payloads._values.values())) <= 128 * 2**20
    assert _arrays(dict(page.at.session_state.to_dict())) == []

    # Neither the page, nor a figure, nor a download holds on to the record of a run that left the cache.
    passes.clear()
    assert _traces() - others <= 32 + 3  # what is kept, and what the last page still shows


def test_many_seeds_leave_no_more_encoders_than_the_bound() -> None:
    page = Page(**SMALL)
    for seed in range(1, 13):
        page.set("seed", seed)
    assert len(state.shared().models) == 8


def test_large_runs_are_bounded_by_their_bytes(passes: list[explorer.Run]) -> None:
    page = Page(view="shapes", text="a")
    for word in ("one", "two", "three"):
        page.set("text", "\n".join([f"{word} " * 510] * 3)).ok()
    sizes = [run.n_bytes for run in passes]
    assert 2**30 / 3 < sizes[-1] <= state.MAX_RUN_BYTES
    assert len(state.shared().runs) == 2
    assert state.shared().runs.n_bytes == sum(sizes[-2:]) <= 2**30
