"""What LayerNorm measures, by hand."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer import build
from explorer.stats import layer_norm, token_moments
from explorer.stats.layernorm import (
    MISTAKES,
    batch_norm,
    largest_dimensions,
    mistakes,
    token_terms,
    variance_shares,
)
from tests.helpers import rough, tiny


def test_population_std_by_hand():
    """A14: 1 2 3 4 has std sqrt(1.25) = 1.118; the sample std would be 1.291."""
    mean, std = token_moments(np.array([[1.0, 2.0, 3.0, 4.0]], dtype=np.float32))
    assert mean.tolist() == [2.5]
    assert_allclose(std, [1.25**0.5])


def test_a_constant_token_has_std_exactly_0():
    assert token_moments(np.full((2, 3, 4), 0.1, dtype=np.float32))[1].max() == pytest.approx(0, abs=1e-12)
    assert token_moments(np.full((1, 4), 7.0, dtype=np.float32))[1].tolist() == [0.0]


@pytest.mark.parametrize("d_model", [4, 8])
def test_a_fresh_layernorm_gives_std_1_and_not_1_1547(d_model):
    """A14: D 4 with the sample std would show 1.1547. eps (1e-5) takes a little off."""
    model = build(tiny(d_model=d_model, norm_placement="pre"))
    trace = explorer.run(model, model.batch(["one two three"])).trace
    mean, std = token_moments(trace.norm("norm1", "out", 0))
    assert_allclose(mean, 0, rtol=0, atol=1e-6)
    assert_allclose(std, 1, rtol=0, atol=1e-3)


def test_a_large_mean_leaves_a_small_std_right():
    """1000 and 1000.125: sums are in float64, so that nothing cancels."""
    x = np.array([[1000.0, 1000.125, 1000.0, 1000.125]], dtype=np.float32)
    assert_allclose(token_moments(x)[1], [0.0625], rtol=1e-12)


def test_layer_norm_by_hand():
    """1 2 3 4 is -1.5 -0.5 0.5 1.5 around its mean, and its variance is 1.25: with eps 1 the scale is 1.5."""
    x = np.array([[1.0, 2.0, 3.0, 4.0]], dtype=np.float32)
    one, zero = np.ones(4), np.zeros(4)
    assert_allclose(layer_norm(x, one, zero, 0.0)[0, 0], -1.5 / 1.25**0.5)
    assert_allclose(layer_norm(x, one, zero, 1.0), [[-1, -1 / 3, 1 / 3, 1]])
    assert_allclose(layer_norm(x, np.array([1.0, 3.0, 1.0, 2.0]), np.full(4, 10.0), 1.0), [[9, 9, 10 + 1 / 3, 12]])


def test_a_constant_token_becomes_beta():
    beta = np.arange(4.0)
    assert layer_norm(np.full((2, 3, 4), 7.0), np.full(4, 5.0), beta, 1e-12).tolist() == [[beta.tolist()] * 3] * 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_layer_norm_is_what_the_encoder_does(side):
    model = rough(tiny(n_heads=4, embedding_norm=True))
    trace = explorer.run(
        model, model.batch(["a b", "one", "two", ""], padding_side=side)
    ).trace  # 4 x 4 tokens, 4 heads
    for layer in range(2):
        parameters = model.norm_parameters("norm1", layer)
        expected = trace.norm("norm1", "out", layer)
        assert_allclose(layer_norm(trace.norm("norm1", "in", layer), *parameters), expected, rtol=0, atol=1e-5)


def test_the_terms_of_one_token_by_hand():
    x = np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)
    terms = token_terms(x, np.full(4, 2.0), np.full(4, 0.5), 1.0)
    assert (terms.mean, terms.variance, terms.scale) == (2.5, 1.25, 1.5)
    assert terms.std == pytest.approx(1.25**0.5)
    assert_allclose(terms.normalised, [-1, -1 / 3, 1 / 3, 1])
    assert_allclose(terms.out, [-1.5, 0.5 - 2 / 3, 0.5 + 2 / 3, 2.5])


def test_eps_is_all_the_scale_of_a_constant_token():
    terms = token_terms(np.full(4, 7.0), np.ones(4), np.arange(4.0), 1e-4)
    assert (terms.variance, terms.std) == (0, 0)
    assert terms.scale == pytest.approx(0.01)
    assert terms.out.tolist() == [0, 1, 2, 3]


def test_the_largest_dimensions_are_those_furthest_from_the_mean():
    """Around their means: -3 0 3 0 and 0 0 0 0; of equals the first comes first."""
    x = np.array([[-1.0, 2.0, 5.0, 2.0], [1.0, 1.0, 1.0, 1.0]], dtype=np.float32)
    index, values = largest_dimensions(x, 3)
    assert index.tolist() == [[0, 2, 1], [0, 1, 2]]
    assert values.tolist() == [[-1, 5, 2], [1, 1, 1]]
    assert largest_dimensions(x, 9)[0].shape == (2, 4)


def test_shares_of_the_variance():
    """10 0 0 0 0 is 8 -2 -2 -2 -2 around its mean: 64 of 80."""
    shares = variance_shares(np.array([[10.0, 0.0, 0.0, 0.0, 0.0], [3.0, 3.0, 3.0, 3.0, 3.0]], dtype=np.float32))
    assert_allclose(shares[0], [0.8, 0.05, 0.05, 0.05, 0.05])
    assert np.isnan(shares[1]).all()


def test_dimension_99_makes_the_variance_of_cls(minilm):
    """The published encoder before norm2 of layer 0: `[CLS]` has variance 128; the median of the others is 0.69."""
    run = explorer.run(minilm, minilm.batch(["The animal didn't cross the street because it was too tired."]))
    x = run.trace.norm("norm2", "in", 0)[0]
    terms = token_terms(x[0], *minilm.norm_parameters("norm2", 0))
    assert terms.variance == pytest.approx(128, abs=0.5)
    index, values = largest_dimensions(x, 2)
    assert index[0, 0] == 99
    assert values[0, 0] == x[0, 99]
    assert variance_shares(x)[0, 99] > 0.99
    assert_allclose(terms.out, run.trace.norm("norm2", "out", 0)[0, 0], rtol=0, atol=5e-5)


PADDINGS = [[False, False, True], [True, False, False], [False, True, False]]  # batch == pos == d_model below


@pytest.mark.parametrize("padding", PADDINGS)
def test_batch_norm_by_hand(padding):
    """Three tokens, one of them padding, in each of 3 sentences of width 3."""
    mask = np.array([padding] * 3)
    x = np.zeros((3, 3, 3), dtype=np.float32)
    x[:] = np.array([[[0.0]], [[6.0]], [[3.0]]])  # each sentence is one number
    x[mask] = 30.0
    norm = batch_norm(x, mask, 3.0)
    assert norm.mean.tolist() == [3.0] * 3
    assert norm.variance.tolist() == [6.0] * 3
    assert_allclose(norm.out[~mask][:, 0], [-1, -1, 1, 1, 0, 0])  # sqrt(6 + 3) = 3
    assert norm.mean_padded.tolist() == [12.0] * 3  # (6 x 3 + 3 x 30) / 9
    assert_allclose(norm.variance_padded, (6 * 6 + 6 * 81 + 3 * 18**2) / 9)


def test_without_padding_batch_norm_needs_no_mask():
    x = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
    norm = batch_norm(x, np.zeros((2, 4), dtype=bool), 1e-5)
    assert np.array_equal(norm.out, norm.out_padded)
    assert_allclose(norm.out.mean(axis=(0, 1)), 0, rtol=0, atol=1e-12)
    theirs = torch.nn.functional.batch_norm(
        torch.from_numpy(x).double().flatten(0, 1), None, None, training=True, eps=1e-5
    )
    assert_allclose(norm.out, theirs.unflatten(0, (2, 4)).numpy(), rtol=0, atol=1e-12)


def test_mistakes_by_hand():
    """-1 1 around a mean of 0: std 1, sample std sqrt(2). eps is 3: scale 2, and 1 + 3 = 4 where it stands outside."""
    x = np.array([[[-1.0, 1.0]]])
    found = mistakes(x, np.array([4.0, 4.0]), np.array([0.5, 0.5]), 3.0, np.array([[False]]))
    assert list(found) == list(MISTAKES)
    out = {name: mistake.out[0, 0].tolist() for name, mistake in found.items()}
    assert out["sample_std"] == pytest.approx([0.5 - 4 / 5**0.5, 0.5 + 4 / 5**0.5])
    assert out["eps_outside"] == [-0.5, 1.5]  # right: -1.5 and 2.5
    assert out["minus_beta"] == [-2.5, 1.5]
    assert out["no_mask"] == [0.5, 0.5]  # one token: each feature is its own mean
    assert found["sample_std"].difference == pytest.approx(2 - 4 / 5**0.5)
    assert found["eps_outside"].difference == found["minus_beta"].difference == 1
    assert found["no_mask"].difference == 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_matters_to_the_mistake_with_the_mask_and_to_no_other(side):
    model = rough(tiny())
    parameters = model.norm_parameters("norm1", 0)
    found = {}
    for pad_to in (None, 9):
        batch = model.batch(["one two three", "a b c"], padding_side=side, pad_to=pad_to)
        padding = batch.key_padding_mask.numpy()
        found[pad_to] = mistakes(explorer.run(model, batch).trace.norm("norm1", "in", 0), *parameters, padding=padding)
    for name in MISTAKES:
        alone, padded = found[None][name].difference, found[9][name].difference
        if name == "no_mask":
            assert alone == 0
            assert padded > 0.01
        else:
            assert padded == pytest.approx(alone, abs=1e-4)
            assert padded > 1e-6


def test_one_feature_has_no_sample_std():
    found = mistakes(np.ones((1, 1, 1)), np.ones(1), np.ones(1), 1e-5, np.zeros((1, 1), dtype=bool))
    assert np.isnan(found["sample_std"].difference)
    assert found["minus_beta"].difference == 2
