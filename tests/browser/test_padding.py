"""The padding view in a browser: seen whole, pointed at, clicked, and nothing runs that need not."""

import pytest

from tests.app.page import PARTS
from tests.browser.reader import Reader
from tests.browser.server import Server
from tests.browser.test_views import cell

pytestmark = pytest.mark.browser

LOW = {"mask_rows": 60, "mask_broadcast": 150}
"""Canvases that share a column with another are this high at least; all others 200."""


@pytest.mark.parametrize("part", PARTS["padding"])
def test_what_is_chosen_is_seen_whole_at_1280_x_800(reader: Reader, part: str) -> None:
    reader.open(view="padding", pad_show=part)
    for name in sorted(PARTS["padding"][part]):
        left, top, right, bottom = reader.matrix(name)["inside"]
        assert left >= 0, name
        assert top >= 0, name
        assert right <= 1280, name
        assert bottom < 801, name
        assert right - left > 200, name
        assert bottom - top > LOW.get(name, 200), name


def test_a_sentence_that_is_alone_on_the_page_is_run_twice_more_and_no_part_runs_again(
    reader: Reader, server: Server
) -> None:
    reader.open(text="Three ways of one sentence.")
    passes, page = server.passes, reader.page
    reader.view("Padding").until_address(view="padding")
    assert server.passes == passes + 2
    for name, key in (("Attention", "map_unmasked"), ("Mask", "mask_weights"), ("Batch", "own_map")):
        page.locator(".st-key-pad_show").get_by_role("radio", name=name).click()
        reader.drawn(key)
    assert server.passes == passes + 2


def test_the_two_differences_are_read_and_a_click_chooses_layer_and_token(reader: Reader, server: Server) -> None:
    reader.open(view="padding")
    passes = server.passes
    right = reader.tip("ways_unmasked", *cell(reader, "ways_unmasked", 1, 4).values())
    assert right.startswith("at L0 mid, ': differs from the sentence alone by ")
    assert float(right.rpartition(" ")[2]) > 0.01
    reader.tip("ways_masked", *cell(reader, "ways_masked", 0, 4).values())
    reader.page.locator(".st-key-ways_masked canvas").click(position=cell(reader, "ways_masked", 3, 5))
    reader.until_address(sel="1.1", point="mid", token="5")
    assert server.passes == passes


def test_a_padded_row_says_what_it_is(reader: Reader) -> None:
    reader.open(view="padding", pad_show="maps")
    assert reader.tip("map_masked", *cell(reader, "map_masked", 20, 3).values()) == "padding: not part of the text"
    assert reader.tip("map_unmasked", *cell(reader, "map_unmasked", 3, 20).values()).startswith(
        "query didn attends to key [PAD]: "
    )


def test_the_switch_shows_the_wrong_ways_without_a_pass(reader: Reader, server: Server) -> None:
    reader.open(view="padding", pad_show="mask")
    passes, page = server.passes, reader.page
    for name, hide in (("0 after softmax", "zero_after"), ("Score 0 before softmax", "zero_before")):
        page.locator(".st-key-hide input").click()
        page.get_by_role("option", name=name).click()
        reader.until_address(hide=hide).until_matrix("mask_weights", "After softmax: wrong")
    assert server.passes == passes


def test_twenty_sentences_and_each_of_their_maps(reader: Reader, server: Server) -> None:
    reader.open(view="padding", pad_show="batch")
    reader.page.get_by_role("button", name="Use 20 sentences of 1 to 20 words").click()
    reader.until_matrix("pad_batch", "The batch: 20 × 24 tokens")
    assert len(reader.rows) == 20
    assert reader.text.startswith("Listen.\nBirds sing.")
    passes = server.passes
    reader.page.locator(".st-key-pad_batch canvas").click(position=cell(reader, "pad_batch", 9, 2))
    reader.until_matrix("own_map", "Sentence 10 · L3 H1").until_address(sentence="9")
    assert len(reader.matrix("own_map")["x"]) == 14
    assert server.passes == passes
