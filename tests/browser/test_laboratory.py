"""Experiments run in front of the reader while the page stays usable; and both placements stand side by side."""

import pytest

from tests.browser.reader import Reader
from tests.browser.server import Server

pytestmark = pytest.mark.browser

SMALL = {"source": "built", "layers": "2", "heads": "2", "d_model": "8", "d_ff": "16"}


def press(reader: Reader, key: str) -> None:
    reader.page.locator(f".st-key-{key} button").click()


def wait_for(reader: Reader, selector: str) -> None:
    reader.page.locator(selector).first.wait_for()


def test_gradients_grow_on_the_page_by_themselves(reader: Reader, server: Server) -> None:
    reader.open(**SMALL, view="laboratory")
    passes = server.passes
    press(reader, "lab_start")
    reader.page.get_by_text("10 of 10 steps").wait_for()
    wait_for(reader, ".st-key-lab_start")
    reader.until_figure("gradients_by_layer").until_figure("gradients_against_depth")
    assert "Pre-LN: slope −0." in reader.page.locator("body").inner_text()
    assert server.passes == passes


def test_an_encoder_is_trained_while_the_reader_looks_elsewhere_and_is_then_looked_into(reader: Reader) -> None:
    reader.open(**SMALL, view="laboratory", lab="learn")
    press(reader, "lab_start")
    reader.drawn("lab_map")
    press(reader, "lab_pause")
    wait_for(reader, ".st-key-lab_resume")
    press(reader, "lab_resume")
    wait_for(reader, ".st-key-lab_pause")
    reader.page.get_by_role("radio", name="Attention", exact=True).click()
    reader.until_head(1, 1)
    reader.canvas.focus()
    reader.page.keyboard.press("Home")
    reader.until_head(1, 0)
    reader.page.get_by_role("radio", name="Laboratory", exact=True).click()
    wait_for(reader, ".st-key-lab_keep")
    assert "after 250 steps" in reader.matrix("lab_map")["title"]
    with reader.page.expect_download() as info:
        press(reader, "lab_weights")
    assert info.value.suggested_filename == "encoder-explorer-reverse-250.safetensors"
    press(reader, "lab_keep")
    reader.until_tokens(0, ["[CLS]", "a", "b", "c", "d", "[SEP]"]).until_address(source="lab", view=None)
    assert "Trained in the laboratory" in reader.status
    reader.type("w x y z")
    reader.until_tokens(0, ["[CLS]", "w", "x", "y", "z", "[SEP]"])


@pytest.mark.parametrize("view", ["attention", "layernorm", "residual", "shapes", "proof"])
def test_one_click_shows_both_placements_and_no_other_costs_a_pass(reader: Reader, server: Server, view: str) -> None:
    reader.open(**SMALL, view=view, text=f"both placements of {view}")
    passes = server.passes
    reader.page.locator(".st-key-beside label").click()
    reader.until_address(beside="true")
    assert server.passes == passes + 1
    if view == "attention":
        assert reader.matrix("head_a")["title"] == "Post-LN · L1 H1"
        assert reader.matrix("head_b")["title"] == "Pre-LN · L1 H1"
        reader.page.locator(".st-key-moved canvas").focus()
        for key in ("Home", "ArrowUp", "Enter"):
            reader.page.keyboard.press(key)
        reader.until_matrix("head_b", "Pre-LN · L0 H0").until_matrix("head_a", "Post-LN · L0 H0")
        reader.until_matrix("head_difference", "Pre-LN − Post-LN · L0 H0")
    if view == "layernorm":
        norms = [reader.matrix(f"norms_{end}") for end in ("a", "b", "difference")]
        assert [drawn["y"] for drawn in norms] == [norms[0]["y"]] * 3
        assert norms[0]["y"][-1] == "final norm"
    if view == "residual":
        for end, title in {"a": "Post-LN", "b": "Pre-LN", "difference": "Pre-LN − Post-LN"}.items():
            reader.until_matrix(f"stream_{end}", title)
    if view == "shapes":
        reader.page.locator(".st-key-block_b [data-site='final_norm.out'] .name").wait_for()
        reader.page.locator(".st-key-block_a [data-site='attn_out'] .name").click()
        reader.until_matrix("tensor_b", "Pre-LN · L1 attn_out").until_matrix("tensor_a", "Post-LN · L1 attn_out")
    assert server.passes == passes + 1
    reader.page.locator(".st-key-beside label").click()
    reader.until_address(beside=None)
    assert server.passes == passes + 1
