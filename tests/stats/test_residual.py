"""The size of the residual stream, by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from explorer import build
from explorer.stats import l2_norm
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
