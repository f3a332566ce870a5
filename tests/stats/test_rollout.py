"""Rollout: by hand, rows that sum to 1, pads removed first, and the identity."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from explorer.stats.rollout import (
    SUMS,
    attention_product,
    attention_rollout,
    layer_max,
    layer_mean,
    real_part,
    residual_attention,
)


def test_two_layers_by_hand():
    first = [[[0.5, 0.5], [0.0, 1.0]]]
    second = [[[1.0, 0.0], [0.5, 0.5]]]
    rollout = attention_rollout(np.array([first, second]))
    assert rollout[0] == pytest.approx(np.array([[0.75, 0.25], [0.0, 1.0]]))
    assert rollout[1] == pytest.approx(np.array([[0.75, 0.25], [0.25 * 0.75, 0.25 * 0.25 + 0.75]]))


def test_rows_are_normalised_along_keys_even_where_they_were_uneven():
    mixed = residual_attention(np.array([[0.9, 0.6], [0.1, 0.2]]))
    assert mixed.sum(axis=-1) == pytest.approx([1, 1], abs=1e-6)
    assert mixed[0] == pytest.approx([1.9 / 2.5, 0.6 / 2.5])


def test_pads_are_removed_first_on_either_side():
    pattern = np.array([[0, 0, 0], [0, 0.25, 0.75], [0, 0.5, 0.5]])
    assert real_part(pattern, np.array([True, False, False])).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert real_part(pattern[::-1, ::-1], np.array([False, False, True])).tolist() == [[0.5, 0.5], [0.75, 0.25]]


def test_heads_that_look_at_themselves_leave_every_token_where_it_is():
    assert attention_rollout(np.tile(np.eye(3), (3, 3, 1, 1))) == pytest.approx(np.tile(np.eye(3), (3, 1, 1)))


# Layer 0 has two heads that differ, layer 1 two that are alike.
FIRST = [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]]
SECOND = [[[0.0, 1.0], [1.0, 0.0]]] * 2
PATTERNS = np.array([FIRST, SECOND], dtype=np.float32)


def test_each_sum_by_hand():
    mean = [[0.75, 0.25], [0.25, 0.75]]
    expected = {
        "mean": [mean, [[0, 1], [1, 0]]],
        "maximum": [[[1, 0.5], [0.5, 1]], [[0, 1], [1, 0]]],
        "residual": [[[0.875, 0.125], [0.125, 0.875]], [[0.5, 0.5], [0.5, 0.5]]],
        "rollout": [[[0.875, 0.125], [0.125, 0.875]], [[0.5, 0.5], [0.5, 0.5]]],
        "product": [mean, [[0.25, 0.75], [0.75, 0.25]]],
    }
    assert list(expected) == list(SUMS)
    for name, values in expected.items():
        assert SUMS[name].function(PATTERNS).tolist() == values, name


@pytest.mark.parametrize("name", SUMS)
def test_the_matrix_of_the_last_layer_depends_on_those_below_where_it_says_so(name):
    what = SUMS[name]
    assert np.array_equal(what.of(layer for layer in PATTERNS), what.function(PATTERNS)[1])
    assert np.array_equal(what.of(PATTERNS[:1]), what.function(PATTERNS)[0])
    patterns = np.concatenate([PATTERNS, PATTERNS[:1]])
    alone = np.array_equal(what.of(patterns[2:]), what.of(patterns))
    assert alone is not what.over_layers


def test_the_product_multiplies_later_layers_from_the_left():
    """A[1] A[0], not A[0] A[1]: all of layer 1 looks at token 0, whose row in layer 0 is (1/2, 1/2)."""
    patterns = np.array([[[[0.5, 0.5], [0.0, 1.0]]], [[[1.0, 0.0], [1.0, 0.0]]]])
    assert attention_product(patterns)[1].tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_heads_are_not_layers_nor_queries_where_their_numbers_are_equal():
    """3 layers of 3 heads of 3 x 3: only head 2 of layer 1, query 0, looks elsewhere."""
    patterns = np.tile(np.eye(3), (3, 3, 1, 1))
    patterns[1, 2, 0] = [0, 0, 1]
    assert layer_mean(patterns)[1, 0] == pytest.approx([2 / 3, 0, 1 / 3])
    assert layer_max(patterns)[1, 0].tolist() == [1, 0, 1]
    for name in ("mean", "maximum"):
        rest = SUMS[name].function(patterns)
        rest[1, 0] = [1, 0, 0]
        assert np.array_equal(rest, np.tile(np.eye(3), (3, 1, 1)))


def test_rollout_is_what_ten_other_lines_give(minilm):
    """Head by head, token by token, with loops instead of products of matrices."""
    patterns = explorer.run(minilm, minilm.batch(["The cat sat."])).trace.pattern()[:, 0]
    n_layers, n_heads, n, _ = patterns.shape
    flow = {(q, k): float(q == k) for q in range(n) for k in range(n)}
    for layer, found in zip(range(n_layers), attention_rollout(patterns), strict=True):
        step = {}
        for q in range(n):
            row = [sum(float(patterns[layer, h, q, k]) for h in range(n_heads)) / n_heads for k in range(n)]
            row = [(weight + (q == k)) / 2 for k, weight in enumerate(row)]
            step |= {(q, k): weight / sum(row) for k, weight in enumerate(row)}
        flow = {(q, k): sum(step[q, via] * flow[via, k] for via in range(n)) for q in range(n) for k in range(n)}
        assert_allclose(found, [[flow[q, k] for k in range(n)] for q in range(n)], rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", SUMS)
def test_rows_sum_to_1_and_padding_changes_nothing(minilm, name, side):
    """A16: a sentence beside a longer one, its pads removed, is as it is alone."""
    batch = minilm.batch(["The cat sat.", "A much longer sentence than that one."], padding_side=side)
    padding = batch.key_padding_mask[0].numpy()
    assert padding.any()
    patterns = explorer.run(minilm, batch).trace.pattern()[:, 0]
    alone = explorer.run(minilm, minilm.batch(["The cat sat."])).trace.pattern()[:, 0]
    found = SUMS[name].function(real_part(patterns, padding))
    assert_allclose(found, SUMS[name].function(alone), rtol=0, atol=1e-5)
    total = found.sum(axis=-1)
    if name == "maximum":
        assert (total > 1.1).any()
    else:
        assert_allclose(total, 1, rtol=0, atol=1e-6)
