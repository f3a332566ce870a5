"""The views beside attention: each is looked into with mouse and keys, and nothing runs again."""

import numpy as np
import pytest

import explorer
from components.address import DEFAULT_TEXT
from components.theme import format_number
from tests.app.page import PARTS, SHOWN
from tests.browser.reader import Reader
from tests.browser.server import Server

pytestmark = pytest.mark.browser

CANVASES = {"norms", "layer_rows", "batch_rows", "stream_map", "followed", "picture", "sentences", "tensor"}
SMALL = {"source": "built", "layers": "2", "heads": "2", "d_model": "8", "d_ff": "16"}


@pytest.fixture(scope="module")
def run(minilm: explorer.Model) -> explorer.Run:
    return explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")))


def cell(reader: Reader, key: str, row: int, col: int) -> dict[str, float]:
    """Where the middle of a cell is, from the corner of the canvas."""
    geometry = reader.page.locator(f".st-key-{key} canvas").evaluate("(c) => ({...c.geometry})")
    return {
        "x": geometry["left"] + (col + 0.5) * geometry["px"],
        "y": geometry["top"] + (row + 0.5) * geometry["py"],
    }


def test_the_largest_variance_and_its_dimension_are_one_click_away(reader: Reader, server: Server) -> None:
    reader.open(view="layernorm", quantity="var_in")
    passes = server.passes
    drawn = reader.matrix("norms")
    values = np.array(drawn["z"])
    row, col = np.unravel_index(values.argmax(), values.shape)
    assert (drawn["y"][row], drawn["x"][col]) == ("L0 norm2", "[CLS]")
    assert "128" in reader.tip("norms", *cell(reader, "norms", row, col).values())
    reader.page.locator(".st-key-norms canvas").click(position=cell(reader, "norms", row, col))
    reader.until_address(token="0", sel="0.1", norm_show="token").until_figure("token_strips")
    assert reader.page.get_by_text("Dimensions with most of the variance: 99 (").is_visible()
    assert server.passes == passes


def test_a_cell_of_the_stream_opens_its_checkpoint(reader: Reader, server: Server, run: explorer.Run) -> None:
    reader.open(view="residual", stream_show="checkpoint")
    passes = server.passes
    reader.page.locator(".st-key-stream_map canvas").click(position=cell(reader, "stream_map", 3, 5))
    reader.until_address(sel="1.1", point="mid", token="5").until_matrix("picture", "The stream at L1 mid")
    drawn = reader.matrix("picture")
    np.testing.assert_allclose(drawn["z"], run.trace.resid("mid", 1)[0], atol=1e-6)
    tip = reader.tip("picture", *cell(reader, "picture", 5, 200).values())
    assert tip == f"in t, dimension 200: {format_number(float(run.trace.resid('mid', 1)[0, 5, 200]))}"
    assert server.passes == passes


def test_every_dimension_is_seen_at_once_and_reached_with_keys(reader: Reader) -> None:
    """384 of them are little more than a pixel wide each: no window, and the arrow keys still find each."""
    reader.open(view="residual", stream_show="token")
    geometry = reader.page.locator(".st-key-followed canvas").evaluate("(c) => ({...c.geometry})")
    assert geometry["overview"] is None
    assert geometry["shown"] == [0, 0, 13, 384]
    reader.page.locator(".st-key-followed canvas").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        reader.page.keyboard.press(key)
    assert "dimension 1:" in reader.page.locator(".st-key-followed .tip").inner_text()
    reader.page.keyboard.press("Enter")
    reader.until("() => /point=/.test(location.search) || /sel=/.test(location.search)")


@pytest.mark.parametrize("link", [{}, SMALL | {"norm": "pre"}], ids=["minilm", "built"])
def test_a_click_in_the_block_opens_the_tensor(reader: Reader, server: Server, link: dict[str, str]) -> None:
    reader.open(**link, view="shapes")
    passes, page = server.passes, reader.page
    block = page.locator(".st-key-block")
    last = reader.address.get("sel", "3.1" if not link else "1.1").split(".")
    block.locator("[data-site='attn.q'] .name").click()
    reader.until_matrix("tensor", f"L{last[0]} H{last[1]} attn.q").until_address(shape_show="tensor", site="attn.q")
    assert block.locator("[aria-pressed=true]").get_attribute("data-site") == "attn.q"
    block.locator("[data-site='ff_out']").focus()
    page.keyboard.press("Enter")
    reader.until_matrix("tensor", f"L{last[0]} ff_out").until_address(site="ff_out")
    assert block.locator("[data-site='ff_out']").evaluate("(n) => n.getRootNode().activeElement === n")
    block.locator("[data-site='token ids'] .name").click()
    reader.until_address(site="token_ids")
    assert "[CLS]" in page.locator(".st-key-token_ids").inner_text()
    assert server.passes == passes


def test_the_block_is_saved_as_a_picture(reader: Reader) -> None:
    reader.open(**SMALL, view="shapes")
    with reader.page.expect_download() as info:
        reader.page.locator(".st-key-block").get_by_role("button", name="Save picture").click()
    drawn = info.value.path().read_text(encoding="utf-8")
    assert info.value.suggested_filename == "encoder-explorer-block.svg"
    assert drawn.startswith("<svg")
    assert "Multi-head" in drawn
    assert "var(" not in drawn


@pytest.mark.parametrize(
    ("view", "part"), [(view, part) for view in ("layernorm", "residual", "shapes") for part in PARTS[view]]
)
def test_what_is_chosen_is_seen_whole_at_1280_x_800(reader: Reader, view: str, part: str) -> None:
    reader.open(view=view, **{SHOWN[view]: part})
    for name in sorted(PARTS[view][part]):
        if name in CANVASES:
            left, top, right, bottom = reader.matrix(name)["inside"]
        elif name == "block":
            box = reader.page.locator(".st-key-block svg").bounding_box()
            assert box
            left, top, right, bottom = box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]
        else:
            left, top, right, bottom = reader.until_figure(name).figure(name)["inside"]
        assert left >= 0, name
        assert top >= 0, name
        assert right <= 1280, name
        assert bottom < 801, name
        assert min(right - left, bottom - top) > 200, name


def test_a_teacher_switches_mistakes_on_and_off_without_a_pass(reader: Reader, server: Server) -> None:
    reader.open(view="layernorm", norm_show="mistakes", token="0", sel="0.1")
    passes, page = server.passes, reader.page
    page.locator(".st-key-mistake input").click()
    page.get_by_role("option", name="Sample std").click()
    reader.until_figure("token_strips").until_address(mistake="sample_std")
    page.locator(".st-key-mistake input").click()
    page.get_by_role("option", name="All mistakes compared").click()
    reader.until_figure("difference_bars").until_address(mistake=None)
    assert server.passes == passes
