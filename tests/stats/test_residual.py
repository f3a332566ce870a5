"""The size of the residual stream, by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from explorer import build
from explorer.stats import l2_norm
from explorer.stats.residual import cosine, cosine_matrix, mean_cosine, principal_axes, sentence_vectors, unit
from tests.helpers import tiny


def test_three_four_five():
    assert l2_norm(np.array([[[3.0, 4.0], [0.0, 0.0]]], dtype=np.float32)).tolist() == [[5.0, 0.0]]


def test_large_values_do_not_overflow():
    """1e30 squared is infinite in float32."""
    assert_allclose(l2_norm(np.full((1, 4), 1e30, dtype=np.float32)), [2e30], rtol=1e-6)


def test_the_mean_norm_of_a_padded_sentence():
    """A2: right after a fresh LayerNorm of D 8 it is sqrt(8) = 2.828; with 3 pads counted as 0 it would be 1.131."""
    model = build(tiny(norm_placement="post"))
    run = explorer.run(model, model.batch([""], pad_to=5))  # [CLS] [SEP] and 3 pads
    table = run.tables.residual()
    rows = table[table["layer"] == 1]
    assert len(rows) == 2  # the denominator: real tokens only
    assert rows["resid_post"].mean() == pytest.approx(8**0.5, abs=1e-3)


def test_cosine_by_hand():
    """45 degrees, the same, the opposite, and none: a zero vector points nowhere."""
    x = np.array([[1.0, 1.0], [0.3, 0.7], [1.0, 2.0], [0.0, 0.0]], dtype=np.float32)
    y = np.array([[2.0, 0.0], [0.3, 0.7], [-2.0, -4.0], [1.0, 0.0]], dtype=np.float32)
    found = cosine(x, y)
    assert_allclose(found[:3], [0.5**0.5, 1, -1])
    assert found[1] == 1
    assert np.isnan(found[3])


@pytest.mark.parametrize("padding", [[False, False, False, True], [True, False, False, False]])
def test_mean_cosine_by_hand(padding):
    """Three tokens, two of them alike and one at a right angle: 1, 0 and 0. The padding points elsewhere, far."""
    tokens = [[1.0, 0.0], [5.0, 0.0], [0.0, 2.0]]
    row = [*tokens, [-9.0, -9.0]] if padding[-1] else [[-9.0, -9.0], *tokens]
    assert_allclose(mean_cosine(np.array([row]), np.array([padding])), [1 / 3])


def test_mean_cosine_of_tokens_that_are_alike_opposite_and_alone():
    x = np.array([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [-1.0, -2.0]], [[1.0, 2.0], [0.0, 0.0]]])
    found = mean_cosine(x, np.array([[False, False], [False, False], [False, True]]))
    assert_allclose(found[:2], [1, -1])
    assert np.isnan(found[2])


def test_mean_cosine_where_batch_length_and_width_are_equal():
    """It is the mean over pairs, one by one."""
    x = np.random.default_rng(0).normal(size=(4, 4, 4)).astype(np.float32)
    for row, found in zip(x, mean_cosine(x, np.zeros((4, 4), dtype=bool)), strict=True):
        pairs = [cosine(row[[i]], row[[j]])[0] for i in range(4) for j in range(4) if i != j]
        assert found == pytest.approx(np.mean(pairs), abs=1e-12)


def test_the_cosine_matrix_of_sentences():
    found = cosine_matrix(np.array([[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]]))
    assert_allclose(found[:2, :2], [[1, 0.5**0.5], [0.5**0.5, 1]])
    assert (found[0, 0], found[1, 1]) == (1, 1)
    assert np.isnan(found[2]).all()
    assert np.isnan(found[:, 2]).all()


def test_principal_axes_by_hand():
    """A cross around (1, 1): 2 to either side along the first axis, 1 along the second, so 4 : 1 of the variance."""
    cross = np.array([[3.0, 1.0], [-1.0, 1.0], [1.0, 2.0], [1.0, 0.0]], dtype=np.float32)
    coordinates, shares = principal_axes(cross)
    assert_allclose(coordinates, [[2, 0], [-2, 0], [0, 1], [0, -1]], atol=1e-12)
    assert_allclose(shares, [0.8, 0.2])


def test_the_axes_are_not_mirrored_by_chance():
    """The largest loading is positive: what is larger there is to the right."""
    x = np.random.default_rng(0).normal(size=(20, 5)) * [1, 9, 2, 3, 4]
    coordinates, shares = principal_axes(x)
    assert np.corrcoef(coordinates[:, 0], x[:, 1])[0, 1] > 0.9
    assert np.corrcoef(coordinates[:, 1], x[:, 4])[0, 1] > 0.9
    assert_allclose(principal_axes(x[::-1])[0], coordinates[::-1], atol=1e-9)
    total = x.var(axis=0).sum()
    assert_allclose(coordinates.var(axis=0) / total, shares)
    assert_allclose(coordinates.mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("n", [2, 7, 40])
def test_the_axes_are_those_of_the_covariance(n):
    """Longer than wide, square, and wider than long."""
    x = np.random.default_rng(n).normal(size=(n, 7)).astype(np.float32)
    values = np.sort(np.linalg.eigvalsh(np.cov(x.T.astype(np.float64), bias=True)))[::-1]
    coordinates, shares = principal_axes(x)
    assert_allclose(shares, (values / values.sum())[:2], atol=1e-12)
    assert_allclose(coordinates.var(axis=0), values[:2], atol=1e-12)
    assert coordinates.shape == (n, 2)


@pytest.mark.parametrize("x", [np.full((1, 4), 0.1), np.full((5, 3), 0.1), np.full((9, 1), 7.0)])
def test_points_in_one_place_have_no_axes(x):
    coordinates, shares = principal_axes(x.astype(np.float32))
    assert not coordinates.any()
    assert np.isnan(shares).all()


def test_points_on_a_line_have_one_axis():
    for x in ([[0.1, 0.1], [0.4, 0.5]], [[0.0], [3.0], [9.0]]):
        coordinates, shares = principal_axes(np.array(x, dtype=np.float32))
        assert shares.tolist() == [1, 0]
        assert not coordinates[:, 1].any()
        assert (np.diff(coordinates[:, 0]) > 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_sentence_vectors_leave_padding_out(side):
    """The mean of (1, 2) and (3, 4), and the first of them; then a sentence of one token."""
    tokens, pad = [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 5.0]]], [99.0, 99.0]
    rows, masks = [], []
    for sentence in tokens:
        filler = [pad] * (3 - len(sentence))
        rows.append(filler + sentence if side == "left" else sentence + filler)
        masks.append([row == pad for row in rows[-1]])
    found = sentence_vectors(np.array(rows, dtype=np.float32), np.array(masks))
    assert found.mean.tolist() == [[2, 3], [0, 5]]
    assert found.cls.tolist() == [[1, 2], [0, 5]]
    assert_allclose(found.mean_unit, [[2 / 13**0.5, 3 / 13**0.5], [0, 1]])
    assert_allclose(found.cls_unit, [[1 / 5**0.5, 2 / 5**0.5], [0, 1]])


def test_padding_that_is_not_a_number_is_left_out():
    x = np.array([[[1.0, 2.0], [np.nan, np.inf]]])
    assert sentence_vectors(x, np.array([[False, True]])).mean.tolist() == [[1, 2]]
    assert np.isnan(mean_cosine(x, np.array([[False, True]]))).all()


def test_a_unit_vector():
    assert unit(np.array([[3.0, 4.0]])).tolist() == [[0.6, 0.8]]
    assert np.isnan(unit(np.zeros((1, 2)))).all()


def test_the_mean_with_pads_is_wrong_wherever_there_are_any():
    """One token of 2 beside a pad of 4 has mean 2, and 3 where the pad is counted."""
    output = np.array([[[2.0], [4.0]], [[1.0], [5.0]]], dtype=np.float32)
    vectors = sentence_vectors(output, np.array([[False, True], [False, False]]))
    assert vectors.mean.tolist() == [[2], [3]]
    assert vectors.mean_with_pads.tolist() == [[3], [3]]
