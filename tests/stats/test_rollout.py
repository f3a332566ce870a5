"""Rollout: by hand, rows that sum to 1, pads removed first, and the identity."""

import numpy as np
import pytest

from explorer.stats.rollout import attention_rollout, real_part, residual_attention


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
