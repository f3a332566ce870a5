"""Two runs in a real browser: kept, changed, looked into, swapped, and sent as one link."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.comparison import compare
from tests.browser.reader import Reader
from tests.browser.server import Server

pytestmark = pytest.mark.browser

SMALL = {"source": "built", "layers": "2", "heads": "2", "d_model": "8", "d_ff": "16"}
THREE = ("a", "b", "difference")


def press(reader: Reader, key: str) -> None:
    reader.page.locator(f".st-key-{key} button").first.click()


def maps(reader: Reader) -> list[np.ndarray]:
    """The numbers that the three maps of a head drew."""
    return [np.array(reader.matrix(f"head_{end}")["z"], dtype=np.float32) for end in THREE]


def labels(reader: Reader) -> list[str]:
    """What the three maps say of themselves."""
    found = [reader.page.locator(f".st-key-head_{end} canvas").get_attribute("aria-label") or "" for end in THREE]
    return [label.partition(":")[0] for label in found]


def until_heads(reader: Reader, name: str) -> Reader:
    for end, title in zip(THREE, ("A", "B", "B − A"), strict=True):
        reader.until_matrix(f"head_{end}", f"{title} · {name}")
    return reader


def seen(reader: Reader) -> dict[str, Any]:
    """All that a reader sees of two runs."""
    status = [line for line in reader.status.splitlines() if line]
    return {
        "address": reader.address,
        "status": [line for line in status if "CPU" not in line],
        "labels": labels(reader),
        "maps": [drawn.tolist() for drawn in maps(reader)],
        "moved": reader.matrix("moved")["z"],
    }


def test_a_run_is_kept_the_mask_switched_off_and_every_head_followed(reader: Reader, server: Server) -> None:
    reader.open(**SMALL, text="kept as A in a browser\nshort", sentence="1")
    passes = server.passes
    press(reader, "keep_a")
    until_heads(reader, "L1 H1")
    assert (maps(reader)[2] == 0).all()
    assert server.passes == passes
    reader.page.locator(".st-key-mask label").click()
    reader.until_address(mask="false")
    reader.until("() => [...document.querySelectorAll('.status')].some((n) => n.textContent.includes('mask off'))")
    assert server.passes == passes + 1

    model = explorer.build(explorer.EncoderConfig(n_layers=2, n_heads=2, d_model=8, d_ff=16))
    batch = model.batch(["kept as A in a browser", "short"])
    both = compare(explorer.run(model, batch), explorer.run(model, batch, use_mask=False), sentence_a=1, sentence_b=1)
    for drawn, values in zip(maps(reader), both.pattern(1, 1), strict=True):
        np.testing.assert_allclose(drawn, values, atol=1e-6)
    assert np.abs(maps(reader)[2]).max() > 1e-2
    assert labels(reader) == ["A · L1 H1", "B · L1 H1", "B − A · L1 H1"]

    moved = reader.page.locator(".st-key-moved canvas")
    geometry = moved.evaluate("(c) => ({...c.geometry})")
    moved.click(position={"x": geometry["left"] + 1.5 * geometry["px"], "y": geometry["top"] + 0.5 * geometry["py"]})
    until_heads(reader, "L0 H1").until_address(sel="0.1")
    for drawn, values in zip(maps(reader), both.pattern(0, 1), strict=True):
        np.testing.assert_allclose(drawn, values, atol=1e-6)
    moved.focus()
    for key in ("Home", "ArrowUp", "Enter"):
        reader.page.keyboard.press(key)
    until_heads(reader, "L0 H0").until_address(sel="0.0")
    assert server.passes == passes + 1


def test_swapped_reloaded_and_sent_to_somebody_else(new_reader: Callable[..., Reader], server: Server) -> None:
    reader = new_reader().open(**SMALL, text="swapped in a browser", seed="7")
    press(reader, "keep_a")
    until_heads(reader, "L1 H1")
    reader.page.locator(".st-key-norm input").click()
    reader.page.get_by_role("option", name="Pre-LN").click()
    reader.until_address(norm="pre")
    before, passes = maps(reader), server.passes
    assert np.abs(before[2]).max() > 1e-3
    press(reader, "swap")
    reader.until_address(norm=None)
    after = maps(reader)
    for drawn, values in zip(after, (before[1], before[0], -before[2]), strict=True):
        np.testing.assert_array_equal(drawn, values)
    here = seen(reader)
    reader.page.reload()
    reader.settled()
    until_heads(reader, "L1 H1")
    assert seen(reader) == here
    other = new_reader().follow(reader.page.url)
    until_heads(other, "L1 H1")
    assert seen(other) == here
    assert server.passes == passes
    reader.page.get_by_role("radio", name="A and B", exact=True).click()
    reader.until_address(view="compare").drawn("distance").drawn("moved")
    assert "norm placement: Pre-LN → Post-LN" in reader.page.locator("body").inner_text()
    press(reader, "forget_a")
    reader.until_address(a=None, view=None).until_head(1, 1)
    assert server.passes == passes
    reader.page.go_back()
    reader.until_address(view="compare").drawn("distance")


def test_the_pictures_of_two_runs_are_seen_whole_at_1280_x_800(reader: Reader) -> None:
    reader.open()
    press(reader, "keep_a")
    until_heads(reader, "L3 H1")
    reader.page.locator(".st-key-mask label").click()
    reader.until_address(mask="false")
    for end in THREE:
        left, top, right, bottom = reader.matrix(f"head_{end}")["inside"]
        assert left >= 0
        assert top >= 0
        assert right <= 1280
        assert bottom < 801
    assert reader.page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
