"""The map of one head shows every cell once, the right way round, in one scale for all heads."""

import numpy as np
import plotly.graph_objects as go
import pytest

from components.figures.attention import attention_heatmap
from components.theme import DARK, LIGHT, Palette


def draw(pattern: np.ndarray, tokens: list[str], palette: Palette = LIGHT, **options: object) -> go.Figure:
    return attention_heatmap(pattern, tokens, palette=palette, layer=3, head=5, **options)


def uniform(n: int) -> np.ndarray:
    return np.full((n, n), 1 / n, dtype=np.float32)


def padding(n: int, pads: int) -> np.ndarray:
    return np.arange(n) >= n - pads


def test_equal_tokens_keep_their_own_rows_and_columns() -> None:
    weights = np.arange(1, 10, dtype=np.float32).reshape(3, 3) / 10
    figure = draw(weights, ["the", "cat", "the"])
    assert np.array_equal(figure.data[0].z, weights)
    assert figure.data[0].x is None
    assert figure.data[0].x0 == 0
    assert figure.data[0].dx == 1
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        assert axis.tickvals == (0, 1, 2)
        assert axis.ticktext == ("the", "cat", "the")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 2 10", ["1", "2", "10"]),
        ("In 2020 we 2021", ["In", "2020", "we", "2021"]),
        ("2020-01 2020-02 May", ["2020-01", "2020-02", "May"]),
        ("$x$ $5 a", ["&#36;x&#36;", "&#36;5", "a"]),
        ("<s> </s> <b>bold a<br>b", ["&lt;s&gt;", "&lt;/s&gt;", "&lt;b&gt;bold", "a&lt;br&gt;b"]),
    ],
)
def test_words_never_become_numbers_dates_formulas_or_tags(text: str, shown: list[str]) -> None:
    tokens = text.split()
    figure = draw(uniform(len(tokens)), tokens)
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        assert axis.type == "linear"
        assert list(axis.ticktext) == shown
        assert list(axis.labelalias.values()) == shown


def test_an_invisible_token_has_a_label() -> None:
    assert draw(uniform(2), ["\u200b", ""]).layout.yaxis.ticktext == ("⟨U+200B⟩", "⟨empty⟩")


@pytest.mark.parametrize("n", [60, 61, 128, 512])
def test_thinned_labels_are_even_and_the_rule_is_stated(n: int) -> None:
    figure = draw(uniform(n), [f"w{i}" for i in range(n)])
    for axis, title in ((figure.layout.xaxis, "key (is looked at)"), (figure.layout.yaxis, "query (looks)")):
        step = axis.tickvals[1] - axis.tickvals[0]
        assert list(axis.tickvals) == list(range(0, n, step))
        assert len(axis.tickvals) <= 48
        assert axis.ticktext[1] == f"w{step}"
        assert axis.title.text.startswith(f"{title} · every {step}")
        assert axis.title.text.endswith("token named")
        assert axis.labelalias[str(n - 1)] == f"w{n - 1}"


def test_with_room_for_all_every_token_is_named_up_to_48() -> None:
    for n, named in ((48, 48), (49, 25)):
        axis = draw(uniform(n), ["w"] * n, height=900).layout.yaxis
        assert len(axis.ticktext) == named
        assert ("every 2nd token named" in axis.title.text) == (n == 49)


def test_queries_run_down_and_keys_run_right() -> None:
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], dtype=np.float32)
    figure = draw(weights, ["a", "b", "c"])
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    assert figure.layout.xaxis.range[0] < figure.layout.xaxis.range[1]
    assert figure.layout.yaxis.title.text == "query (looks)"
    assert figure.layout.xaxis.title.text == "key (is looked at)"
    assert figure.data[0].z[0].tolist() == [1, 0, 0]
    assert np.array_equal(figure.data[0].z[2], np.float32([0.2, 0.3, 0.5]))
    hover = figure.data[0].hovertemplate.replace("\u2068", "").replace("\u2069", "")
    assert hover.startswith("query <b>%{y}</b> attends to key <b>%{x}</b>: %{z")


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_padding_is_no_data_and_says_so(palette: Palette) -> None:
    figure = draw(
        uniform(5), list("abc") + ["[PAD]"] * 2, palette, query_padding=padding(5, 2), key_padding=padding(5, 2)
    )
    heatmap, hatching = figure.data
    assert np.isnan(heatmap.z[3:]).all()
    assert np.isnan(heatmap.z[:, 3:]).all()
    assert np.isfinite(heatmap.z[:3, :3]).all()
    assert heatmap.hoverongaps is False
    assert hatching.fillpattern.shape == "/"
    assert hatching.text.startswith("padding")
    assert hatching.fillpattern.fgcolor == palette.padding
    assert hatching.showlegend is False
    corners = [(x, y) for x, y in zip(hatching.x, hatching.y, strict=True) if x is not None]
    assert {(-0.5, 2.5), (4.5, 4.5), (2.5, -0.5), (4.5, 2.5)} <= set(corners)
    assert not any(x < 2.5 and y < 2.5 for x, y in corners)


def test_unmasked_pads_show_what_they_are_given() -> None:
    figure = draw(uniform(4), ["a", "b", "[PAD]", "[PAD]"], query_padding=padding(4, 2), key_padding=np.zeros(4, bool))
    assert figure.data[0].z[:2].tolist() == [[0.25] * 4] * 2
    assert np.isnan(figure.data[0].z[2:]).all()


def test_the_caller_s_array_is_left_alone() -> None:
    weights = uniform(3)
    weights.setflags(write=False)
    draw(weights, list("abc"), query_padding=padding(3, 1))
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_a_uniform_and_a_peaked_head_share_one_scale(scale: str) -> None:
    one, other = (draw(w, list("abcd"), scale=scale).data[0] for w in (uniform(4), np.eye(4)))
    assert (one.zmin, one.zmax) == (other.zmin, other.zmax) == (0, 1)
    assert one.colorscale == other.colorscale


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_root_and_log_move_the_colours_and_leave_the_weights(palette: Palette) -> None:
    weights = np.array([[0.25, 0.75], [0.5, 0.5]], dtype=np.float32)
    for scale in ("sqrt", "log"):
        figure = draw(weights, ["a", "b"], palette, scale=scale)
        assert np.array_equal(figure.data[0].z, weights)
        stops = dict(figure.data[0].colorscale)
        places = list(stops)
        assert places == sorted(places)
        assert (places[0], places[-1]) == (0, 1)
        middle = 0.25 if scale == "sqrt" else 0.01
        nearest = min(places, key=lambda p: abs(p - middle))
        assert stops[nearest] == palette.sequential[2][1]
        named = {"sqrt": "weight (√ scale)", "log": "weight (log scale)"}[scale]
        assert figure.data[1].marker.colorbar.title.text == named


def test_no_colour_scale_is_silently_something_else() -> None:
    with pytest.raises(ValueError, match="linear, sqrt, log"):
        draw(uniform(2), ["a", "b"], scale="cube")


@pytest.mark.parametrize("n", [1, 2, 16, 64, 512])
def test_cells_are_square_and_fill_the_axes(n: int) -> None:
    layout = draw(uniform(n), ["w"] * n).layout
    assert layout.xaxis.scaleanchor == "y"
    assert list(layout.xaxis.range) == [-0.5, n - 0.5]
    assert list(layout.yaxis.range) == [n - 0.5, -0.5]


def test_512_tokens_stay_below_2_5_megabytes() -> None:
    tokens = [f"antidisestablishment{i}" for i in range(512)]
    figure = draw(uniform(512), tokens, query_padding=padding(512, 100), key_padding=padding(512, 100), scale="sqrt")
    assert len(figure.to_json()) < 2_500_000


def test_the_figure_can_be_found() -> None:
    layout = draw(uniform(1), ["hello"]).layout
    assert layout.meta == {"figure": "attention_heatmap", "layer": 3, "head": 5}
    assert layout.title.text == "L3 H5"
    assert layout.uirevision


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query_padding": np.array([0, 1, 1])}, "bool"),
        ({"key_padding": np.zeros(2, bool)}, r"bool \[3\]"),
    ],
)
def test_a_mask_of_another_kind_or_length_is_refused(options: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(uniform(3), list("abc"), **options)


def test_a_pattern_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[3, 3\] for 3 tokens, not \[2, 2\]"):
        draw(uniform(2), list("abc"))
