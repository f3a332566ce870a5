"""The address is the page: a link shows the same picture elsewhere, and Back undoes."""

from collections.abc import Callable

import pytest

from tests.browser.reader import Reader
from tests.browser.server import Server

pytestmark = pytest.mark.browser

LINK = {
    "source": "built",
    "text": "one & two # + 100 %25 \U0001f44d\U0001f3fd\nsecond القطة",
    "layers": "3",
    "heads": "5",
    "d_model": "20",
    "d_ff": "9",
    "norm": "pre",
    "seed": "77",
    "pad_to": "12",
    "mask": "false",
    "sentence": "1",
    "sel": "0.0",
}


def state(reader: Reader) -> dict[str, object]:
    """All that a reader sees of the attention view."""
    return {
        "address": reader.address,
        "text": reader.text,
        "rows": reader.rows,
        "heatmap": {key: reader.heatmap[key] for key in ("title", "z", "x", "y", "mode", "scale")},
        "canvas": reader.pixels(),
        "chosen": reader.chosen,
        "controls": reader.page.get_by_test_id("stSidebar")
        .locator("input")
        .evaluate_all("(inputs) => inputs.map((input) => [input.value, input.checked])"),
        "encoder": reader.status.rsplit("CPU", 1)[0],
    }


def test_a_link_shows_the_same_in_a_new_browser(new_reader: Callable[..., Reader], server: Server) -> None:
    first = new_reader().open(**LINK)
    assert first.address == LINK
    assert first.text == LINK["text"]
    assert first.heatmap["title"] == "L0 H0"
    assert "(mask off)" in first.status
    assert "3 layers × 5 heads, Pre-LN" in first.status
    assert first.rows[1].count("[PAD]") == 12 - 4
    passes = server.passes
    second = new_reader().follow(first.page.url)
    assert state(second) == state(first)
    assert second.page.url == first.page.url
    assert server.passes == passes


def test_what_is_clicked_together_is_what_the_link_shows(new_reader: Callable[..., Reader]) -> None:
    first = new_reader().open(source="built", layers="2", heads="2", d_model="8")
    first.page.locator(".st-key-mask label").click()
    first.until_address(mask="false")
    first.type("a & b\n\U0001f468\u200d\U0001f469\u200d\U0001f467 # c = d")
    first.until_address(text="a & b\n\U0001f468\u200d\U0001f469\u200d\U0001f467 # c = d")
    first.page.keyboard.press("Escape")
    first.canvas.focus()
    first.page.keyboard.press("Home")
    first.until_head(1, 0).until_address(sel="1.0")
    second = new_reader().follow(first.page.url)
    assert state(second) == state(first)
    second.view("Residual stream").until_address(view="residual")
    third = new_reader().follow(second.page.url)
    assert third.matrix("stream_map")["z"] == second.matrix("stream_map")["z"]


def test_a_reload_changes_nothing(reader: Reader) -> None:
    reader.open(**LINK)
    before = state(reader)
    reader.page.reload()
    reader.settled()
    assert state(reader) == before


def test_back_undoes_and_forward_does_again(reader: Reader, server: Server) -> None:
    reader.open(text="to and fro")
    start = state(reader)
    reader.canvas.focus()
    reader.page.keyboard.press("ArrowRight")
    reader.until_head(3, 2).until_address(sel="3.2")
    reader.view("Shapes").until_address(view="shapes")
    passes = server.passes
    reader.page.go_back()
    reader.until_address(view=None, sel="3.2").until_head(3, 2)
    reader.page.go_back()
    reader.until_address(sel=None).until_head(3, 1)
    assert state(reader) == start
    reader.page.go_forward()
    reader.until_address(sel="3.2").until_head(3, 2)
    assert server.passes == passes


def test_back_brings_back_text_and_architecture(reader: Reader) -> None:
    reader.open(source="built", layers="2", heads="2", d_model="8", text="before")
    start = state(reader)
    reader.type("after that")
    reader.until_tokens(0, ["[CLS]", "after", "that", "[SEP]"]).until_address(text="after that")
    reader.page.locator(".st-key-heads input").click()
    reader.page.get_by_role("option", name="8", exact=True).click()
    reader.until_address(heads="8")
    reader.page.go_back()
    reader.until_address(heads="2").until("() => document.querySelector('.status').textContent.includes('2 heads')")
    assert reader.text == "after that"
    reader.page.go_back()
    reader.until_address(text="before").until_tokens(0, ["[CLS]", "before", "[SEP]"])
    assert state(reader) == start


def test_hostile_links_open_the_page_with_notes(reader: Reader) -> None:
    reader.open(heads="abc", layers="-1", mask="maybe", sel="9.9.9", seed="1e3", norm="")
    assert reader.page.get_by_role("note").count() == 6
    assert reader.heatmap["title"] == "L3 H1"
    assert reader.address == {}
