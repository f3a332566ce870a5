"""Directions and paths of the stream: exact numbers, one trace for all tokens, names that do not cover each other."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from components.figures import cosine_curves, stream_growth, token_paths
from components.theme import DARK, LIGHT, Palette

CHECKPOINTS = ["L0 pre", "L0 mid", "L0 post"]
SUCCESSIVE = np.array([np.nan, 0.9, 0.5], dtype=np.float32)
SHARES = np.array([0.631, 0.2])


def cosines(palette: Palette = LIGHT, **options: object) -> go.Figure:
    given = {
        "checkpoint_names": CHECKPOINTS,
        "successive": SUCCESSIVE,
        "low": SUCCESSIVE - 0.125,
        "high": SUCCESSIVE + 0.0625,
        "between": np.array([0.1, 0.2, 0.3]),
        "attn_cosine": np.array([-0.5]),
        "ff_cosine": np.array([0.25]),
        "attn_positions": np.array([1]),
        "ff_positions": np.array([2]),
    } | options
    return cosine_curves(**given, palette=palette)


def paths(n_tokens: int = 3, n_checkpoints: int = 3, palette: Palette = LIGHT, **options: object) -> go.Figure:
    points = np.random.default_rng(0).normal(size=(n_checkpoints, n_tokens, 2)).cumsum(axis=0)
    given = {"coordinates": points, "shares": SHARES, "tokens": ["the"] * n_tokens, "chosen": 0} | options
    return token_paths(checkpoint_names=[f"L{i} pre" for i in range(n_checkpoints)], palette=palette, **given)


def test_cosines_stand_at_their_checkpoints() -> None:
    figure = cosines()
    band, turn, alike, attn, ff = figure.data
    assert np.array_equal(turn.y, SUCCESSIVE, equal_nan=True)
    assert alike.y.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert (attn.x[0], attn.y[0], ff.x[0], ff.y[0]) == (1, -0.5, 2, 0.25)
    assert band.x.tolist() == [1, 2, 2, 1]
    assert band.y.tolist() == pytest.approx([0.9625, 0.5625, 0.375, 0.775])
    assert figure.layout.yaxis.range == (-1.05, 1.05)
    assert figure.layout.yaxis.zeroline
    lines = [turn, alike, attn, ff]
    assert len({trace.marker.symbol for trace in lines}) == len({trace.line.color for trace in lines}) == 4


def test_what_has_no_number_is_neither_drawn_nor_in_the_legend() -> None:
    nothing = np.full(1, np.nan)
    figure = cosines(
        checkpoint_names=["only"], successive=nothing, low=nothing, high=nothing, between=nothing,
        attn_cosine=[], ff_cosine=[], attn_positions=[], ff_positions=[],
    )  # fmt: skip
    assert not any(trace.showlegend for trace in figure.data)
    assert not np.isfinite([value for trace in figure.data for value in trace.y]).any()


def test_a_band_does_not_bridge_a_gap() -> None:
    low = np.array([1, 2, np.nan, 4], dtype=np.float32)
    band = cosines(checkpoint_names=list("abcd"), successive=low, low=low, high=low + 1, between=low).data[0]
    assert np.isnan(band.x).sum() == 1
    assert band.x[~np.isnan(band.x)].tolist() == [0, 1, 1, 0, 3, 3]


@pytest.mark.parametrize("name", ["successive", "low", "high", "between"])
def test_cosines_of_another_length_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be \[checkpoint\] = \[3\]"):
        cosines(**{name: np.zeros(2)})


def test_additions_without_a_position_are_refused() -> None:
    with pytest.raises(ValueError, match="feed-forward"):
        cosines(ff_positions=np.array([1, 2]))


def test_all_paths_are_one_trace_with_a_gap_after_each_token() -> None:
    points = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    figure = paths(3, 2, coordinates=points, tokens=["a", "b", "c"], chosen=1)
    every, first, last, chosen = figure.data
    assert np.array_equal(every.x, [0, 6, np.nan, 2, 8, np.nan, 4, 10, np.nan], equal_nan=True)
    assert every.mode == "lines"
    assert every.hoverinfo == "skip"
    assert (first.x.tolist(), last.x.tolist()) == ([0, 2, 4], [6, 8, 10])
    assert (first.marker.symbol, last.marker.symbol) == ("circle-open", "circle")
    assert (chosen.x.tolist(), chosen.y.tolist()) == ([2, 8], [3, 9])
    assert chosen.line.color == LIGHT.accent
    assert [text.split(", ")[1] for text in chosen.hovertext] == ["L0 pre", "L1 pre"]
    assert figure.layout.xaxis.title.text == "first axis · 63.1 % of the variance"


def test_names_of_paths_do_not_cover_each_other() -> None:
    """The ends of the first two are at one point, where four sides are free at most: nothing is written twice."""
    points = np.zeros((2, 40, 2))
    points[:, :, 0] = np.linspace(0, 1, 40)
    points[:, -1, 1] = 1.0
    last = paths(40, 2, coordinates=points, tokens=["extraordinary"] * 40, chosen=None).data[2]
    written = [i for i, text in enumerate(last.text) if text]
    assert 4 <= len(written) < 40
    assert len(last.hovertext) == 40
    for place in set(last.textposition):
        along = [points[-1, i, 0] for i in written if last.textposition[i] == place]
        assert all(np.diff(sorted(along)) > 0.2)


def test_names_stand_at_up_to_40_tokens_and_the_chosen_one_always() -> None:
    few, many = paths(40), paths(41)
    assert few.data[2].mode == "markers+text"
    assert many.data[2].mode == "markers"
    assert [figure.data[3].text[-1] for figure in (few, many)] == ["<b>the</b>"] * 2
    assert len(paths(41, chosen=None).data) == 3


def test_a_path_without_variance_says_so() -> None:
    figure = paths(1, 1, coordinates=np.zeros((1, 1, 2)), shares=np.full(2, np.nan))
    assert figure.layout.yaxis.title.text == "second axis · no variance"
    assert figure.layout.xaxis.range == (-1, 1)


def test_the_largest_paths_are_small_to_send() -> None:
    figure = paths(512, 49)
    assert len(figure.data) == 4
    assert len(figure.data[0].x) == 512 * 50
    assert len(figure.to_json()) < 500_000


def test_paths_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"coordinates must be \[checkpoint, token, 2\]"):
        paths(coordinates=np.zeros((3, 2, 2)))
    with pytest.raises(ValueError, match=r"shares must be \[2\]"):
        paths(shares=np.zeros(3))


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_a_title_stands_above_the_legend_and_text_is_as_typed(palette: Palette) -> None:
    one = np.ones(3)
    for figure in (
        cosines(palette, checkpoint_names=["<a>"] * 3, title="<b>t"),
        paths(2, palette=palette, tokens=["<b>$x$", "<b>"], title="<b>t"),
        stream_growth(CHECKPOINTS, one, one, one, [1], [1], [1], [2], palette=palette, title="<b>t"),
    ):
        assert figure.layout.legend.yref == "container"
        assert figure.layout.legend.y < 1 - 20 / figure.layout.height
        drawn = json.loads(figure.to_json())
        del drawn["layout"]["template"]
        text = json.dumps(drawn).replace("\\u003c", "<").replace("\\u003e", ">")
        assert not any(raw in text for raw in ("<a>", "<b>t", "$x$", "<b><b>"))
