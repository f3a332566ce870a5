"""Patterns of words, and parts of patterns: by hand, padded, and where heads, length and batch are equal."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from explorer.stats.reduce import merge_words, part_of

HAND = np.array([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]], dtype=np.float32)
SIDES = pytest.mark.parametrize("side", ["right", "left"])


def numbers(*values):
    return np.array(values, dtype=int)


def random_pattern(*shape):
    weights = np.random.default_rng(0).random(shape)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def test_pieces_of_a_key_are_summed_and_of_a_query_averaged():
    """B12: un ##happy now. The mean over keys would give 0.325."""
    merged = merge_words(HAND, [(0, 2), (2, 3)])
    assert_allclose(merged, [[0.65, 0.35], [0.3, 0.7]], rtol=0, atol=1e-7)
    assert merged.dtype == np.float32


def test_words_of_one_piece_change_nothing():
    assert np.array_equal(merge_words(HAND, [(0, 1), (1, 2), (2, 3)]), HAND)
    assert merge_words(HAND[:1, :1], [(0, 1)]).tolist() == [[HAND[0, 0]]]


def test_all_in_one_word():
    assert merge_words(HAND, [(0, 3)]) == pytest.approx(np.ones((1, 1)))


@pytest.mark.parametrize("spans", [[(0, 2)], [(1, 3)], [(0, 2), (1, 3)], [(0, 1), (2, 3)], [(0, 0), (0, 3)], [(0, 4)]])
def test_words_that_do_not_tile_the_row_are_refused(spans):
    """A piece left out, or counted twice, would make rows that sum to something else."""
    with pytest.raises(ValueError, match="must tile the 3 positions"):
        merge_words(HAND, spans)


@SIDES
def test_padding_is_merged_with_no_word(side):
    """Two pads beside HAND: they stay rows and columns of their own, and the words are as without them."""
    padded = np.zeros((5, 5), dtype=np.float32)
    at = 0 if side == "right" else 2
    padded[at : at + 3, at : at + 3] = HAND
    spans = [(0, 2), (2, 3), (3, 4), (4, 5)] if side == "right" else [(0, 1), (1, 2), (2, 4), (4, 5)]
    merged = merge_words(padded, spans)
    assert merged[at : at + 2, at : at + 2] == pytest.approx(np.array([[0.65, 0.35], [0.3, 0.7]]))
    assert merged.sum() == pytest.approx(2)


def test_each_layer_sentence_and_head_is_merged_alone_where_their_numbers_are_equal():
    pattern = random_pattern(3, 3, 3, 3, 3)
    spans = [(0, 1), (1, 3)]
    merged = merge_words(pattern, spans)
    assert merged.shape == (3, 3, 3, 2, 2)
    for index in np.ndindex(3, 3, 3):
        assert np.array_equal(merged[index], merge_words(pattern[index], spans))
    assert_allclose(merged.sum(axis=-1), 1, rtol=0, atol=1e-6)


@SIDES
def test_words_of_the_trained_encoder(minilm, side):
    """The page's own path: spans of a padded row, all layers and heads; each number by loops."""
    batch = minilm.batch(["Tokenization unhappily", "now"], padding_side=side)
    pattern = explorer.run(minilm, batch).trace.pattern()
    for sentence in range(2):
        spans = batch.word_spans(sentence)
        merged = merge_words(pattern[:, sentence], spans)
        assert merged.shape == (6, 12, len(spans), len(spans))
        for i, (top, bottom) in enumerate(spans):
            for j, (left, right) in enumerate(spans):
                block = pattern[:, sentence, :, top:bottom, left:right].astype(float)
                assert_allclose(merged[..., i, j], block.sum(axis=-1).mean(axis=-1), rtol=0, atol=1e-6)
    assert len(batch.word_spans(0)) < pattern.shape[-1]


def test_a_part_and_what_it_leaves_out():
    part, left_out = part_of(HAND, numbers(0, 2), numbers(1, 2))
    assert np.array_equal(part, HAND[np.ix_([0, 2], [1, 2])])
    assert left_out == pytest.approx([0.2, 0.1])
    assert (part.dtype, left_out.dtype) == (np.float32, np.float32)


def test_a_part_keeps_the_order_that_is_asked_for():
    part, left_out = part_of(HAND, numbers(2, 0), numbers(2, 0))
    assert np.array_equal(part, HAND[[2, 0]][:, [2, 0]])
    assert left_out == pytest.approx([0.2, 0.3])


def test_a_part_that_is_renormalised():
    part, left_out = part_of(HAND, numbers(0, 1), numbers(0, 1), renormalise=True)
    assert part == pytest.approx(np.array([[0.4, 0.6], [0.5, 0.5]]))
    assert left_out == pytest.approx([0.5, 0.2])


def test_a_row_of_which_nothing_is_kept_is_nan_and_not_0():
    pattern = np.array([[0, 0, 1], [0.5, 0.5, 0]], dtype=np.float32)
    plain, left_out = part_of(pattern, numbers(0, 1), numbers(0, 1))
    assert plain.tolist() == [[0, 0], [0.5, 0.5]]
    assert left_out.tolist() == [1, 0]
    part, left_out = part_of(pattern, numbers(0, 1), numbers(0, 1), renormalise=True)
    assert np.isnan(part[0]).all()
    assert part[1].tolist() == [0.5, 0.5]
    assert left_out.tolist() == [1, 0]


def test_the_whole_is_a_part_that_leaves_nothing_out():
    """Exactly 0: one minus the sum of a float32 row would be 1e-8 or so."""
    pattern = random_pattern(3, 3, 3)
    part, left_out = part_of(pattern, np.arange(3), np.arange(3))
    assert np.array_equal(part, pattern)
    assert (left_out == 0).all()


def test_no_row_and_no_column():
    part, left_out = part_of(HAND, numbers(), numbers())
    assert part.shape == (0, 0)
    part, left_out = part_of(HAND, numbers(1), numbers(), renormalise=True)
    assert part.shape == (1, 0)
    assert left_out == pytest.approx([1])


@SIDES
def test_real_tokens_leave_no_weight_on_padding(side):
    """Padded columns are exactly 0."""
    padded = np.zeros((5, 5), dtype=np.float32)
    at = 0 if side == "right" else 2
    padded[:, at : at + 3] = [0.2, 0.3, 0.5]
    real = np.arange(at, at + 3)
    part, left_out = part_of(padded, real, real)
    assert np.array_equal(part, np.tile(np.float32([0.2, 0.3, 0.5]), (3, 1)))
    assert (left_out == 0).all()


def test_what_is_kept_and_what_is_left_out_is_all_where_axes_are_equal():
    pattern = random_pattern(3, 3, 3, 3)
    part, left_out = part_of(pattern, numbers(1, 2), numbers(0))
    assert (part.shape, left_out.shape) == ((3, 3, 2, 1), (3, 3, 2))
    assert_allclose(part.sum(axis=-1) + left_out, 1, rtol=0, atol=1e-6)
    assert np.array_equal(part[..., 0], pattern[:, :, 1:, 0])
