"""Scores taken apart by dimension: by hand, and against the scores of real runs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from explorer.stats.queries import dot_products
from tests.helpers import rough, tiny


def test_by_hand():
    """d_head 4, so divided by 2."""
    q = np.array([2, -1, 0, 1], dtype=np.float32)
    k = np.array([[1, 1, 1, 1], [3, 0, 5, -2]], dtype=np.float32)
    parts = dot_products(q, k)
    assert parts.tolist() == [[1, -0.5, 0, 0.5], [3, 0, 0, -1]]
    assert parts.dtype == np.float64


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("bias", [True, False])
def test_sums_are_the_scores_of_a_run(side, bias):
    """q and k hold the bias of the projections already. Padded keys have scores here; the mask hides them later."""
    model = rough(tiny(bias=bias, n_heads=3, d_model=12))
    batch = model.batch(["one two three", "", "four"], padding_side=side)
    trace = explorer.run(model, batch).trace
    for layer in range(2):
        q, k, scores = trace.q(layer), trace.k(layer), trace.scores(layer)
        for sentence, head, query in np.ndindex(scores.shape[:-1]):
            found = dot_products(q[sentence, head, query], k[sentence, head]).sum(axis=-1)
            real = ~batch.key_padding_mask[sentence].numpy()
            assert_allclose(found[real], scores[sentence, head, query, real], rtol=0, atol=1e-5)
            assert np.isneginf(scores[sentence, head, query, ~real]).all()


def test_heads_queries_and_sentences_are_told_apart_where_their_numbers_are_equal():
    """3 heads of d_head 3, 3 sentences of 3 tokens: one exchanged axis would pass every check of shapes."""
    model = rough(tiny(n_heads=3, d_model=9, n_layers=1))
    trace = explorer.run(model, model.batch(["one", "two", "three"])).trace
    q, k, scores = trace.q(0), trace.k(0), trace.scores(0)
    for sentence, head, query in np.ndindex(3, 3, 3):
        found = dot_products(q[sentence, head, query], k[sentence, head]).sum(axis=-1)
        assert_allclose(found, scores[sentence, head, query], rtol=0, atol=1e-5)


def test_the_trained_encoder(minilm):
    trace = explorer.run(minilm, minilm.batch(["The animal didn't cross the street."])).trace
    found = dot_products(trace.q(3)[0, 1, 2], trace.k(3)[0, 1])
    assert found.shape == (trace.k(3).shape[2], 32)
    assert_allclose(found.sum(axis=-1), trace.scores(3)[0, 1, 2], rtol=0, atol=1e-5)
