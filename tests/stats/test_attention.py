"""Entropy of attention, by hand."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from explorer.stats import attention_entropy
from explorer.stats.attention import row_entropy

NOTHING = np.zeros((1, 4), dtype=bool)


def one_row(*weights):
    """A pattern in which each of the queries has these weights."""
    return np.tile(np.array(weights, dtype=np.float32), (1, 1, len(weights), 1))


@pytest.mark.parametrize(
    ("weights", "entropy"),
    [
        ((0.5, 0.5, 0.0, 0.0), 0.6931),  # A17: 0 log 0 is 0, not NaN
        ((1.0, 0.0, 0.0, 0.0), 0.0),
        ((0.25, 0.25, 0.25, 0.25), math.log(4)),
        ((0.5, 0.25, 0.25, 0.0), 1.5 * math.log(2)),
    ],
)
def test_by_hand_in_nats(weights, entropy):
    assert_allclose(attention_entropy(one_row(*weights), NOTHING), np.full((1, 1, 4), entropy), rtol=0, atol=5e-5)


def test_a_single_key_has_entropy_0():
    """A17: a one-token sentence; normalising by log(1) would be 0 / 0."""
    assert attention_entropy(np.ones((1, 1, 1, 1), dtype=np.float32), np.zeros((1, 1), dtype=bool)).tolist() == [
        [[0.0]]
    ]


def test_rows_of_padded_queries_are_nan_and_left_out_of_a_mean():
    """A9: length 2 of 4. Counting the pads would change the mean."""
    mask = np.array([[False, False, True, True]])
    entropy = attention_entropy(one_row(0.5, 0.5, 0.0, 0.0), mask)
    assert np.isnan(entropy[0, 0]).tolist() == [False, False, True, True]
    assert np.nanmean(entropy) == pytest.approx(math.log(2))


@pytest.mark.parametrize("mask", [[False, False, False, True], [True, False, False, False]])
def test_weight_on_padding_means_another_mask(mask):
    """A6: the inverted sense is found here too."""
    with pytest.raises(ValueError, match="a padded key has weight"):
        attention_entropy(one_row(0.25, 0.25, 0.25, 0.25), np.array([mask]))


def test_sums_are_in_float64():
    """4,096 equal weights: log(4096) to 1e-9, which float32 sums would miss."""
    weights = np.full((1, 4096), 1 / 4096, dtype=np.float32)
    assert row_entropy(weights)[0] == pytest.approx(math.log(4096), abs=1e-9)
