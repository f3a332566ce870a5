"""The palettes read on their backgrounds, and every number of the page is written by one rule."""

import math

import numpy as np
import pytest

from components.theme import DARK, LIGHT, Palette, format_bytes, format_number, format_seconds, palette, template


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_weight_colours_are_the_ones_the_grid_uses() -> None:
    assert [c for _, c in LIGHT.sequential] == ["#f7f9fc", "#c6d8f3", "#7ba7e1", "#2f6cc0", "#0b2a6f"]
    assert [c for _, c in DARK.sequential] == ["#151b26", "#1f3b66", "#2f6cc0", "#7ba7e1", "#e3eeff"]
    assert [p for p, _ in LIGHT.sequential] == [p for p, _ in DARK.sequential] == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_text_reads_at_4_5_and_series_at_3_to_1(colours: Palette) -> None:
    for surface in (colours.background, colours.surface):
        assert _contrast(colours.text, surface) >= 7
        assert _contrast(colours.muted, surface) >= 4.5
        assert _contrast(colours.accent, surface) >= 4.5
        assert min(_contrast(series, surface) for series in colours.series) >= 3


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_difference_colours_are_neutral_in_the_middle_and_strong_at_both_ends(colours: Palette) -> None:
    assert dict(colours.diverging)[0.5] == colours.surface
    assert len(colours.diverging) % 2 == 1
    for _, end in (colours.diverging[0], colours.diverging[-1]):
        assert _contrast(end, colours.surface) > 6


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_weight_colours_go_one_way_from_background_to_ink(colours: Palette) -> None:
    contrasts = [_contrast(c, colours.background) for _, c in colours.sequential]
    assert contrasts == sorted(contrasts)
    assert contrasts[-1] > 10


@pytest.mark.parametrize(("kind", "expected"), [("dark", DARK), ("light", LIGHT), ("", LIGHT), ("sepia", LIGHT)])
def test_every_word_but_dark_is_the_light_page(kind: str, expected: Palette) -> None:
    assert palette(kind) is expected


def test_template_is_transparent_and_has_no_zero_lines() -> None:
    layout = template(LIGHT).layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert layout.xaxis.zeroline is layout.yaxis.zeroline is False
    assert layout.font.color == LIGHT.text


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (0.0, "0"),
        (-0.0, "0"),
        (1234567, "1,234,567"),
        (-5, "−5"),
        (np.int64(42), "42"),
        (2.8284271, "2.828"),
        (1 / 3, "0.3333"),
        (np.float32(0.1), "0.1"),
        (1.0, "1"),
        (100.0, "100"),
        (-0.6774, "−0.6774"),
        (0.99996, "1"),
        (999.96, "1,000"),
        (12345.6, "12,346"),
        (0.0001234, "0.0001234"),
        (0.000099999, "0.0001"),
        (1.2345e-5, "1.234×10⁻⁵"),
        (-3.2e-9, "−3.2×10⁻⁹"),
        (4.5e12, "4.5×10¹²"),
        (math.nan, "–"),
        (None, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_numbers(value: float, written: str) -> None:
    assert format_number(value) == written


def test_a_truth_value_is_not_a_number() -> None:
    with pytest.raises(TypeError, match="True"):
        format_number(True)


@pytest.mark.parametrize(
    ("size", "written"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (37_748_736, "37.7 MB"), (999_999, "1 MB")]
)
def test_bytes(size: int, written: str) -> None:
    assert format_bytes(size) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0 s"), (0.0123, "12.3 ms"), (0.3, "300 ms"), (0.9999, "1 s"), (1.234, "1.23 s"), (3600, "3,600 s")],
)
def test_seconds_are_milliseconds_below_one(seconds: float, written: str) -> None:
    assert format_seconds(seconds) == written
