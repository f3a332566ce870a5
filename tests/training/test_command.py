"""The command, from nothing to weights and a card: `--smoke` does all of it in a minute, without a network."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import explorer
from explorer.weights import twin as shipped
from training import __main__ as command
from training import texts
from training.__main__ import main
from training.card import targets
from training.checkpoint import Checkpoint
from training.distil import SECOND, Recipe

WEIGHTS = "minilm_preln.safetensors"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Trained in two goes: stopped before the first step, and resumed."""
    folder = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "fetch", lambda folder: pytest.fail("the network was asked"))
        assert main(["--smoke", "--out", str(folder), "--seconds", "0"]) == 0
        assert [path.name for path in folder.iterdir()] == ["checkpoint.safetensors"]
        assert main(["--smoke", "--out", str(folder), "--resume"]) == 0
    return folder


@pytest.fixture(scope="module")
def again(out):
    """A second run, in a folder of its own."""
    assert main(["--smoke", "--out", str(out), "--again"]) == 0
    return out / "again"


def test_it_leaves_weights_card_and_figures(out):
    assert {path.name for path in out.iterdir()} - {"again"} == {
        "checkpoint.safetensors",
        "figures.json",
        WEIGHTS,
        "minilm_preln.md",
    }


def test_the_weights_can_be_loaded_as_those_that_are_shipped(out, monkeypatch):
    monkeypatch.setattr(shipped, "check_sha256", lambda *args, **more: None)
    encoder, _, report = shipped.load_twin(weights=out / WEIGHTS)
    trained = load_file(out / "checkpoint.safetensors")
    for name, value in encoder.state_dict().items():
        expected = trained[f"student.{name}"]
        assert torch.equal(value, expected if name.startswith("embed.") else expected.half().float()), name
    assert report.trained


def test_a_few_steps_reach_something(out):
    """Far from the targets, as far from nothing."""
    figures = json.loads((out / "figures.json").read_text(encoding="utf-8"))
    assert {name: found["texts"] for name, found in figures["lists"].items()} == command.SMOKE_TEXTS
    assert 0.7 < figures["lists"]["lines"]["sentence_cosine"] < 0.99
    assert not all(reached for *_, reached in targets(figures))


def test_the_card_says_how_it_was_made_and_what_was_missed(out):
    card = (out / "minilm_preln.md").read_text(encoding="utf-8")
    figures = json.loads((out / "figures.json").read_text(encoding="utf-8"))
    assert f"{command.SMOKE['steps']} steps of distillation" in card
    assert f"| sentence cosine, lines | {figures['lists']['lines']['sentence_cosine']} | ≥ 0.992 | **no** |" in card
    for value in (*figures["heads"]["twin"].values(), *figures["lists"]["lines"]["attention_variation"]):
        assert str(value) in card
    assert "{" not in card


def test_a_second_run_has_a_card_that_says_both(out, again):
    card = (again / "minilm_preln.md").read_text(encoding="utf-8")
    assert {path.name for path in again.iterdir()} == {path.name for path in out.iterdir()} - {"again"}
    assert card.count("8 steps of distillation") == 2
    assert "The first run (`python -m training`) began with the algebra" in card
    assert (
        "The second run (`python -m training --again`) began with the weights of the one before and a new optimizer:\n"
        in card
    )
    assert "which counts 2 times, + 1 x (1 - cosine of the sentence)" in card
    assert "which counts 6 times, + 2 x (1 - cosine of the sentence)" in card
    assert "lists of words and names 13%" in card
    assert "{" not in card
    assert "second run" not in (out / "minilm_preln.md").read_text(encoding="utf-8")


def test_a_second_run_needs_a_first(tmp_path, caplog):
    assert main(["--smoke", "--out", str(tmp_path), "--again"]) == 1
    assert "the first run comes without --again" in caplog.text


def test_a_checkpoint_is_not_overwritten(out, caplog):
    before = (out / "checkpoint.safetensors").stat().st_mtime_ns
    assert main(["--smoke", "--out", str(out)]) == 1
    assert "add --resume to go on" in caplog.text
    assert (out / "checkpoint.safetensors").stat().st_mtime_ns == before


def test_there_must_be_something_to_go_on_from(tmp_path, caplog):
    assert main(["--smoke", "--out", str(tmp_path), "--resume"]) == 1
    assert "to go on from" in caplog.text


def test_what_cannot_be_had_is_said_in_one_line(tmp_path, caplog, monkeypatch):
    def missing(name):
        raise explorer.WeightsError("no weights here")

    monkeypatch.setattr(explorer, "load", missing)
    assert main(["--smoke", "--out", str(tmp_path)]) == 1
    assert caplog.messages == ["no weights here"]


def test_the_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    for option in ("--steps", "--seconds", "--texts", "--resume", "--again", "--out", "--seed", "--smoke"):
        assert option in printed


def figures(**changes):
    lines = {"sentence_cosine": 0.992, "sentence_cosine_worst": 0.98, "output_cosine": 0.981}
    lines |= {"attention_variation": [0.0, 0.07]} | changes
    return {"lists": {"lines": lines, "long": {"sentence_cosine": changes.get("long", 0.97)}}}


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"sentence_cosine": 0.9919}, [0]),
        ({"sentence_cosine_worst": 0.9799}, [1]),
        ({"output_cosine": 0.98}, [2]),
        ({"attention_variation": [0.0701, 0.0]}, [3]),
        ({"long": 0.9699}, [4]),
    ],
)
def test_a_target_that_is_missed_is_called_so(changes, missed):
    assert [number for number, target in enumerate(targets(figures(**changes))) if not target[-1]] == missed


def test_there_are_three_runs_and_no_more(tmp_path, caplog):
    assert main(["--smoke", "--out", str(tmp_path), "--again", "--again", "--again"]) == 1
    assert "there are three runs, so twice at most" in caplog.text


def test_the_mean_is_half_way_between_a_run_and_what_it_started_from(out, again):
    first = Checkpoint.read(out / "checkpoint.safetensors", replace(Recipe(), **command.SMOKE))
    end = Checkpoint.read(again / "checkpoint.safetensors", replace(SECOND, **command.SMOKE))
    before, after = dict(first.student.named_parameters()), dict(end.student.named_parameters())
    expected = {name: (after[name] + before[name]) / 2 for name in after}
    end.go_half_way_back(out / "checkpoint.safetensors")
    assert end.mean
    for name, value in end.student.named_parameters():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
