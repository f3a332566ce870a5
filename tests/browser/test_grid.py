"""The layers x heads grid alone on a page: what its tooltip, its scores and its keyboard say."""

import base64
import inspect
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, expect

from components.theme import format_number
from tests.browser.reader import Reader
from tests.browser.server import ROOT, Server

pytestmark = pytest.mark.browser

TOKENS = ["query", "<b>x", "$x$", "مرحبا", "👨‍👩‍👧‍👦", "\u200b", "&lt;", "", "animal"]


def weights(layers: int, heads: int, length: int, pads: int) -> np.ndarray:
    """The same attention for the page and for the test that reads it: `[layer, head, query, key]`."""
    logits = 3 * np.random.default_rng(0).standard_normal((layers, heads, length, length), dtype=np.float32)
    logits[..., length - pads :] = -np.inf
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def page(tokens: list[str]) -> None:
    """One grid of the size in the address, and a button for each thing that may change around it."""
    import numpy as np
    import streamlit as st

    from components.attention_grid import GridScore, attention_grid, pack

    st.set_page_config(layout="wide")
    layers, heads, length, pads = (int(st.query_params[name]) for name in ("layers", "heads", "length", "pads"))
    pattern = weights(layers, heads, length, pads)
    padding = np.arange(length) >= length - pads
    names = (tokens * length)[:length] if "typed" in st.query_params else [f"t{i}" for i in range(length)]
    score, off = None, set()
    for name in ("Entropy (nats)", "Distance (tokens)", "Off"):
        if st.button(name):
            st.session_state["shown"] = name
    shown = st.session_state.get("shown")
    if shown == "Entropy (nats)":
        values = -(pattern * np.log(pattern.clip(1e-30))).sum(axis=-1).mean(axis=-1)
        values[-1, -1] = np.nan
        score = GridScore(shown, values, float(np.log(length)))
    elif shown == "Distance (tokens)":
        score = GridScore(shown, np.arange(layers * heads, dtype=float).reshape(layers, heads), layers * heads)
    elif shown == "Off":
        off = {(0, 0), (layers - 1, 1)}
    st.session_state["runs"] = st.session_state.get("runs", 0) + 1
    left, right = st.columns(2)
    with left:
        attention_grid(
            pack(pattern, tokens=names, query_padding=padding, key_padding=padding, masked=True),
            selected=st.session_state.get("head", (0, 1)),
            on_pick=lambda layer, head: st.session_state.update(head=(layer, head)),
            score=score,
            off=off,
            exact=lambda layer, head: pattern[layer, head],
        )
    layer, head = st.session_state.get("head", (0, 1))
    right.text(f"layer {layer}, head {head}, run {st.session_state['runs']}")


class GridServer(Server):
    """A server of the page above instead of the app."""

    def __init__(self, folder: Path) -> None:
        script = folder / "grid.py"
        parts = ["import numpy as np", inspect.getsource(weights), inspect.getsource(page), f"page({TOKENS!r})"]
        script.write_text("\n\n".join(parts), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        self._log = folder / "server.log"
        command = [sys.executable, "-m", "streamlit", "run", str(script)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, "--server.address", "127.0.0.1", "--server.port", str(port)],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            )


class Grid:
    """A reader of that page."""

    def __init__(self, browser: Browser, url: str, **context: Any) -> None:
        self.reader = Reader(browser, url, **context)
        self.page = self.reader.page
        self.received: list[int] = []  # bytes of each message from the server
        self.page.on(
            "websocket", lambda socket: socket.on("framereceived", lambda data: self.received.append(len(data)))
        )

    def open(self, layers: int, heads: int, length: int, pads: int = 0, *, typed: bool = False) -> "Grid":
        self.weights = weights(layers, heads, length, pads)
        link = f"?layers={layers}&heads={heads}&length={length}&pads={pads}" + ("&typed=1" if typed else "")
        self.page.goto(self.reader.base + link)
        self.page.get_by_text("run 1").wait_for()
        self.canvas.and_(self.page.locator("[data-painted]")).wait_for()
        return self.settled()

    def settled(self) -> "Grid":
        self.page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
        return self

    def show(self, name: str) -> "Grid":
        """Presses a button, and waits until the canvas has heard of it."""
        painted = self.painted
        self.page.get_by_role("button", name=name, exact=True).click()
        self.page.wait_for_function(
            """(painted) => [...document.querySelectorAll(".st-key-grid *")].some(
              (node) => Number(node.shadowRoot?.querySelector("canvas")?.dataset.painted) > painted)""",
            arg=painted,
        )
        return self.settled()

    def point(self, x: float, y: float) -> str:
        """Moves the mouse to a place on the canvas, in CSS pixels, and reads the tooltip as it is typed."""
        box = self.canvas.bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + x, box["y"] + y)
        return self.tip.text_content() or "" if self.tip.is_visible() else ""

    def sweep(self, step: int) -> list[str]:
        """What the tooltip says all over the canvas, at once: a mouse would take a minute."""
        return self.canvas.evaluate(
            """(canvas, step) => {
              const { left, top, right, bottom } = canvas.getBoundingClientRect();
              const tip = canvas.parentElement.querySelector(".tip");
              const said = [];
              for (let clientY = top + step / 2; clientY < bottom; clientY += step)
                for (let clientX = left + step / 2; clientX < right; clientX += step) {
                  canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
                  if (!tip.hidden) said.push(tip.textContent);
                }
              canvas.dispatchEvent(new PointerEvent("pointerleave"));
              return said;
            }""",
            step,
        )

    def truth(self, said: str) -> str:
        """What the tooltip must say of the cell it speaks of, by the weights."""
        layer, head, query, key = map(int, re.findall(r"^L(\d+) H(\d+)query t(\d+) attends to key t(\d+): ", said)[0])
        weight = format_number(float(self.weights[layer, head, query, key]))
        return f"L{layer} H{head}query t{query} attends to key t{key}: {weight}"

    @property
    def canvas(self) -> Locator:
        return self.page.locator(".st-key-grid canvas")

    @property
    def tip(self) -> Locator:
        return self.page.locator(".st-key-grid .tip")

    @property
    def label(self) -> str:
        return self.canvas.get_attribute("aria-label") or ""

    @property
    def painted(self) -> int:
        return int(self.canvas.get_attribute("data-painted") or 0)

    @property
    def runs(self) -> int:
        return int(re.findall(r"run (\d+)", self.page.get_by_text(re.compile(r"run \d+$")).inner_text())[0])

    def pixels(self) -> np.ndarray:
        """The painted canvas: `[y, x, rgba]`."""
        picture = self.canvas.evaluate("(canvas) => canvas.toDataURL()").partition(",")[2]
        return np.array(Image.open(BytesIO(base64.b64decode(picture))).convert("RGBA"))


@pytest.fixture(scope="module")
def grid_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridServer]:
    running = GridServer(tmp_path_factory.mktemp("grid"))
    try:
        running.wait()
        yield running
    finally:
        running.stop()
    assert "Traceback" not in running.log


@pytest.fixture
def new_grid(grid_server: GridServer, browser: Browser) -> Iterator[Callable[..., Grid]]:
    grids: list[Grid] = []

    def make(**context: Any) -> Grid:
        grids.append(Grid(browser, grid_server.url, **context))
        return grids[-1]

    yield make
    for grid in grids:
        grid.reader.close()


@pytest.fixture
def grid(new_grid: Callable[..., Grid]) -> Grid:
    return new_grid()


# ---- the tooltip


def test_the_tooltip_says_the_exact_weight_and_which_cells_are_padding(grid: Grid) -> None:
    said = grid.open(2, 3, 9, pads=2).sweep(5)
    weights_said = [text for text in said if "attends" in text]
    assert len(set(weights_said)) > 200
    for text in weights_said:
        assert text == grid.truth(text)
    rest = {text for text in said if "attends" not in text}
    tiles = {f"L{layer} H{head}" for layer in range(2) for head in range(3)}
    assert {f"{tile}padding" for tile in tiles} <= rest <= {f"{tile}padding" for tile in tiles} | tiles  # or the gap
    padded = {f"t{token}" for token in (7, 8)}
    assert not any(padded & set(re.findall(r"t\d", text)) for text in weights_said)


def test_tokens_stand_in_the_tooltip_as_typed(grid: Grid) -> None:
    grid.open(1, 1, len(TOKENS), typed=True)
    words = "|".join(map(re.escape, TOKENS))
    said = [
        re.fullmatch(f"L0 H0query ({words}) attends to key ({words}): [.×⁰¹²³⁴⁵⁶⁷⁸⁹⁻0-9]+", t) for t in grid.sweep(15)
    ]
    pairs = {(found[1], found[2]) for found in said if found}
    assert pairs == set(product(TOKENS, TOKENS))
    grid.point(200, 200)
    assert grid.tip.locator("b").all_text_contents() == ["L0 H0"]
    assert grid.reader.dialogs == []


def test_pointing_at_a_head_brings_its_exact_weights_and_nothing_else(grid: Grid) -> None:
    grid.open(6, 8, 64)
    before, label = grid.point(300, 200), grid.label
    assert re.search(r": ≈ 0(\.\d+)?$", before)
    painted, seen = grid.painted, len(grid.received)
    expect(grid.tip).not_to_contain_text("≈")
    after = grid.tip.text_content() or ""
    assert after == grid.truth(after)
    assert after.partition("query")[0] == before.partition("query")[0]
    assert (grid.settled().painted, grid.label, grid.runs) == (painted, label, 2)
    assert 64 * 64 * 4 < sum(grid.received[seen:]) < 64 * 64 * 4 + 20_000  # one head, and not the others again

    for x in (301, 303, 306):  # all weights of the tile are there now
        text = grid.point(x, 202)
        assert text == grid.truth(text)
    grid.page.wait_for_timeout(600)  # and nobody asks while nothing moves
    assert grid.runs == 2

    assert "≈" in grid.point(100, 60)
    expect(grid.tip).not_to_contain_text("≈")
    assert grid.point(100, 60) == grid.truth(grid.point(100, 60))
    assert "≈" not in grid.point(300, 200)  # kept
    assert (grid.settled().runs, grid.label) == (3, label)


def test_a_pointer_that_passes_by_asks_for_nothing(grid: Grid) -> None:
    grid.open(6, 8, 64)
    box = grid.canvas.bounding_box()
    assert box is not None
    grid.page.mouse.move(box["x"] + 60, box["y"] + 200)
    grid.page.mouse.move(box["x"] + 300, box["y"] + 200, steps=7)
    grid.page.mouse.move(1200, 700)
    grid.page.wait_for_timeout(500)
    assert grid.runs == 1


def test_cells_that_hold_several_tokens_have_no_exact_weight(grid: Grid) -> None:
    grid.open(6, 8, 128)
    said = [text for text in grid.sweep(9) if "quer" in text]
    assert len(said) > 500
    assert all(re.search(r"queries \d+–\d+, keys \d+–\d+: strongest ≈ 0", text) for text in said)
    grid.point(300, 200)
    grid.page.wait_for_timeout(500)
    assert grid.runs == 1


# ---- the keyboard


def test_keys_choose_a_head_and_the_server_follows(grid: Grid) -> None:
    grid.open(3, 4, 6)
    grid.canvas.focus()
    for key, layer, head in (
        ("ArrowDown", 1, 1),
        ("End", 1, 3),
        ("Home", 1, 0),
        ("Control+End", 2, 3),
        ("ArrowRight", 2, 3),
        ("Control+Home", 0, 0),
    ):
        grid.page.keyboard.press(key)
        assert f"Layer {layer}, head {head} selected." in grid.label
        grid.page.get_by_text(f"layer {layer}, head {head},").wait_for()
    assert grid.page.locator(".st-key-grid .live").text_content() == "Layer 0, head 0"
    assert "Layer 0, head 0 selected. Arrow keys" in grid.settled().label


# ---- scores


def test_a_score_is_drawn_over_the_tiles_without_a_new_payload(grid: Grid) -> None:
    grid.open(6, 8, 64)
    bare, note = grid.pixels(), grid.page.locator(".st-key-grid .caption")
    assert "numbers" not in note.inner_text()
    seen = len(grid.received)
    entropy = grid.show("Entropy (nats)").pixels()
    assert note.inner_text().endswith("numbers: Entropy (nats); beside L and H: means")
    distance = grid.show("Distance (tokens)").pixels()
    assert note.inner_text().endswith("numbers: Distance (tokens); beside L and H: means")
    assert bare.shape != entropy.shape  # the names have grown
    assert (entropy != distance).any()
    assert sum(grid.received[seen:]) < 100_000 < 6 * 8 * 64 * 64
    assert "Layer 0, head 1 selected. Distance (tokens) 1. Arrow" in grid.label
    assert (grid.show("Off").show("Distance (tokens)").pixels() == distance).all()


def test_a_score_is_said_in_the_tooltip_and_after_a_move(grid: Grid) -> None:
    grid.open(2, 3, 9).show("Entropy (nats)")
    entropy = -(grid.weights * np.log(grid.weights)).sum(axis=-1).mean(axis=-1)
    titles = {text.partition("query")[0] for text in grid.sweep(40)}
    expected = {
        f"L{layer} H{head} · Entropy (nats) {format_number(float(entropy[layer, head]))}"
        for layer, head in np.ndindex(2, 3)
        if (layer, head) != (1, 2)
    }
    assert titles == expected | {"L1 H2 · Entropy (nats) –"}
    grid.canvas.focus()
    grid.page.keyboard.press("ArrowDown")
    live = grid.page.locator(".st-key-grid .live").text_content()
    assert live == f"Layer 1, head 1, Entropy (nats) {entropy[1, 1]:.2g}".replace(" 0.", " .")
    assert f"selected. Entropy (nats) {format_number(float(entropy[1, 1]))}. Arrow" in grid.label
    grid.page.get_by_text("layer 1, head 1,").wait_for()


def test_heads_that_are_off_are_faint_and_said_to_be_off(grid: Grid) -> None:
    grid.open(2, 3, 9)
    before = grid.pixels().astype(int)
    after = grid.show("Off").pixels().astype(int)
    changed = (before != after).any(axis=-1)
    assert 0.25 < changed.mean() < 0.4  # two tiles of six
    titles = {text.partition("query")[0] for text in grid.sweep(40)}
    assert {title for title in titles if "switched off" in title} == {"L0 H0 · switched off", "L1 H1 · switched off"}
    assert len(titles) == 6


@pytest.mark.parametrize(("layers", "heads", "length"), [(24, 16, 20), (40, 64, 4), (1, 1, 1)])
def test_any_architecture_can_carry_a_score(grid: Grid, layers: int, heads: int, length: int) -> None:
    grid.open(layers, heads, length).show("Distance (tokens)")
    assert "Distance (tokens) 1. Arrow" in grid.label or (layers, heads) == (1, 1)
    box, frame = grid.canvas.bounding_box(), grid.page.locator(".st-key-grid .box").bounding_box()
    assert box is not None
    assert frame is not None
    assert box["width"] <= frame["width"]
    assert box["y"] + box["height"] <= frame["y"] + frame["height"]


# ---- colours


def test_light_and_dark_differ_and_paper_is_white_in_both(new_grid: Callable[..., Grid]) -> None:
    screens, papers = [], []
    for scheme in ("light", "dark"):
        grid = new_grid(color_scheme=scheme).open(2, 3, 9).show("Entropy (nats)")
        screens.append(grid.pixels())
        painted = grid.painted
        grid.page.emulate_media(media="print", color_scheme=scheme)
        grid.page.wait_for_function(
            """(painted) => [...document.querySelectorAll(".st-key-grid *")].some(
              (node) => Number(node.shadowRoot?.querySelector("canvas")?.dataset.painted) > painted)""",
            arg=painted,
        )
        papers.append(grid.pixels())
        assert (papers[-1][0, 0] == 255).all()
        assert papers[-1][..., :3].mean() > 180
        assert papers[-1][..., :3].min() < 60  # and the ink is dark
    light, dark = screens
    assert (light != dark).any(axis=-1).mean() > 0.5
    differing = (papers[0] != papers[1]).any(axis=-1).mean()
    assert differing < 0.05  # but for the frame in the accent of the theme
