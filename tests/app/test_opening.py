"""What a stranger meets: a real sentence, already run through the real trained encoder."""

import itertools

import numpy as np
import pytest

import explorer
from components.address import DEFAULT_TEXT
from components.theme import DARK, LIGHT
from tests.app.page import Page
from tests.inputs import words


def expected_run(model: explorer.Model, text: str, **options: object) -> explorer.Run:
    """The run that the page should show, made apart from it."""
    return explorer.run(model, model.batch(text.split("\n")), **options)


def all_patterns(run: explorer.Run, sentence: int) -> np.ndarray:
    """`[layer, head, query, key]` of one sentence."""
    return np.stack([run.trace.pattern(layer)[sentence] for layer in range(run.config.n_layers)])


def codes(pattern: np.ndarray, padding: np.ndarray) -> np.ndarray:
    """What the grid should hold, computed cell by cell: the strongest weight of real queries, as a byte."""
    n = pattern.shape[-1]
    cells = min(n, 64)
    edges = [i * n // cells for i in range(cells + 1)]
    out = np.zeros((*pattern.shape[:2], cells, cells))
    for (i, (top, bottom)), (j, (left, right)) in itertools.product(
        enumerate(itertools.pairwise(edges)), enumerate(itertools.pairwise(edges))
    ):
        real = ~padding[top:bottom]
        if real.any():
            out[:, :, i, j] = pattern[:, :, top:bottom, left:right][:, :, real].max(axis=(-2, -1))
    return np.rint(255 * np.sqrt(out)).astype(int)


def same_codes(page: Page, run: explorer.Run, sentence: int) -> None:
    padding = run.batch.key_padding_mask[sentence].numpy()
    _, pixels = page.grid
    expected = codes(all_patterns(run, sentence), padding)
    assert pixels.shape == expected.shape
    assert np.abs(pixels.astype(int) - expected).max() <= 1  # one code where a rounding falls on the edge
    assert (pixels == expected).mean() > 0.999


def same_heatmap(page: Page, run: explorer.Run, sentence: int, layer: int, head: int) -> None:
    padding = run.batch.key_padding_mask[sentence].numpy()
    expected = run.trace.pattern(layer)[sentence, head].copy()
    expected[padding] = np.nan
    if run.use_mask:
        expected[:, padding] = np.nan
    drawn = page.heatmap
    shown = drawn["z"].copy()
    assert drawn["row_padding"] == padding.tolist()
    assert drawn["col_padding"] == (padding & run.use_mask).tolist()
    shown[padding] = np.nan
    shown[:, np.array(drawn["col_padding"], dtype=bool)] = np.nan
    np.testing.assert_allclose(shown, expected, rtol=0, atol=1e-6)


def test_it_opens_without_a_click(page: Page) -> None:
    page.ok()
    assert page.value("source") == "minilm"
    assert page.value("text") == DEFAULT_TEXT
    assert page.link == {}
    assert page.notes == []
    for part in (
        "all-MiniLM-L6-v2, trained",
        "6 layers × 12 heads, Post-LN",
        "22,565,376 parameters",
        "24 real tokens, 8 padding",
        "CPU, ",
    ):
        assert part in page.status
    assert "mask off" not in page.status


def test_a_first_visitor_sees_few_controls(page: Page) -> None:
    folded = [
        widget.key for expander in page.at.sidebar.expander for kind in ("selectbox",) for widget in expander.get(kind)
    ]
    assert folded == ["pad_side", "device", "precision"]


def test_the_ribbon_shows_both_sentences_and_the_padding(page: Page) -> None:
    first, second = (" ".join(row) for row in page.rows)
    assert first == "[CLS] the animal didn ' t cross the street because it was too tired . [SEP]"
    assert second == "[CLS] the street was too wide . [SEP]" + 8 * " [PAD]"


def test_the_grid_holds_the_attention_of_every_head(page: Page, minilm: explorer.Model) -> None:
    run = expected_run(minilm, DEFAULT_TEXT)
    header, pixels = page.grid
    assert pixels.shape == (6, 12, 16, 16)
    assert header["tokens"] == run.batch.tokens[0]
    assert header["masked"]
    assert not any(header["query_padding"] + header["key_padding"])
    same_codes(page, run, 0)
    assert len(np.unique(pixels.reshape(72, -1), axis=0)) == 72  # no two heads are alike


def test_the_heatmap_is_head_1_of_layer_3(page: Page, minilm: explorer.Model) -> None:
    same_heatmap(page, expected_run(minilm, DEFAULT_TEXT), 0, 3, 1)
    drawn = page.heatmap
    assert drawn["title"] == "L3 H1"
    assert drawn["rows"] == drawn["cols"] == page.rows[0]
    assert (drawn["low"], drawn["high"]) == (0, 1)
    assert page.announced("head") == {
        "target": "head", "mode": "map", "scale": "linear", "row": 10, "col": None, "echo": 0
    }  # fmt: skip
    assert page.chosen == (3, 1)


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (5, 11), (2, 7)])
def test_any_head_of_any_sentence_is_the_right_one(layer: int, head: int, minilm: explorer.Model) -> None:
    page = Page(sel=f"{layer}.{head}", sentence="1").ok()
    run = expected_run(minilm, DEFAULT_TEXT)
    same_heatmap(page, run, 1, layer, head)
    same_codes(page, run, 1)
    header, pixels = page.grid
    assert header["key_padding"] == header["query_padding"] == [0] * 8 + [1] * 8
    assert not pixels[..., 8:].any()
    assert not pixels[..., 8:, :].any()


def test_without_the_mask_padding_is_drawn_with_the_weight_it_took(minilm: explorer.Model) -> None:
    page = Page(mask="false", sentence="1").ok()
    run = expected_run(minilm, DEFAULT_TEXT, use_mask=False)
    same_heatmap(page, run, 1, 3, 1)
    same_codes(page, run, 1)
    header, pixels = page.grid
    assert not header["masked"]
    assert pixels[..., :8, 8:].any()


def test_a_long_sentence_is_pooled_and_its_short_neighbour_still_right(minilm: explorer.Model) -> None:
    text = f"{words(40)}\n{words(20)}"
    run = expected_run(minilm, text)
    assert run.batch.token_ids.shape[1] > 64
    for sentence in (0, 1):
        page = Page(text=text, sentence=str(sentence)).ok()
        assert page.grid[1].shape[-2:] == (64, 64)
        same_codes(page, run, sentence)
        same_heatmap(page, run, sentence, 3, 1)


@pytest.mark.parametrize("n_layers", [1, 5])
def test_the_first_layers_of_minilm_are_its_own(n_layers: int, minilm: explorer.Model) -> None:
    page = Page(layers=str(n_layers), sel="0.4").ok()
    same_codes(page, expected_run(minilm.first_layers(n_layers), DEFAULT_TEXT), 0)
    np.testing.assert_array_equal(page.grid[1], Page().grid[1][:n_layers])


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_built_encoder_shows_its_own_attention(placement: str) -> None:
    page = Page(source="built", norm=placement, seed="7", layers="3", sel="2.3").ok()
    config = explorer.EncoderConfig(n_layers=3, norm_placement=placement)
    run = expected_run(explorer.build(config, seed=7), DEFAULT_TEXT)
    same_codes(page, run, 0)
    same_heatmap(page, run, 0, 2, 3)
    assert "untrained" in page.status


def test_the_tables_are_those_of_the_run(minilm: explorer.Model) -> None:
    run = expected_run(minilm, DEFAULT_TEXT)
    attention = run.tables.attention(3).query("head == 1 and sentence == 0")
    shown = Page().at.dataframe[0].value
    np.testing.assert_allclose(shown["Entropy (nats)"], attention["entropy"], atol=1e-6)
    np.testing.assert_allclose(shown["Weight"], attention["strongest_weight"], atol=1e-6)
    assert shown["Looks most at"].tolist() == attention["strongest_key"].tolist()

    scores = run.tables.heads(sentence=0)
    shown = Page(table="heads").ok().at.dataframe[0].value
    assert shown[["Layer", "Head"]].values.tolist() == scores[["layer", "head"]].values.tolist()
    np.testing.assert_allclose(shown["On the previous token"], scores["previous"], rtol=1e-6)
    assert shown["On the previous token"].idxmax() == 2  # L0 H2

    norms = run.tables.layernorm().query("sentence == 0 and norm == 'norm2' and layer == 3")
    shown = Page(view="layernorm").at.dataframe[0].value
    np.testing.assert_allclose(shown["Std going in"], norms["std_in"], rtol=1e-5)

    stream = run.tables.stream().query("sentence == 0 and layer == 3 and point == 'post'")
    shown = Page(view="residual", stream_show="checkpoint").at.dataframe[0].value
    np.testing.assert_allclose(shown["L2 norm of what is added"], stream["added"], rtol=1e-5)

    shapes = run.tables.shapes()
    shown = Page(view="shapes").at.dataframe[0].value
    assert set(shown["Recorded as"]) <= {*shapes["site"], ""}
    assert shown["Parameters"].sum() == shapes["parameters"].sum() == 22_565_376
    assert shown["FLOPs"].sum() == shapes["flops"].sum()


def test_the_figures_of_the_other_views_are_those_of_the_run(minilm: explorer.Model) -> None:
    run = expected_run(minilm, DEFAULT_TEXT)
    page = Page(view="layernorm").ok()
    figures = page.figures
    table = run.tables.layernorm().query("sentence == 0")
    np.testing.assert_allclose(page.matrix("norms")["z"], table["std_in"].to_numpy().reshape(13, 16), rtol=1e-5)
    chosen = table.query("norm == 'norm2' and layer == 3")
    np.testing.assert_allclose(figures["norm_detail"]["data"][0]["y"], chosen["mean_in"], atol=1e-6)
    np.testing.assert_allclose(figures["norm_detail"]["data"][0]["error_y"]["array"], chosen["std_in"], rtol=1e-5)

    page = Page(view="residual").ok()
    figures = page.figures
    stream = run.tables.stream().query("sentence == 0")["norm"].to_numpy().reshape(13, 16)
    np.testing.assert_allclose(page.matrix("stream_map")["z"], stream, rtol=1e-5)
    lines = {trace["name"]: trace["y"] for trace in figures["stream_growth"]["data"]}
    np.testing.assert_allclose(lines["stream, mean"], stream.mean(axis=1), rtol=1e-5)
    added = run.tables.residual().query("sentence == 0").groupby("layer")["ff_out"].mean()
    np.testing.assert_allclose(lines["feed-forward adds"], added, rtol=1e-5)


@pytest.mark.parametrize(("theme", "palette"), [("light", LIGHT), ("dark", DARK), (None, LIGHT)])
def test_figures_wear_the_colours_of_the_readers_theme(theme: str | None, palette: object) -> None:
    page = Page(view="layernorm")
    page.at.context["theme"] = theme
    page.at.run()
    template = page.ok().figures["norm_detail"]["layout"]["template"]["layout"]
    assert template["font"]["color"] == palette.text


def test_a_higher_window_gets_higher_figures_and_nonsense_gets_none() -> None:
    page = Page(view="layernorm")

    def height() -> int:
        return page.ok().figures["norm_detail"]["layout"]["height"]

    assert height() == 430
    page.resize(620)
    assert height() == 620
    for nonsense in (10**9, -1, "620", None, 431, [620]):
        page.resize(nonsense)
        assert height() == 620
