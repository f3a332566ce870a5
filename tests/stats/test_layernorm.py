"""What LayerNorm measures, by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from explorer import build
from explorer.stats import layer_norm, token_moments
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
