"""Gradients, training and placements over depth: exact numbers, theory beside them, and nothing breaks when empty."""

import json

import numpy as np
import pytest

from components.figures.gradients import gradients_against_depth, gradients_by_layer
from components.figures.placements import compared_over_depth
from components.figures.training import Curves, training_curves
from components.theme import DARK, LIGHT, Palette

DEPTHS = np.array([2.0, 8.0])
THEORY = {"Post-LN": 0.0, "Pre-LN": -0.5}


def curves(n: int = 3, layers: int = 2) -> Curves:
    return Curves(
        steps=np.arange(1, n + 1),
        loss=np.linspace(3, 1, n),
        accuracy=np.linspace(0, 1, n),
        gradients=np.ones((n, layers)) * np.arange(1, layers + 1),
    )


def test_the_theory_goes_through_the_middle_of_the_points_at_its_slope() -> None:
    points = {"Post-LN": (DEPTHS, np.array([1.0, 1.0])), "Pre-LN": (DEPTHS, np.array([4.0, 1.0]))}
    traces = {trace.name: trace for trace in gradients_against_depth(points, THEORY, palette=LIGHT).data}
    assert traces["Pre-LN"].y.tolist() == [4, 1]
    assert traces["Post-LN, theory"].y.tolist() == pytest.approx([1, 1])
    falling = traces["Pre-LN, theory"].y
    assert falling[1] / falling[0] == pytest.approx(0.5)  # four times as deep, half the norm
    assert np.sqrt(falling[0] * falling[1]) == pytest.approx(2)


def test_one_depth_has_no_theory_line_and_none_has_no_points() -> None:
    one = gradients_against_depth({"Pre-LN": (DEPTHS[:1], np.array([1.0]))}, THEORY, palette=LIGHT)
    assert [trace.name for trace in one.data] == ["Pre-LN"]
    for figure in (
        gradients_against_depth({}, THEORY, palette=LIGHT),
        gradients_by_layer({}, palette=DARK),
        training_curves({}, n_steps=10, palette=LIGHT),
    ):
        assert not figure.data
        json.loads(figure.to_json())
    with pytest.raises(ValueError, match="depths do not match"):
        gradients_against_depth({"Pre-LN": (DEPTHS, np.array([1.0]))}, THEORY, palette=LIGHT)


def test_layers_are_counted_from_0() -> None:
    trace = gradients_by_layer({"Pre-LN": np.array([3.0, 2.0, 1.0])}, palette=LIGHT).data[0]
    assert (trace.x.tolist(), trace.y.tolist()) == ([0, 1, 2], [3, 2, 1])


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize("layers", [1, 2, 8])
def test_training_has_loss_accuracy_and_first_and_last_gradient(palette: Palette, layers: int) -> None:
    figure = training_curves({"Pre-LN": curves(layers=layers)}, n_steps=100, palette=palette, title="<b>t")
    rows = [(trace.name, trace.yaxis) for trace in figure.data]
    assert rows[:2] == [("Pre-LN", "y"), ("Pre-LN", "y2")]
    assert [name for name, axis in rows if axis == "y3"] == [f"Pre-LN, layer {n}" for n in sorted({0, layers - 1})]
    assert figure.data[-1].y.tolist() == [layers] * 3
    assert figure.layout.xaxis.range == (0, 100)
    assert "<b>t" not in figure.to_json().replace("\\u003c", "<")


def test_training_refuses_curves_of_another_length() -> None:
    broken = Curves(steps=np.arange(3), loss=np.ones(2), accuracy=np.ones(3), gradients=np.ones((3, 1)))
    with pytest.raises(ValueError, match="Pre-LN: loss, accuracy and gradients"):
        training_curves({"Pre-LN": broken}, n_steps=3, palette=LIGHT)


def test_placements_over_depth_keep_their_numbers_and_a_checkpoint_that_one_has_not_is_a_gap() -> None:
    post, pre = np.array([1.0, 2.0, np.nan]), np.array([1.0, 10.0, 3.0])
    figure = compared_over_depth(
        ["L0 pre", "L0 post", "final norm"],
        {"Post-LN": (post, post, post), "Pre-LN": (pre, pre / 2, pre * 2)},
        quantity="L2 norm",
        palette=LIGHT,
        log=True,
    )
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines+markers"}
    np.testing.assert_array_equal(lines["Post-LN"].y, post.astype(np.float32))
    np.testing.assert_array_equal(lines["Pre-LN"].y, pre.astype(np.float32))
    assert lines["Post-LN"].line.dash != lines["Pre-LN"].line.dash
    with pytest.raises(ValueError, match="mean must be"):
        compared_over_depth(["a"], {"Post-LN": (post, post, post)}, quantity="q", palette=LIGHT)
