"""Positions, by hand."""

import math

import pytest
import torch
from torch.testing import assert_close

from explorer.model.positions import position_ids, sinusoidal_positions


def test_row_0_of_an_odd_width():
    """C3: D 7 has four sines and three cosines."""
    table = sinusoidal_positions(3, 7)
    assert table.shape == (3, 7)
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1, 0]


def test_row_1_by_hand():
    """D 4: the wavelengths are 2 pi and 2 pi 100. Catches sines and cosines in two halves instead of alternating."""
    expected = [math.sin(1), math.cos(1), math.sin(1 / 100), math.cos(1 / 100)]
    assert_close(sinusoidal_positions(2, 4)[1], torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("d_model", [1, 2, 7, 8, 9])
def test_every_cell_is_the_formula_of_the_paper(d_model):
    table = sinusoidal_positions(20, d_model)
    for pos in range(20):
        for feature in range(d_model):
            angle = pos / 10_000 ** ((feature - feature % 2) / d_model)
            expected = math.cos(angle) if feature % 2 else math.sin(angle)
            assert table[pos, feature].item() == pytest.approx(expected, abs=1e-12)


def test_padding_on_either_side_shifts_nobody():
    """Numbering the pads too is the classic left-padding fault: the real tokens would get 2 and 3."""
    right = position_ids(torch.tensor([[False, False, True, True]]))
    left = position_ids(torch.tensor([[True, True, False, False]]))
    assert right[0, :2].tolist() == [0, 1]
    assert left[0, 2:].tolist() == [0, 1]


def test_padding_has_a_position_inside_the_table():
    """Where the mask is off, padding is looked up like any token: a negative or too large index would crash."""
    for mask in ([True, True, False], [False, True, True], [False, False, False]):
        ids = position_ids(torch.tensor([mask]))
        assert ids.min() >= 0
        assert ids.max() < 3


def test_without_padding_positions_are_0_to_n_minus_1():
    assert position_ids(torch.zeros(2, 4, dtype=torch.bool)).tolist() == [[0, 1, 2, 3]] * 2
