"""Seeded initialisation: the same on every machine, different in every layer."""

import math

import numpy as np
import pytest
import torch

from explorer import ConfigError
from explorer.weights import INITIALISATIONS, draw_state
from tests.helpers import tiny

WIDE = {"n_heads": 4, "d_model": 64, "d_ff": 128, "vocab_size": 500, "positions": "learned", "n_segments": 2}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("init", INITIALISATIONS)
def test_a_seed_gives_one_state_and_another_seed_another(init):
    config = tiny(vocab_size=50, positions="learned")
    assert same(draw_state(config, seed=3, init=init), draw_state(config, seed=3, init=init))
    first, other = draw_state(config, seed=3, init=init), draw_state(config, seed=4, init=init)
    for name, value in first.items():
        if not name.endswith("bias") and "norm" not in name:
            assert not torch.isclose(value, other[name]).all(), name


@pytest.mark.parametrize("init", INITIALISATIONS)
def test_every_layer_is_drawn_on_its_own(init):
    """A12: one layer copied n times is the classic fault of a stack."""
    state = draw_state(tiny(n_layers=3), init=init)
    for name in ("attn.in_proj.weight", "attn.out_proj.weight", "ff.linear1.weight", "ff.linear2.weight"):
        layers = [state[f"layers.{layer}.{name}"] for layer in range(3)]
        assert len({value.data_ptr() for value in layers}) == 3
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert not torch.isclose(layers[one], layers[other]).any()


def test_q_k_and_v_are_drawn_on_their_own():
    q, k, v = draw_state(tiny())["layers.0.attn.in_proj.weight"].chunk(3)
    assert not torch.isclose(q, k).any()
    assert not torch.isclose(k, v).any()


def test_a_layer_is_the_same_in_stacks_of_any_depth():
    """Adding a layer on the page must not change those below it, nor the embeddings."""
    shallow, deep = draw_state(tiny(n_layers=2, vocab_size=50)), draw_state(tiny(n_layers=5, vocab_size=50))
    for name, value in shallow.items():
        assert torch.equal(value, deep[name]), name


def test_the_placement_of_the_norms_changes_no_weight():
    """So that Pre-LN and Post-LN can be compared with equal weights."""
    post, pre = draw_state(tiny(norm_placement="post")), draw_state(tiny(norm_placement="pre"))
    assert all(torch.equal(value, pre[name]) for name, value in post.items())
    assert set(pre) - set(post) == {"final_norm.weight", "final_norm.bias"}


def test_xavier_fills_its_bounds_evenly():
    """sqrt(6 / (fan_in + fan_out)) for each projection apart: 3 d_model as fan_out of q, k, v is too narrow."""
    state = draw_state(tiny(**WIDE))
    for name, fan in (
        ("attn.in_proj.weight", 64 + 64),
        ("attn.out_proj.weight", 64 + 64),
        ("ff.linear1.weight", 64 + 128),
        ("ff.linear2.weight", 128 + 64),
    ):
        bound = math.sqrt(6 / fan)
        value = state[f"layers.1.{name}"]
        assert 0.99 * bound < value.abs().max() <= bound
        assert value.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
        assert value.mean().item() == pytest.approx(0, abs=0.03 * bound)


def test_xavier_gives_vectors_a_length_of_1():
    state = draw_state(tiny(**WIDE))
    for name in ("tokens", "positions"):
        assert state[f"embed.{name}.weight"].std().item() == pytest.approx(1 / 8, rel=0.05)


def test_normal_has_a_std_of_0_02_everywhere():
    state = draw_state(tiny(**WIDE), init="normal")
    for name, value in state.items():
        if value.ndim == 2:
            assert value.std().item() == pytest.approx(0.02, rel=0.2 if "segments" in name else 0.05), name


def test_biases_are_0_and_gammas_1():
    state = draw_state(tiny(**WIDE, embedding_norm=True, norm_placement="pre"))
    for name, value in state.items():
        if name.endswith("bias"):
            assert not value.any(), name
        elif "norm" in name:
            assert (value == 1).all(), name


def test_without_bias_there_is_none():
    assert not [name for name in draw_state(tiny(bias=False, norm_placement="pre")) if name.endswith("bias")]


@pytest.mark.parametrize("init", INITIALISATIONS)
def test_the_global_generators_are_untouched(init):
    """D4."""
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    draw_state(tiny(vocab_size=50), seed=9, init=init)
    assert torch.equal(torch_before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])


def test_the_global_seed_has_no_influence():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = draw_state(tiny())
        torch.manual_seed(2)
        assert same(first, draw_state(tiny()))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, "0", True, None])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ConfigError, match="seed must be a whole number from 0 to 4,294,967,295, not"):
        draw_state(tiny(), seed=seed)


def test_the_ends_of_the_seeds_are_good():
    assert not same(draw_state(tiny(), seed=0), draw_state(tiny(), seed=2**32 - 1))


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_initialisation_is_refused():
    with pytest.raises(ConfigError, match="init must be one of xavier, normal, not 'kaiming'; usual: xavier"):
        draw_state(tiny(), init="kaiming")


def test_weights_are_known_by_value():
    """Seed 0 is an address: a link shows the same numbers next year. Drawn with torch 2.13."""
    row = draw_state(tiny())["layers.0.attn.in_proj.weight"][0, :4]
    assert row.tolist() == pytest.approx([0.0204884, -0.1298291, 0.4355847, 0.2717505], abs=1e-6)
