"""The page opens with its picture, and answers to words, mouse and keys."""

import math

import numpy as np
import pandas as pd
import pytest

import explorer
from components.address import DEFAULT_TEXT
from tests.browser.reader import MATRIX, Reader
from tests.browser.server import Server

pytestmark = pytest.mark.browser

BUILT = {"source": "built", "layers": "2", "heads": "2", "d_model": "8", "d_ff": "16"}
VIEWS = {
    "Attention": ("attention", []),
    "LayerNorm": ("layernorm", ["norm_detail"]),
    "Residual stream": ("residual", ["stream_growth"]),
    "Shapes": ("shapes", ["cost_bars"]),
    "Proof": ("proof", ["residue_bars"]),
}


def test_it_opens_with_the_picture_painted_and_no_click(reader: Reader, minilm: explorer.Model) -> None:
    reader.open()
    assert int(reader.canvas.get_attribute("data-painted") or 0) >= 1
    assert reader.colours() > 100
    assert reader.chosen == (3, 1)
    drawn = reader.heatmap
    assert drawn["title"] == "L3 H1"
    assert drawn["image"].startswith("data:image/png")
    assert drawn["y"] == reader.rows[0]
    run = explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")))
    np.testing.assert_allclose(drawn["z"], run.trace.pattern(3)[0, 1], atol=1e-6)
    assert reader.text == DEFAULT_TEXT
    assert "all-MiniLM-L6-v2, trained" in reader.status
    assert reader.address == {}


def test_a_typed_sentence_changes_ribbon_canvas_and_heatmap(reader: Reader, server: Server) -> None:
    reader.open()
    before, pixels, passes = reader.heatmap, reader.pixels(), server.passes
    reader.type("A typed sentence, never seen before.")
    tokens = ["[CLS]", "a", "typed", "sentence", ",", "never", "seen", "before", ".", "[SEP]"]
    reader.until_tokens(0, tokens).until_address(text="A typed sentence, never seen before.")
    assert reader.rows == [tokens]
    after = reader.heatmap
    assert after["y"] == tokens
    assert len(after["z"]) == 10 != len(before["z"])
    assert reader.pixels() != pixels
    assert server.passes == passes + 1


def test_an_empty_text_is_refused_in_place_of_the_picture_and_nothing_is_lost(reader: Reader) -> None:
    reader.open(**BUILT)
    reader.type("   ")
    alert = reader.page.get_by_role("alert")
    alert.wait_for()
    reader.settled()
    assert alert.inner_text() == "There is no sentence to run. Type at least one word in the box above."
    assert reader.page.locator(".js-plotly-plot").count() == 0
    assert reader.page.locator(".st-key-head").count() == 0
    assert reader.canvas.count() == 0
    assert reader.text == "   "
    reader.type("back again")
    reader.until_tokens(0, ["[CLS]", "back", "again", "[SEP]"]).until_head(1, 1)


def test_a_click_on_the_grid_changes_the_heatmap_and_the_address_without_a_pass(reader: Reader, server: Server) -> None:
    reader.open()
    passes, before = server.passes, reader.heatmap
    box = reader.canvas.bounding_box()
    assert box
    reader.canvas.click(position={"x": box["width"] - 14, "y": box["height"] - 14})  # the last tile
    reader.until_head(5, 11).until_address(sel="5.11")
    assert reader.chosen == (5, 11)
    assert reader.heatmap["title"] == "L5 H11"
    assert reader.heatmap["z"] != before["z"]
    reader.canvas.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    layer, head = reader.chosen  # the canvas frames it at once; the server has to follow
    assert 1 < layer < 5
    assert 3 < head < 8
    reader.until_head(layer, head).until_address(sel=f"{layer}.{head}")
    assert server.passes == passes


def test_arrow_keys_choose_a_head_without_a_pass(reader: Reader, server: Server) -> None:
    reader.open()
    passes = server.passes
    reader.canvas.focus()
    for key, (layer, head) in {"ArrowRight": (3, 2), "ArrowDown": (4, 2), "End": (4, 11), "ArrowUp": (3, 11)}.items():
        reader.page.keyboard.press(key)
        reader.until_head(layer, head).until_address(sel=f"{layer}.{head}")
        assert reader.chosen == (layer, head)
    assert reader.canvas.evaluate("(canvas) => canvas.getRootNode().activeElement === canvas")
    assert server.passes == passes


def test_quick_keys_end_where_the_reader_stopped(reader: Reader, server: Server) -> None:
    reader.open()
    passes = server.passes
    reader.canvas.focus()
    for key in ["ArrowLeft", "ArrowUp", "ArrowUp", "ArrowUp", *["ArrowRight"] * 5]:
        reader.page.keyboard.press(key)
    reader.until_head(0, 5).until_address(sel="0.5")
    assert reader.chosen == (0, 5)
    assert server.passes == passes


def test_a_token_is_chosen_in_the_ribbon_by_mouse_and_keys_without_a_pass(reader: Reader, server: Server) -> None:
    reader.open()
    passes, page = server.passes, reader.page
    chosen = page.locator(".batch span.chosen")
    assert chosen.all_text_contents() == ["it"]
    page.locator(".batch .row").first.locator("span", has_text="street").click()
    reader.until_address(token="8")
    assert chosen.all_text_contents() == ["street"]
    page.locator(".batch .row").nth(1).locator("span", has_text="wide").click()
    reader.until_address(token="5", sentence="1").until_matrix("head", "L3 H1")
    assert reader.heatmap["y"][:6] == ["[CLS]", "the", "street", "was", "too", "wide"]
    chosen.focus()
    for key in ("ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    reader.until_address(token="3")
    assert chosen.all_text_contents() == ["was"]
    pad = page.locator(".batch .pad").first
    pad.click()
    reader.settled()
    assert reader.address == {"token": "3", "sentence": "1"}
    assert server.passes == passes


@pytest.mark.parametrize("link", [{}, BUILT], ids=["minilm", "built"])
def test_every_view_is_reached_without_a_pass(reader: Reader, server: Server, link: dict[str, str]) -> None:
    reader.open(**link)
    passes = server.passes
    for name, (view, figures) in [*VIEWS.items()][1:] + [*VIEWS.items()][:1]:
        reader.view(name).until_address(view=None if view == "attention" else view)
        shown = [reader.figure(figure)["meta"]["figure"] for figure in figures]
        assert shown == figures
        assert reader.page.get_by_test_id("stDataFrame").is_visible()
    assert server.passes == passes


def test_sentence_quantity_and_norm_are_chosen_without_a_pass(reader: Reader, server: Server) -> None:
    reader.open()
    passes = server.passes
    page = reader.page
    page.locator(".st-key-sentence input").click()
    page.get_by_role("option", name="2: The street was too wide.").click()
    reader.until_address(sentence="1")
    reader.view("LayerNorm")
    page.locator(".st-key-quantity input").click()
    page.get_by_role("option", name="Mean coming out").click()
    reader.until_address(quantity="mean_out")
    page.locator(".st-key-norm_choice input").click()
    page.get_by_role("option", name="L5 norm1").click()
    reader.until_address(sel="5.1", norm_at="norm1")
    assert reader.figure("norm_detail")["title"] == "L5 norm1"
    assert server.passes == passes


@pytest.mark.parametrize("norm", ["embedding norm", "final norm"])
def test_norms_outside_the_layers_can_be_chosen(reader: Reader, norm: str) -> None:
    reader.open(**(BUILT | {"norm": "pre"} if norm == "final norm" else {}), view="layernorm")
    reader.page.locator(".st-key-norm_choice input").click()
    reader.page.get_by_role("option", name=norm).click()
    reader.until_address(norm_at=norm.split()[0].replace("embedding", "embed"))
    assert reader.figure("norm_detail")["title"] == norm


def test_a_change_of_the_architecture_is_one_pass(reader: Reader, server: Server) -> None:
    reader.open(**BUILT, seed="1", text="one pass for one change")
    before, passes = reader.heatmap, server.passes
    reader.page.locator(".st-key-norm input").click()
    reader.page.get_by_role("option", name="Pre-LN").click()
    reader.until_address(norm="pre")
    assert "Pre-LN" in reader.status
    assert reader.heatmap["z"] != before["z"]
    assert server.passes == passes + 1


@pytest.mark.parametrize(("name", "expected"), VIEWS.items())
def test_overview_and_choice_are_seen_whole_at_1280_x_800(
    reader: Reader, name: str, expected: tuple[str, list[str]]
) -> None:
    view, figures = expected
    reader.open(view=view)
    boxes = {figure: reader.figure(figure)["inside"] for figure in figures}
    if view == "attention":
        box = reader.canvas.bounding_box()
        assert box
        boxes["head"] = reader.heatmap["inside"]
        boxes["grid"] = [box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]]
    if view in ("layernorm", "residual"):
        key = {"layernorm": "norms", "residual": "stream_map"}[view]
        boxes[key] = reader.matrix(key)["inside"]
    if view == "shapes":
        box = reader.page.locator(".st-key-block svg").bounding_box()
        assert box
        boxes["block"] = [box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]]
    assert reader.page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop") == 0
    for figure, (left, top, right, bottom) in boxes.items():
        assert left >= 0, figure
        assert top >= 0, figure
        assert right <= 1280, figure
        assert math.floor(bottom) <= 800, figure
        assert right - left > 200, figure
        assert bottom - top > 200, figure


def test_the_figures_are_higher_in_a_higher_window(reader: Reader) -> None:
    reader.open(**BUILT)
    assert reader.heatmap["height"] == 430
    reader.page.set_viewport_size({"width": 1280, "height": 1000})
    reader.until(f"() => ({MATRIX})('head').getRootNode().host.clientHeight === 620")


HOSTILE = "<b>x a<br>b $x$ </script><script>alert(1)</script> :red[b] `c` *d* &lt; 2020-01"


@pytest.mark.parametrize("view", [view for view, _ in VIEWS.values()])
def test_hostile_words_are_shown_as_typed(reader: Reader, view: str) -> None:
    reader.open(**BUILT, text=f"{HOSTILE}\nsecond", view=view)
    typed = HOSTILE.replace(" ", "")
    assert "".join(reader.rows[0][1:-1]) == typed
    assert reader.text == f"{HOSTILE}\nsecond"
    reader.page.locator(".st-key-sentence input").click()
    options = reader.page.get_by_role("option").all_inner_texts()
    assert options == [f"1: {HOSTILE[:59]}…", "2: second"]
    assert reader.page.locator(".batch b, .batch script, .batch br").count() == 0
    assert reader.dialogs == []


def test_hostile_words_are_the_names_on_the_axes(reader: Reader) -> None:
    reader.open(**BUILT, text="<b>x a<br>b $x$ :red[b] &lt;")
    drawn = reader.heatmap
    tokens = reader.rows[0]
    assert drawn["y"] == drawn["x"] == tokens
    assert tokens[1:4] == ["<", "b", ">"]
    assert "$" in tokens
    assert len(drawn["z"]) == len(tokens)


def test_a_refusal_of_a_link_is_shown_as_typed(reader: Reader) -> None:
    reader.open(**BUILT, view="<img src=x onerror=alert(1)>", seed="**b** $x$")
    notes = reader.page.get_by_role("note").all_inner_texts()
    assert notes == [
        "The link asks for seed = **b** $x$, which is not possible here. 0 is used.",
        "The link asks for view = <img src=x onerror=alert…, which is not possible here. attention is used.",
    ]
    assert reader.dialogs == []


def test_a_table_is_downloaded_as_it_is_shown(reader: Reader) -> None:
    reader.open(**BUILT, text="=1+1")
    with reader.page.expect_download() as info:
        reader.page.get_by_role("button", name="This table as CSV").click()
    download = info.value
    assert download.suggested_filename == "encoder-explorer-attention-this-table.csv"
    table = pd.read_csv(download.path(), encoding="utf-8-sig", keep_default_na=False)
    assert table["token"].tolist() == ["[CLS]", "'=", "1", "'+", "1", "[SEP]"]
    assert set(table["layer"]) == set(table["head"]) == {1}
    assert table["strongest_weight"].tolist() == pytest.approx([max(row) for row in reader.heatmap["z"]], rel=1e-5)
    assert reader.hosts == {"127.0.0.1"}
