"""Ways to hide a key, by hand, and what fill values become in each precision, by what torch does."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer.stats.masking import FILLS, WAYS, fills, rows_without_a_key, softmax
from tests.helpers import rough, tiny

SCORES = np.array([[0.0, math.log(3.0), math.log(4.0)], [1.0, 1.0, 1.0], [0.0, 0.0, 5.0]], dtype=np.float32)
HIDDEN = np.array([[False, False, True]] * 3)


def test_each_way_by_hand():
    """Scores 0, ln 3 and ln 4, and the last is hidden: powers 1, 3 and 4."""
    rows = {name: way.weights(SCORES, HIDDEN)[0] for name, way in WAYS.items()}
    assert list(rows) == ["minus_infinity", "zero_after", "zero_before", "nothing"]
    assert_allclose(rows["minus_infinity"], [1 / 4, 3 / 4, 0], rtol=1e-6)
    assert_allclose(rows["zero_after"], [1 / 8, 3 / 8, 0], rtol=1e-6)
    assert_allclose(rows["zero_before"], [1 / 5, 3 / 5, 1 / 5], rtol=1e-6)  # exp(0) is 1
    assert_allclose(rows["nothing"], [1 / 8, 3 / 8, 1 / 2], rtol=1e-6)
    assert rows["minus_infinity"][2] == rows["zero_after"][2] == 0


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_right_way_is_what_the_encoder_does_and_the_wrong_ones_are_not(side):
    model = rough(tiny())
    run = explorer.run(model, model.batch(["one two three"], pad_to=9, padding_side=side))
    q, k = run.trace.q(1)[0, 1].astype(np.float64), run.trace.k(1)[0, 1]
    scores = (q @ k.T / math.sqrt(q.shape[-1])).astype(np.float32)
    padding = run.batch.key_padding_mask[0].numpy()
    hidden = np.tile(padding, (9, 1))
    pattern = run.trace.pattern(1)[0, 1]
    found = {name: way.weights(scores, hidden) for name, way in WAYS.items()}
    assert_allclose(found["minus_infinity"], pattern, rtol=0, atol=1e-6)
    assert_allclose(found["minus_infinity"].sum(axis=-1), 1, rtol=0, atol=1e-12)
    assert (found["minus_infinity"][:, padding] == 0).all()
    assert found["zero_after"].sum(axis=-1).max() < 1 - 1e-3
    assert (found["zero_after"][:, padding] == 0).all()
    assert found["zero_before"][:, padding].min() > 1e-3
    for name in ("zero_after", "zero_before", "nothing"):
        assert np.abs(found[name] - pattern)[~padding].max() > 1e-2


def test_a_row_without_a_key_has_no_weights_and_disturbs_no_other():
    hidden = np.array([[True, True, True], [True, False, False], [False, True, True]])
    assert rows_without_a_key(hidden).tolist() == [True, False, False]
    weights = WAYS["minus_infinity"].weights(SCORES, hidden)
    assert np.isnan(weights[0]).all()
    assert_allclose(weights[1:], [[0, 0.5, 0.5], [1, 0, 0]])


def test_softmax_of_large_scores_overflows_nothing():
    assert_allclose(softmax(np.array([[1e4, 1e4], [-1e4, -1e4]], dtype=np.float32)), 0.5)


def test_fills_say_what_torch_does():
    table = fills(SCORES, HIDDEN).set_index(["fill", "precision"])
    assert len(table) == 9
    stored = table["stored"]
    assert stored[-1e9, "float32"] == -1e9
    assert stored[-1e9, "float16"] == -np.inf  # float16 ends at 65,504
    assert stored[-1e9, "bfloat16"] == torch.tensor(-1e9, dtype=torch.bfloat16).item() != -1e9
    assert stored[-1e4, "float16"] == -1e4
    assert stored[-1e4, "bfloat16"] == -9984
    assert (table.loc[-np.inf, "stored"] == -np.inf).all()
    assert table["masked_fill"][-1e9, "float16"].startswith("refuses: value cannot be converted to type")
    assert set(table["masked_fill"].drop((-1e9, "float16"))) == {"fills"}
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(1, dtype=torch.float16).masked_fill(torch.tensor([True]), -1e9)
    assert (table["largest_hidden"] == 0).all()


def test_a_row_without_a_key_is_nan_or_looks_like_an_answer():
    table = fills(SCORES, HIDDEN).set_index(["fill", "precision"])["no_key"]
    for precision in ("float32", "bfloat16", "float16"):
        assert table[-np.inf, precision] == "NaN"
        assert table[-1e4, precision].endswith(" on each of 3 keys")
    assert table[-1e9, "float16"] == "NaN"  # it is −∞ there
    assert table[-1e9, "float32"] == "0.3333 on each of 3 keys"
    assert table[-1e9, "bfloat16"].endswith(" on each of 3 keys")


def test_half_precision_rounds_the_sum_of_a_row():
    scores = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    table = fills(scores, np.zeros((40, 40), dtype=bool)).set_index(["fill", "precision"])
    error = (table["largest_sum"] - 1).abs() + (1 - table["smallest_sum"]).abs()
    assert error[-np.inf, "float32"] < 1e-5
    assert 1e-5 < error[-np.inf, "float16"] < 1e-2
    assert 1e-4 < error[-np.inf, "bfloat16"] < 1e-1


def test_fills_of_rows_that_have_no_key_at_all():
    table = fills(SCORES, np.ones((3, 3), dtype=bool))
    assert len(table) == len(FILLS) * 3
    assert (table["largest_hidden"] == 0).all()
    assert table[["smallest_sum", "largest_sum"]].isna().all().all()
