"""Norms, residual stream and costs: exact numbers, right order, padding left out."""

import json

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from components.figures import (
    cost_bars,
    difference_bars,
    gain_curves,
    norm_detail,
    residue_bars,
    stream_growth,
    token_strips,
)
from components.figures.canvas import log_ticks
from components.theme import DARK, LIGHT, Palette

TOKENS = ["the", "cat", "the", "[PAD]"]
PADDED = np.array([False, False, False, True])


def test_one_norm_entering_and_leaving() -> None:
    mean, std = np.array([1, -2, 3, 50], dtype=np.float32), np.array([4, 5, 6, 50], dtype=np.float32)
    out = np.zeros(4, dtype=np.float32), np.ones(4, dtype=np.float32)
    figure = norm_detail(mean, std, *out, TOKENS, palette=LIGHT, token_padding=PADDED, title="L0 norm1")
    entering, leaving, *hatches = figure.data
    assert (entering.name, leaving.name) == ("entering", "leaving")
    assert entering.y[:3].tolist() == [1, -2, 3]
    assert entering.error_y.array[:3].tolist() == [4, 5, 6]
    assert np.isnan(entering.y[3])
    assert np.isnan(leaving.error_y.array[3])
    assert {trace.yaxis for trace in hatches} == {"y", "y2"}
    assert len(hatches) == 2
    low, high = figure.layout.yaxis.range
    assert low < -7
    assert 9 < high < 12
    assert figure.layout.yaxis2.range[1] < 2
    assert figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]


def test_of_many_tokens_the_spread_is_a_band_around_the_mean() -> None:
    """An error bar each would take the browser a second; padding is still a gap."""
    mean, std = np.arange(200, dtype=np.float32), np.full(200, 2, dtype=np.float32)
    padded = np.arange(200) > 150
    figure = norm_detail(mean, std, mean, std, ["t"] * 200, palette=LIGHT, token_padding=padded)
    entering, leaving = figure.data[:2]
    assert entering.error_y.array is leaving.error_y.array is None
    bands = [trace for trace in figure.data if trace.name == "mean ± std"]
    assert {trace.yaxis for trace in bands} == {"y", "y2"}
    assert (np.nanmin(bands[0].y), np.nanmax(bands[0].y), np.nanmax(bands[0].x)) == (-2, 152, 150)


@pytest.mark.parametrize("log", [False, True])
def test_growth_of_the_stream(log: bool) -> None:
    mean = np.array([3, 4, 5], dtype=np.float32)
    figure = stream_growth(
        ["embed", "L0 mid", "L0 post"], mean, mean - 1, mean + 2, [2.5], [1.5], [1], [2], log=log, palette=LIGHT
    )
    band, stream, attn, ff = figure.data
    assert band.y.tolist() == [5, 6, 7, 4, 3, 2]
    assert band.x.tolist() == [0, 1, 2, 2, 1, 0]
    assert np.array_equal(stream.y, mean)
    assert (attn.x[0], attn.y[0]) == (1, 2.5)
    assert (ff.x[0], ff.y[0]) == (2, 1.5)
    assert figure.layout.yaxis.title.text == "L2 norm"
    assert figure.layout.yaxis.type == ("log" if log else None)
    assert figure.layout.showlegend
    assert len({trace.name for trace in figure.data}) == 4


def test_shares_of_parameters_and_flops() -> None:
    costs = pd.DataFrame({"step": ["attention", "feed-forward"], "parameters": [288, 312], "flops": [0, 0]})
    parameters, flops = cost_bars(costs, palette=LIGHT).data
    assert parameters.x.tolist() == pytest.approx([48, 52])
    assert list(parameters.customdata) == ["288", "312"]
    assert "600 in all" in parameters.name
    assert flops.x.tolist() == [0, 0]
    with pytest.raises(ValueError, match="flops"):
        cost_bars(costs.drop(columns="flops"), palette=LIGHT)


def everything(palette: Palette, tokens: list[str], names: list[str]) -> list[go.Figure]:
    rows, n = len(names), len(tokens)
    line = np.ones(n, dtype=np.float32)
    per_row = np.ones(rows)
    costs = pd.DataFrame({"step": names, "parameters": [1] * rows, "flops": [1] * rows})
    return [
        token_strips(np.ones(3), np.ones(3), palette=palette, named=[0], title="<b>t"),
        gain_curves(np.ones(3), np.zeros(3), palette=palette, title="<b>t"),
        difference_bars(["<b>x"], np.array([0.0]), palette=palette, title="<b>t"),
        residue_bars(["<b>x"], np.array([0.0]), np.array([1.0]), palette=palette),
        norm_detail(line, line, line, line, tokens, palette=palette, title="$x$"),
        stream_growth(names, per_row, per_row, per_row, [1.0], [1.0], [0], [0], palette=palette),
        cost_bars(costs, palette=palette),
    ]


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize("tokens", [["<b>$x$"], ["<b>$x$", "<b>$x$"]])
def test_every_figure_works_with_one_token_and_row_escapes_text_and_can_be_found(
    palette: Palette, tokens: list[str]
) -> None:
    figures = everything(palette, tokens, ["<a>"])
    assert len({figure.layout.meta["figure"] for figure in figures}) == len(figures)
    for figure in figures:
        drawn = json.loads(figure.to_json())
        del drawn["layout"]["template"]
        text = json.dumps(drawn).replace("\\u003c", "<").replace("\\u003e", ">")
        assert figure.layout.uirevision
        assert not any(raw in text for raw in ("<b>$", "<a>", "<i>std", "<b>t", "$x$", "<b>x", "http"))


def test_float32_travels_as_binary() -> None:
    figure = norm_detail(*np.ones((4, len(TOKENS)), dtype=np.float32), TOKENS, palette=LIGHT)
    assert json.loads(figure.to_json())["data"][0]["y"]["dtype"] == "f4"


@pytest.mark.parametrize(("low", "high"), [(1.034, 1.71), (1.0, 1.01), (9.57, 10.4), (0.0012, 0.0019), (900, 1100)])
def test_a_log_bar_over_less_than_a_decade_has_several_round_labels(low: float, high: float) -> None:
    """Its two ends alone are not enough: Plotly hides a label that reaches beyond the right edge of the figure."""
    ticks = log_ticks(low, high, most=5)
    assert 2 <= len(ticks) <= 5
    assert any(low * 1.001 < tick < high * 0.999 for tick in ticks)  # one that no edge can hide
    assert all(low * 0.999 <= tick <= high * 1.001 for tick in ticks)
    assert all(float(f"{tick:.4g}") == pytest.approx(tick, rel=1e-12) for tick in ticks)
    assert np.diff(ticks) == pytest.approx(ticks[1] - ticks[0])


def test_both_strips_of_a_token_have_its_own_mean_band_and_named_dimensions() -> None:
    before, after = np.array([1.0, -9.0, 2.0]), np.array([0.5, -1.4, 0.9])
    figure = token_strips(before, after, palette=LIGHT, named=[1])
    assert [trace.y.tolist() for trace in figure.data] == [before.tolist(), after.tolist()]
    band = figure.layout.shapes[0]
    assert (band.y0, band.y1) == pytest.approx((before.mean() - before.std(), before.mean() + before.std()))
    assert [note.text for note in figure.layout.annotations] == ["1", "1"]
    with pytest.raises(ValueError, match="d_model"):
        token_strips(before, after[:2], palette=LIGHT)


def test_gamma_and_beta_are_sorted_each_by_itself_and_keep_their_dimension() -> None:
    gamma, beta = gain_curves(np.array([3.0, 1, 2]), np.array([-1.0, 5, 0]), palette=LIGHT).data
    assert gamma.y.tolist() == [1, 2, 3]
    assert gamma.customdata.tolist() == [1, 2, 0]
    assert beta.y.tolist() == [-1, 0, 5]


@pytest.mark.parametrize("difference", [1e-3, 2.0, np.nan, np.inf, 0.0])
def test_a_claim_that_does_not_hold_says_so_in_words(difference: float) -> None:
    figure = residue_bars(["a", "b"], np.array([difference, 0.1]), np.array([1.0, 1.0]), palette=LIGHT)
    holds = difference <= 1
    assert figure.data[0].text[0] == ("does not hold" if not holds else "" if difference else "exactly 0")
    assert figure.data[0].text[1] == ""
    assert (figure.data[0].marker.color[0] == figure.data[0].marker.color[1]) == holds
    assert np.isfinite(figure.data[0].x).all()


def test_a_tolerance_of_0_is_met_by_0_alone() -> None:
    texts = residue_bars(["a", "b"], np.array([0.0, 1e-9]), np.zeros(2), palette=LIGHT).data[0].text
    assert texts == ("exactly 0", "does not hold")


def test_differences_are_written_at_their_bars_and_none_is_hidden() -> None:
    bars = difference_bars(["a", "b", "c"], np.array([0.0, 1e-4, np.nan]), palette=LIGHT).data[0]
    assert bars.text == ("0", "0.0001", "–")
    assert bars.x[1] == 1e-4
    assert np.isfinite(bars.x).all()
