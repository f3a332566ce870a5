"""Runs in which some heads add nothing."""

import threading

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer import ConfigError, build
from explorer.weights import fill
from tests.helpers import rough, tiny

SENTENCES = ["one two three", "four"]
PLACEMENTS = pytest.mark.parametrize("placement", ["pre", "post"])
SIDES = pytest.mark.parametrize("side", ["right", "left"])


def model_of(placement, **changes):
    return rough(tiny(**{"n_layers": 3, "norm_placement": placement} | changes))


@PLACEMENTS
@SIDES
def test_a_layer_without_heads_adds_the_bias_alone(placement, side):
    """0 times any weight is 0: exactly the bias for every token, and exactly nothing where there is no bias."""
    for bias in (True, False):
        model = model_of(placement, bias=bias)
        run = explorer.run(model, model.batch(SENTENCES, padding_side=side), heads_off=[(1, 0), (1, 1)])
        out_proj = model.encoder.layers[1].attn.out_proj
        expected = out_proj.bias.detach().numpy() if bias else np.zeros(8)
        assert (run.trace.attn_out(1) == expected).all()
        assert not run.trace.z(1).any()
        assert (run.trace.attn_out(0) != run.trace.attn_out(1)).any()


@PLACEMENTS
def test_patterns_change_only_after_the_layer(placement):
    model = model_of(placement)
    batch = model.batch(SENTENCES)
    before, after = explorer.run(model, batch), explorer.run(model, batch, heads_off={(1, 0)})
    assert (before.heads_off, after.heads_off) == (frozenset(), frozenset({(1, 0)}))
    for layer in (0, 1):
        assert np.array_equal(before.trace.pattern(layer), after.trace.pattern(layer))
        assert np.array_equal(before.trace.scores(layer), after.trace.scores(layer))
    assert np.abs(before.trace.pattern(2) - after.trace.pattern(2)).max() > 1e-4
    assert np.array_equal(before.trace.z(1)[:, 1], after.trace.z(1)[:, 1])
    assert before.trace.z(1)[:, 0].all()
    assert not after.trace.z(1)[:, 0].any()


@PLACEMENTS
@SIDES
def test_it_is_as_if_out_proj_had_no_weights_for_the_head(placement, side):
    """H == length == batch == 3, so that a mixed-up axis shows. d_head 4: head h has columns 4h to 4h + 3."""
    model = model_of(placement, n_heads=3, d_model=12)
    state = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    for layer, head in [(0, 2), (2, 1)]:
        state[f"layers.{layer}.attn.out_proj.weight"][:, 4 * head : 4 * head + 4] = 0
    other = build(model.config)
    fill(other.encoder, state)
    batch = model.batch(["one", "two", ""], padding_side=side)
    run = explorer.run(model, batch, heads_off=[(0, 2), (2, 1)])
    expected = explorer.run(other, batch)
    assert_allclose(run.output, expected.output, rtol=0, atol=1e-6)
    assert_allclose(run.trace.attn_out(), expected.trace.attn_out(), rtol=0, atol=1e-6)
    assert np.abs(run.output - explorer.run(model, batch).output).max() > 1e-3


@PLACEMENTS
def test_with_no_head_off_nothing_changes(placement):
    model = model_of(placement)
    batch = model.batch(SENTENCES)
    with torch.inference_mode():
        alone = model.encoder(batch.token_ids, batch.key_padding_mask).numpy()
    for none in ((), [], frozenset()):
        run = explorer.run(model, batch, heads_off=none)
        assert np.array_equal(run.output, alone)
        assert run.heads_off == frozenset()


@pytest.mark.parametrize("head", [(3, 0), (0, 2), (-1, 0), (0, -1)])
def test_a_head_that_does_not_exist_is_refused(head):
    """-1 would be the last one in a list."""
    model = model_of("post")
    message = rf"no head L{head[0]} H{head[1]} .* layers 0 to 2 and heads 0 to 1$"
    with pytest.raises(ConfigError, match=message):
        explorer.run(model, model.batch(SENTENCES), heads_off=[(0, 0), head])


def test_two_threads_switch_off_different_heads_of_one_model():
    """D4: the model is shared; what is off belongs to the run."""
    model = model_of("post")
    batch = model.batch(SENTENCES)
    choices = [frozenset({(0, 0)}), frozenset({(0, 1), (2, 0)}), frozenset()]
    parameters = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    expected = {off: explorer.run(model, batch, heads_off=off).output for off in choices}
    found = {off: [] for off in choices}
    threads = [
        threading.Thread(
            target=lambda off=off: found[off].extend(explorer.run(model, batch, heads_off=off) for _ in range(30))
        )
        for off in choices
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for off, runs in found.items():
        assert len(runs) == 30
        assert all(np.array_equal(run.output, expected[off]) and run.heads_off == off for run in runs)
    assert all(torch.equal(value, parameters[name]) for name, value in model.encoder.state_dict().items())


def test_the_trained_encoder_without_a_head(minilm):
    batch = minilm.batch(["The animal didn't cross the street because it was too tired."])
    before, after = explorer.run(minilm, batch), explorer.run(minilm, batch, heads_off=[(3, 1)])
    assert np.array_equal(before.trace.pattern(3), after.trace.pattern(3))
    assert 1e-3 < np.abs(before.output - after.output).max() < 10
