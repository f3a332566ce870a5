"""Distillation: what is made small, how it is made small, and that a run that stops loses nothing."""

import dataclasses
import math

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from explorer import WeightsError
from training import distil as module
from training.checkpoint import Checkpoint
from training.distil import (
    FROZEN,
    SECOND,
    Recipe,
    clip_gradients,
    distance,
    distil,
    make_optimizer,
    rate,
    set_learning_rate,
)
from training.texts import AGAIN, FIRST, THEN
from training.watch import Watched, token_weights, watch_student, watch_teacher

SHORT = Recipe(steps=8, tokens=64, learning_rate=3e-5)
TEXTS = ["The dog didn't open the door because it was too tired.", "A short one.", "Where is my red umbrella?"]


@pytest.fixture
def one_batch(minilm, monkeypatch):
    """Every step, and the start, get the same texts: so the loss of one step can be compared with that of another."""
    batch = minilm.batch(TEXTS)
    monkeypatch.setattr(module, "draw_batch", lambda *args: batch)
    monkeypatch.setattr(module, "BATCHES_FOR_ALGEBRA", 1)
    return batch


@pytest.fixture
def two_tokens(minilm):
    """A batch of one text with `[CLS]`, one token and `[SEP]`, of which the last is hidden here."""
    batch = minilm.batch(["Hi"])
    return dataclasses.replace(batch, key_padding_mask=torch.tensor([[False, False, True]]))


def watched(rows, reads):
    return Watched([torch.tensor([[rows]])], [torch.tensor([row]) for row in reads])


@pytest.mark.parametrize("recipe", [Recipe(), SECOND])
def test_the_distance_by_hand(two_tokens, recipe):
    """`[CLS]` counts 2 of 3. Its row of attention differs by ln 2, the read of the other token by half its length."""
    rows = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.4, 0.4]]
    reads = [[[2.0, 0.0], [4.0, 0.0], [9.0, 9.0]], [[1.0, 0.0], [1.0, 0.0], [5.0, 5.0]]]
    teacher = watched([[1.0, 0.0, 0.0], *rows[1:]], reads)
    student = watched(rows, [[[2.0, 0.0], [4.0, 2.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0], [7.0, 7.0]]])
    kl = 2 / 3 * math.log(2)
    first, output = (2**2 / 4**2) / 3, 1.0
    cosine = 1 / math.sqrt(2)
    if recipe.again:  # the output counts 6 times
        expected = 1.5 * kl + 2 * (first + 6 * output) / 7 + 2 * (1 - cosine)
    else:  # twice
        expected = kl + 2 * (first + output + output) / 3 + (1 - cosine)
    assert distance(student, teacher, two_tokens, recipe).item() == pytest.approx(expected, rel=1e-5)
    assert distance(teacher, teacher, two_tokens, recipe).item() == pytest.approx(0, abs=1e-6)


def test_the_mix_of_texts_turns_at_its_step(minilm, monkeypatch):
    used = []
    monkeypatch.setattr(module, "draw_texts", lambda rng, corpus, n, mix: used.append(mix) or (["A text."], 8))
    for step in (-24, 0, 899, 900, 2000):
        module.draw_batch(minilm, None, Recipe(turn=900), step)
    module.draw_batch(minilm, None, SECOND, 0)
    assert used == [FIRST, FIRST, FIRST, THEN, THEN, AGAIN]


def test_padding_weighs_nothing():
    weights = token_weights(torch.tensor([[False, False], [False, True]]), 2.0)
    assert_close(weights, torch.tensor([[0.4, 0.2], [0.4, 0.0]]))


def test_the_learning_rate_rises_and_falls_to_nothing():
    recipe = Recipe(steps=1000, learning_rate=1.0, warm_up=0.05)
    rates = [rate(step, recipe) for step in range(1000)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[49] == rates[50] == 1
    assert rates[525] == pytest.approx(0.5, abs=0.001)
    assert 0 < rates[999] < 1e-4
    assert max(rates) == 1


def test_training_brings_the_student_closer_and_leaves_what_is_exact(minilm, one_batch, tmp_path):
    start = module.start(minilm, None, SHORT)
    before = {name: value.clone() for name, value in start.student.state_dict().items()}
    target = watch_teacher(minilm.encoder, one_batch)
    first = distance(watch_student(start.student, one_batch), target, one_batch, SHORT).item()
    end = distil(minilm, None, SHORT, tmp_path / "checkpoint.safetensors")
    assert end.step == 8
    assert distance(watch_student(end.student, one_batch), target, one_batch, SHORT).item() < 0.8 * first
    for name, value in end.student.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith(FROZEN), name


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(minilm, monkeypatch, tmp_path):
    """To the last bit, whatever the optimizer had in mind."""
    recipe = dataclasses.replace(SHORT, steps=4)
    monkeypatch.setattr(module, "BATCHES_FOR_ALGEBRA", 2)
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    distil(minilm, None, recipe, whole)
    steps = iter(range(100))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(steps)))
    stopped = distil(minilm, None, recipe, parts, seconds=4)
    assert 0 < stopped.step < 4
    assert distil(minilm, None, recipe, parts).step == 4
    one, other = load_file(whole), load_file(parts)
    assert one.keys() == other.keys()
    assert sum(name.startswith("exp_avg_sq.") for name in one) == 6 * 12 + 2 - 4  # all but what is frozen
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_a_checkpoint_of_another_recipe_is_refused_but_more_steps_are_not(minilm, one_batch, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    distil(minilm, None, SHORT, path, seconds=0)
    with pytest.raises(WeightsError, match=r"was made with seed 0, not 1; give the same options, or another --out"):
        Checkpoint.read(path, dataclasses.replace(SHORT, seed=1))
    assert Checkpoint.read(path, SHORT).plan == [(0, 8)]
    assert Checkpoint.read(path, dataclasses.replace(SHORT, steps=9)).plan == [(0, 8), (0, 9)]
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_second_run_starts_from_the_weights_of_the_first_and_nothing_else_of_it(minilm, one_batch, tmp_path):
    first, path = tmp_path / "first.safetensors", tmp_path / "again" / "checkpoint.safetensors"
    recipe = dataclasses.replace(SHORT, again=True, steps=3)
    distil(minilm, None, dataclasses.replace(SHORT, steps=2), first, seconds=0)
    with pytest.raises(WeightsError, match=r"is at step 0 of 2: finish it first"):
        distil(minilm, None, recipe, path, first=first)
    ended = distil(minilm, None, dataclasses.replace(SHORT, steps=2), first)
    start = distil(minilm, None, recipe, path, first=first, seconds=0)
    assert (start.step, start.seconds, start.plan) == (0, 0, [(0, 3)])
    assert start.earlier[-1]["recipe"]["steps"] == 2
    assert start.earlier[-1]["seconds"] == ended.seconds
    before = {name: value.clone() for name, value in start.student.state_dict().items()}
    for name, value in ended.student.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert not [name for name in load_file(path) if name.startswith("exp_avg")]
    end = distil(minilm, None, recipe, path, first=first)  # goes on from its own checkpoint
    assert (end.step, end.earlier) == (3, start.earlier)
    for name, value in end.student.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith(FROZEN), name


def test_what_is_added_to_the_stream_moves_in_its_scale(minilm, one_batch):
    """The first step of AdamW is the learning rate, whatever the gradient: here times the scale of the matrix."""
    recipe = dataclasses.replace(SHORT, weight_decay=0.0)
    checkpoint = module.start(minilm, None, recipe)
    student, scales = checkpoint.student, checkpoint.scales
    optimizer = make_optimizer(student, scales, recipe)
    set_learning_rate(optimizer, 1e-3)
    before = {name: value.clone() for name, value in student.state_dict().items()}
    distance(watch_student(student, one_batch), watch_teacher(minilm.encoder, one_batch), one_batch, recipe).backward()
    optimizer.step()
    for name in ("layers.0.attn.out_proj", "layers.5.ff.linear2", "layers.3.ff.linear1"):
        moved = (student.state_dict()[f"{name}.weight"] - before[f"{name}.weight"]).abs().median().item()
        assert moved == pytest.approx(1e-3 * scales.get(name, 1.0), rel=0.01)


def test_gradients_are_clipped_together_each_in_its_scale(minilm, one_batch):
    checkpoint = module.start(minilm, None, SHORT)
    for parameter in checkpoint.student.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    layer = checkpoint.student.layers[0]
    layer.ff.linear1.bias.grad[0] = 3.0
    layer.attn.out_proj.bias.grad[0] = 4.0 / checkpoint.scales["layers.0.attn.out_proj"]
    assert clip_gradients(checkpoint.student, checkpoint.scales, 1.0) == pytest.approx(5.0)
    assert layer.ff.linear1.bias.grad[0].item() == pytest.approx(0.6)
    assert clip_gradients(checkpoint.student, checkpoint.scales, 1.0) == pytest.approx(1.0)
    assert layer.ff.linear1.bias.grad[0].item() == pytest.approx(0.6)
