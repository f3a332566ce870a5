"""Distribution over norms and growth with size: what is drawn, what is not, and that the figure says so."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from components.figures import distribution, growth_curves, token_strips
from components.theme import DARK, LIGHT, Palette

NORMS = ["embedding norm", "L0 norm1"]
TOKENS = ["the", "cat", "the", "[PAD]"]
PADDED = np.array([False, False, False, True])
VALUES = np.array([[1, 3, 2, 999], [10, 20, 60, 999]], dtype=np.float32)
SIZES = np.array([1, 10, 100])


def spread(values: np.ndarray = VALUES, palette: Palette = LIGHT, **options: object) -> go.Figure:
    given = {"row_names": NORMS, "tokens": TOKENS, "quantity": "variance", "token_padding": PADDED} | options
    return distribution(values, palette=palette, **given)


def growth(palette: Palette = LIGHT, **options: object) -> go.Figure:
    given = {
        "lines": {"attention": SIZES**2, "feed-forward": SIZES * 10},
        "present": 16,
        "marks": [(50, "attention is above")],
        "x_title": "tokens",
        "y_title": "FLOPs",
    } | options
    return growth_curves(SIZES, palette=palette, **given)


def named(figure: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.name == name]


def test_real_tokens_are_points_and_padding_is_in_nothing() -> None:
    figure = spread()
    (points,) = named(figure, "a token")
    assert sorted(points.y.tolist()) == [1, 2, 3, 10, 20, 60]
    assert points.x.round().tolist() == [0, 0, 0, 1, 1, 1]
    (median,) = named(figure, "median")
    assert median.y[[1, 5]].tolist() == [2, 20]
    assert median.hovertext[1] == "<b>embedding norm</b>, median 2<br>10th to 90th percentile: 1.2 to 2.8"
    (box,) = named(figure, "10th to 90th percentile")
    assert box.y[:5].tolist() == pytest.approx([1.2, 1.2, 2.8, 2.8, 1.2])
    assert figure.layout.xaxis.title.text == "LayerNorm"
    assert figure.layout.yaxis.title.text == "variance"
    assert max(np.nanmax(trace.y) for trace in figure.data) == 60


def test_the_selected_row_has_the_accent_and_an_outline() -> None:
    figure = spread(selected_row=1)
    quiet, chosen = named(figure, "10th to 90th percentile")
    assert (quiet.line.width, chosen.line.width) == (0, 1.5)
    assert chosen.line.color == named(figure, "a token")[1].marker.color == LIGHT.accent
    assert figure.layout.meta["selected"] == 1


def test_a_log_axis_has_no_place_for_0_and_counts_what_it_leaves_out() -> None:
    values = np.array([[0, -1, 4, 999], [1, 2, 3, 999]], dtype=np.float32)
    figure = spread(values, log=True)
    assert sorted(named(figure, "a token")[0].y.tolist()) == [1, 2, 3, 4]
    median = named(figure, "median")[0]
    assert np.isnan(median.y[1])
    assert median.hovertext[1].endswith("not drawn: 2")
    assert median.y[5] == 2
    assert "not drawn" not in median.hovertext[5]
    assert named(figure, "10th to 90th percentile")[0].y[0] == 1  # the smallest that is drawn
    assert figure.layout.xaxis.title.text == "LayerNorm · 2 values of 0 or below not drawn"
    assert figure.layout.yaxis.type == "log"


def test_many_points_are_thinned_to_even_ranks_and_the_axis_says_so() -> None:
    values = np.random.default_rng(0).normal(size=(50, 512)).astype(np.float32)
    tokens, rows = ["the"] * 512, [f"L{i} norm1" for i in range(50)]
    figure = spread(values, row_names=rows, tokens=tokens, token_padding=None)
    (points,) = named(figure, "a token")
    of_first = points.y[points.x < 0.5]
    assert len(points.x) == 1500
    assert {values[0].min(), values[0].max()} <= set(of_first)
    assert np.median(of_first) == pytest.approx(np.median(values[0]), abs=0.1)
    assert figure.layout.xaxis.title.text == "LayerNorm · every 2nd norm named<br>30 of 512 tokens drawn"
    assert named(figure, "median")[0].y[1] == pytest.approx(np.median(values[0]))
    thirteen = spread(values[:13], row_names=rows[:13], tokens=tokens, token_padding=None)
    assert thirteen.layout.xaxis.title.text == "LayerNorm · 60 of 512 tokens drawn"


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("value", [1.0, 0.0, np.nan])
def test_one_token_of_one_norm(log: bool, value: float) -> None:
    figure = distribution(np.array([[value]]), ["final norm"], ["a"], quantity="std", palette=LIGHT, log=log)
    assert len(named(figure, "a token")[0].x) == int(value > 0 or (value == 0 and not log))


def test_values_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[row, token\] = \[2, 4\], not \[4, 2\]"):
        spread(VALUES.T)


def test_growth_has_a_curve_a_line_with_its_own_colour_and_dash() -> None:
    attention, feed_forward = growth().data
    assert attention.y.tolist() == [1, 100, 10_000]
    assert attention.x.tolist() == [1, 10, 100]
    assert attention.line.color != feed_forward.line.color
    assert attention.line.dash != feed_forward.line.dash
    assert attention.hovertext[2] == "attention<br>tokens: 100<br>FLOPs: 10,000"


def test_axes_of_growth_are_logarithmic_and_written_as_everywhere() -> None:
    figure = growth()
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.xaxis.ticktext == ("1", "2", "5", "10", "20", "50", "100")
    assert "10,000" in figure.layout.yaxis.ticktext


def test_the_present_size_is_a_solid_line_and_the_others_are_dotted() -> None:
    figure = growth()
    assert [(shape.x0, shape.line.dash) for shape in figure.layout.shapes] == [(16, "solid"), (50, "dot")]
    assert [note.text for note in figure.layout.annotations] == ["now: 16", "attention is above"]
    assert [note.x for note in figure.layout.annotations] == pytest.approx(np.log10([16, 50]))


def test_labels_of_close_marks_stand_below_each_other_and_above_the_curves() -> None:
    label = "attention costs more than feed-forward from 17"
    figure = growth(marks=[(17, label), (18, label)])
    first, second, third = figure.layout.annotations
    assert (first.yshift, second.yshift) == (-2, -20)
    assert third.yshift <= second.yshift - 2 * 16
    assert second.text == "attention costs more than<br>feed-forward from 17"
    alone = growth(marks=[])
    assert alone.layout.yaxis.range[1] < figure.layout.yaxis.range[1]


def test_marks_far_apart_stand_side_by_side() -> None:
    one, other = growth(present=1, marks=[(100, "crossing")]).layout.annotations
    assert one.yshift == other.yshift
    assert (one.xanchor, other.xanchor) == ("left", "right")


def test_0_is_a_gap_on_a_log_axis() -> None:
    curve = growth(lines={"bias": np.array([0, 5, 7])}).data[0]
    assert np.isnan(curve.y[0])
    assert curve.y[1:].tolist() == [5, 7]
    growth(lines={"nothing": np.zeros(3)})


def test_a_range_holds_every_mark() -> None:
    low, high = growth(present=0.5, marks=[(1000, "far")]).layout.xaxis.range
    assert low < np.log10(0.5)
    assert high > 3


def test_one_size_is_seen() -> None:
    figure = growth_curves(
        np.array([4]), {"a": np.array([2])}, present=4, marks=[], x_title="x", y_title="y", palette=LIGHT
    )
    assert "markers" in figure.data[0].mode
    assert figure.layout.xaxis.range[0] < np.log10(4) < figure.layout.xaxis.range[1]


def test_sizes_that_are_not_positive_and_lines_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        growth(marks=[(0, "never")])
    with pytest.raises(ValueError, match=r"bias must be \[size\] = \[3\], not \[2\]"):
        growth(lines={"bias": np.ones(2)})


def test_the_strips_of_a_token_carry_the_names_they_are_given() -> None:
    figure = token_strips(np.ones(3), np.zeros(3), palette=LIGHT, row_names=("right", "with <a> mistake"))
    assert [trace.name for trace in figure.data] == ["right", "with &lt;a&gt; mistake"]
    assert figure.layout.yaxis2.title.text == "with &lt;a&gt; mistake<br>mean 0<br>std 0"
    assert figure.data[0].hovertemplate.startswith("right, dimension")


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_text_is_as_typed(palette: Palette) -> None:
    for figure in (
        spread(palette=palette, row_names=["<a>", "$x$"], tokens=["<i>"] * 4, quantity="<i>q", title="<i>t"),
        growth(palette, lines={"<a>": SIZES}, marks=[(5, "<i>m")], x_title="<i>x", y_title="$x$", title="<i>t"),
    ):
        assert figure.layout.uirevision
        drawn = json.loads(figure.to_json())
        del drawn["layout"]["template"]
        text = json.dumps(drawn).replace("\\u003c", "<").replace("\\u003e", ">")
        assert not any(raw in text for raw in ("<a>", "<i>", "$x$"))
