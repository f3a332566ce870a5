"""The ribbon without a browser: what is believed of what comes back."""

import pytest

from components.ribbon import read_pick


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"sentence": 1, "token": 2}, (1, 2)),
        ({"sentence": 0, "token": 0}, (0, 0)),
        ({"sentence": 1, "token": 3}, None),
        ({"sentence": 2, "token": 0}, None),
        ({"sentence": -1, "token": 0}, None),
        ({"sentence": 0, "token": -1}, None),
        ({"sentence": True, "token": 0}, None),
        ({"sentence": 0, "token": 1.0}, None),
        ({"sentence": "0", "token": 0}, None),
        ({"sentence": 0}, None),
        ({}, None),
        ([0, 0], None),
        (None, None),
    ],
)
def test_a_pick_is_a_token_that_is_there_or_nothing(value: object, expected: tuple[int, int] | None) -> None:
    assert read_pick(value, [2, 3]) == expected
