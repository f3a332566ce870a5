"""A head as map and as lines on the page: what is drawn, what the pointer and the keys are told, what is saved."""

import base64
import math
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

import explorer
from components.address import DEFAULT_TEXT
from components.labels import visible
from components.panels.attention import MODES
from components.theme import DARK, LIGHT, format_number
from tests.browser.reader import MATRIX, Reader
from tests.browser.server import ROOT, Server
from tests.inputs import words

pytestmark = pytest.mark.browser

BUILT = {"source": "built", "layers": "2", "heads": "2", "d_model": "8", "d_ff": "16"}
LONG = {"text": words(2000)}
FAMILY = "👨‍👩‍👧‍👦"

# Keeps what each canvas wrote and which lines it drew since it was last cleared, in device pixels.
RECORDER = """
  const pen = CanvasRenderingContext2D.prototype;
  const { clearRect, fillText, moveTo, lineTo } = pen;
  const place = (context, x, y) => {
    const at = context.getTransform().transformPoint(new DOMPoint(x, y));
    return [at.x, at.y];
  };
  pen.clearRect = function (...box) {
    [this.canvas.written, this.canvas.lines] = [[], []];
    return clearRect.apply(this, box);
  };
  pen.fillText = function (text, x, y) {
    const { font, textAlign: align } = this;
    const [width, turned] = [this.measureText(text).width, this.getTransform().b !== 0];
    (this.canvas.written ??= []).push({ text, at: place(this, x, y), font, width, turned, align });
    return fillText.call(this, text, x, y);
  };
  pen.moveTo = function (x, y) {
    this.canvas.from = place(this, x, y);
    return moveTo.call(this, x, y);
  };
  pen.lineTo = function (x, y) {
    (this.canvas.lines ??= []).push([this.canvas.from, place(this, x, y)]);
    return lineTo.call(this, x, y);
  };
"""


class Matrix:
    """One matrix canvas in front of a reader."""

    def __init__(self, reader: Reader, key: str = "head") -> None:
        self.reader, self.page, self.key = reader, reader.page, key
        self.canvas = self.page.locator(f".st-key-{key} canvas[data-painted]")

    def ask(self, body: str, argument: Any = None) -> Any:
        """What a function of the canvas and an argument returns in the page."""
        self.canvas.wait_for()  # the page is settled once one of its canvases is there
        return self.page.evaluate(f"([key, argument]) => (({body}))(({MATRIX})(key), argument)", [self.key, argument])

    # What is drawn

    @property
    def geometry(self) -> dict[str, Any]:
        return self.ask("({ geometry }) => ({ ...geometry, lines: geometry.lines?.length })")

    @property
    def values(self) -> np.ndarray:
        self.canvas.wait_for()
        return np.array(self.reader.matrix(self.key)["z"])

    @property
    def painted(self) -> int:
        return int(self.canvas.get_attribute("data-painted") or 0)

    @property
    def label(self) -> str:
        return self.canvas.get_attribute("aria-label") or ""

    @property
    def caption(self) -> str:
        return self.page.locator(f".st-key-{self.key} .caption span").inner_text()

    @property
    def written(self) -> list[dict[str, Any]]:
        return self.ask("({ written }) => written")

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The names written beside the rows, from the top, and above or beside the columns, from the left or top."""
        geometry, lines = self.geometry, self.canvas.get_attribute("data-mode") == "lines"
        rows, cols = [], []
        for text in self.written:
            x, y = text["at"]
            if lines:
                if y > geometry["top"]:
                    side = rows if text["align"] == "right" else cols
                    side.append((y, text["text"]))
            elif y > geometry["top"] and x < geometry["left"]:
                rows.append((y, text["text"]))
            elif text["turned"] or geometry["level"]:
                cols.append((x, text["text"]))
        return [name for _, name in sorted(rows)], [name for _, name in sorted(cols)]

    @property
    def lines(self) -> list[list[list[float]]]:
        return self.ask("({ lines }) => lines")

    def pixels(self) -> np.ndarray:
        """The painted canvas: `[y, x, rgba]`."""
        picture = self.ask("(canvas) => canvas.toDataURL()").partition(",")[2]
        return np.array(Image.open(BytesIO(base64.b64decode(picture))).convert("RGBA"))

    def colours(self) -> np.ndarray:
        """The colour in each cell: `[row, col, rgb]`, off the middle, where a frame may run."""
        geometry, pixels = self.geometry, self.pixels()
        _, _, n, m = geometry["shown"]
        x = geometry["left"] + (np.arange(m) + 0.35) * geometry["px"]
        y = geometry["top"] + (np.arange(n) + 0.35) * geometry["py"]
        return pixels[np.ix_(y.astype(int), x.astype(int))][..., :3]

    # What the reader does

    def spot(self, row: float | None, col: float | None) -> dict[str, float]:
        """The middle of a cell, or of a name, in CSS pixels from the corner of the canvas."""
        geometry = self.geometry
        if self.canvas.get_attribute("data-mode") == "lines":
            side = 0 if col is None else 1
            number = row if col is None else col
            return {
                "x": geometry["x"][side] + [-12, 12][side],
                "y": geometry["top"] + (number + 0.5) * geometry["pitch"][side],
            }
        first_row, first_col, _, _ = geometry["shown"]
        x = geometry["left"] - 12 if col is None else geometry["left"] + (col - first_col + 0.5) * geometry["px"]
        y = geometry["top"] - 12 if row is None else geometry["top"] + (row - first_row + 0.5) * geometry["py"]
        return {"x": x, "y": y}

    def point(self, row: int | None, col: int | None) -> str:
        """Moves the mouse to a cell or a name, and reads the hover."""
        return self.reader.tip(self.key, **self.spot(row, col))

    def leave(self) -> None:
        self.page.mouse.move(2, 2)

    def sweep(self) -> list[str]:
        """What the hover says of every cell that is shown, row by row: a mouse would take a minute."""
        return self.ask("""(canvas) => {
          const { left, top, px, py, shown: [, , n, m] } = canvas.geometry;
          const box = canvas.getBoundingClientRect();
          const tip = canvas.parentElement.querySelector(".tip");
          const said = [];
          for (let row = 0; row < n; row++)
            for (let col = 0; col < m; col++) {
              const [clientX, clientY] = [box.left + left + (col + 0.5) * px, box.top + top + (row + 0.5) * py];
              canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
              said.push(tip.hidden ? "" : tip.textContent);
            }
          canvas.dispatchEvent(new PointerEvent("pointerleave"));
          return said;
        }""")

    def press(self, *keys: str) -> str:
        """Presses keys on the canvas, and returns what a screen reader says then."""
        self.canvas.focus()
        for key in keys:
            self.page.keyboard.press(key)
        return self.page.locator(f".st-key-{self.key} .live").inner_text()

    def tip(self) -> str:
        tip = self.page.locator(f".st-key-{self.key} .tip")
        return tip.inner_text() if tip.is_visible() else ""

    def until_painted(self, more_than: int) -> None:
        self.page.wait_for_function(
            f"([key, n]) => Number(({MATRIX})(key).dataset.painted) > n", arg=[self.key, more_than]
        )


class Tab:
    """One tab for all tests: a page takes seconds to load and a tenth of that to change."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.link: dict[str, str] | None = None
        self.scheme = "light"
        reader.page.add_init_script(RECORDER)

    def __call__(self, key: str = "head", *, scheme: str = "light", anew: bool = False, **link: str) -> Matrix:
        """Has a link open, and no pointer on the canvas. `anew`: as nobody has touched it."""
        matrix = Matrix(self.reader, key)
        before = self.link
        link = {name: value for name, value in link.items() if (name, value) != ("show", "map")}  # no link says it
        if anew or before is None or {name for name, _ in link.items() ^ before.items()} - {"text", "show"}:
            self.reader.open(**link)
        else:
            if link.get("text") != before.get("text"):
                self.reader.type(link.get("text", DEFAULT_TEXT))
                self.reader.until_address(text=link.get("text"))
            if link.get("show") != before.get("show"):
                mode = MODES[link.get("show", "map")]
                self.reader.page.get_by_role("radio", name=mode, exact=True).click()
                self.reader.until_address(show=link.get("show"))
        if scheme != self.scheme:
            painted = matrix.painted
            self.reader.page.emulate_media(color_scheme=scheme)
            matrix.until_painted(painted)
            self.reader.settled()
        self.link, self.scheme = None if anew else link, scheme
        self.reader.page.mouse.move(2, 2)
        return matrix


@pytest.fixture(scope="module")
def opened(server: Server, browser: Browser) -> Iterator[Tab]:
    tab = Tab(Reader(browser, server.url))
    yield tab
    tab.reader.close()


def built(text: str, **link: str) -> dict[str, str]:
    return BUILT | {"text": text} | link


def said_of(tokens: list[str], weights: np.ndarray) -> list[str]:
    """What the hover must say of each cell."""
    return [
        f"query {query} attends to key {key}: {format_number(float(weights[i, j]))}"
        for i, query in enumerate(tokens)
        for j, key in enumerate(tokens)
    ]


# ---- hover


def test_the_hover_of_every_cell_says_the_weight_of_the_engine(opened: Tab, minilm: explorer.Model) -> None:
    head = opened()
    run = explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")))
    tokens, weights = run.batch.tokens[0], run.trace.pattern(3)[0, 1]
    wanted = said_of(tokens, weights)
    assert head.sweep() == wanted
    query, key = tokens.index("it"), tokens.index("animal")
    assert head.point(query, key) == wanted[query * len(tokens) + key]
    assert re.fullmatch(r"query it attends to key animal: 0\.\d+", head.tip())


def test_the_crosshair_lights_both_tokens_and_goes_with_the_pointer(opened: Tab) -> None:
    head = opened()
    before, geometry = head.pixels(), head.geometry
    head.point(6, 2)
    during = head.pixels()
    x, y = (int(v) for v in head.spot(6, 2).values())
    changed = (before != during).any(axis=-1)
    half = int(geometry["py"] / 2) - 3
    assert changed[y - half : y + half, : int(geometry["left"]) - 5].mean() > 0.2  # the name of the query
    assert changed[: int(geometry["top"]) - 4, x - half : x + half].mean() > 0.1  # of the key
    assert not changed[: int(geometry["top"]) - 4, : int(geometry["left"])].any()
    bold = {text["text"] for text in head.written if "bold" in text["font"]}
    assert {head.reader.rows[0][6], head.reader.rows[0][2]} <= bold
    head.leave()
    np.testing.assert_array_equal(head.pixels(), before)


def test_a_name_tells_its_three_strongest_partners(opened: Tab) -> None:
    head = opened()
    tokens, weights = head.reader.rows[0], head.values
    for row, col in ((4, None), (None, 3)):
        strengths = weights[row] if col is None else weights[:, col]
        best = np.argsort(-strengths, kind="stable")[:3]
        cells = [(row, int(i)) if col is None else (int(i), col) for i in best]
        wanted = [f"query {tokens[i]} attends to key {tokens[j]}: {format_number(weights[i, j])}" for i, j in cells]
        assert head.point(row, col).splitlines() == wanted


def test_nothing_is_painted_while_the_pointer_rests_or_moves_within_a_cell(opened: Tab) -> None:
    head = opened()
    head.point(5, 5)
    painted = head.painted
    spot = head.spot(5, 5)
    for shift in (1, 2, 3):
        head.reader.tip("head", spot["x"] + shift, spot["y"] + shift)
    head.ask("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert head.painted == painted


# ---- numbers


def test_the_number_format_of_the_canvas_is_that_of_the_page(opened: Tab) -> None:
    rng = np.random.default_rng(0)
    values = [
        *(0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -1e-300, 1e21, 123456789.5),
        *(0.00012345, 0.0001, 9.9995e-5, 0.000099999, 0.00009999, 999.95, 999.949, 999.96, 1e7, 9999999.5, 9999999.4),
        *(1000.5, 1001.5, 1002.5, -1000.5, 12345.5, 0.5, 1.0, 10.0, 100.0, 1000.0, 0.001, 2.675, 1.0005, 0.12345),
        *(k / 2**n for n in range(1, 17) for k in (1, 3, 5)),  # halves that a double holds exactly, such as 1/64
        *(k + 0.125 for k in range(10, 30)),  # four digits end in a half: 10.125
        *(-(k + 0.0625) for k in range(1, 9)),
        *(rng.standard_normal(100) * 10.0 ** rng.integers(-12, 12, 100)),
        *np.float32(rng.random(60)).astype(float),
        *np.float32(1 / np.arange(1, 60)).astype(float),
    ]
    assert len(values) > 300
    source = (ROOT / "components/canvas/canvas.js").read_text(encoding="utf-8")
    shown = opened().page.evaluate(f"(values) => {{ {source}; return values.map(formatNumber); }}", values)
    assert shown == [format_number(float(value)) for value in values]
    assert shown[values.index(1 / 64)] == "0.01562"


# ---- lines


def test_lines_leave_out_the_faint_and_say_so(opened: Tab) -> None:
    head = opened(show="lines")
    weights = head.values
    drawn = int((weights > 0.02).sum())
    assert len(head.lines) == head.geometry["lines"] == drawn < weights.size
    assert f"the strongest {drawn} of {weights.size} lines" in head.caption
    assert head.names == (head.reader.rows[0], head.reader.rows[0])


@pytest.mark.parametrize("side", ["query", "key"])
def test_a_token_shows_only_its_lines_and_the_numbers_at_their_ends(opened: Tab, side: str) -> None:
    head = opened(show="lines")
    tokens, weights, geometry = head.reader.rows[0], head.values, head.geometry
    number = tokens.index("it")
    head.point(*((number, None) if side == "query" else (None, number)))
    own = weights[number] if side == "query" else weights[:, number]
    end = 0 if side == "query" else 1
    assert len(head.lines) == (own > 0).sum() == len(tokens)
    assert {round(line[end][1]) for line in head.lines} == {round(head.spot(number, None)["y"])}
    assert {tuple(round(line[i][0]) for i in (0, 1)) for line in head.lines} == {tuple(round(x) for x in geometry["x"])}
    numbers = {text["text"] for text in head.written} & {format_number(weight) for weight in own}
    assert numbers == {format_number(weight) for weight in own if weight >= 1e-4}
    best = int(own.argmax())
    link = (number, best) if side == "query" else (best, number)
    wanted = f"query {tokens[link[0]]} attends to key {tokens[link[1]]}: {format_number(weights[link])}"
    assert head.tip().splitlines()[0] == wanted
    tip = head.page.locator(".st-key-head .tip").bounding_box()
    box = head.canvas.bounding_box()
    assert tip
    assert box
    if side == "query":  # the hover does not hide what the lines lead to
        assert tip["x"] + tip["width"] <= box["x"] + geometry["x"][1] + 1
    else:
        assert tip["x"] >= box["x"] + geometry["x"][0] - 1
    head.leave()
    assert len(head.lines) == geometry["lines"]


def test_texts_beside_lines_neither_touch_nor_leave_the_canvas(opened: Tab) -> None:
    head = opened(show="lines", text=words(20))
    width = head.canvas.bounding_box()["width"]
    for place in ((12, None), (None, 0), (None, 1), (40, None)):
        head.point(*place)
        sides: dict[str, list[tuple[float, float, float]]] = {"right": [], "left": []}
        for text in head.written:
            x, y = text["at"]
            start = x - text["width"] if text["align"] == "right" else x
            assert start >= 0, text
            assert start + text["width"] <= width, text
            sides[text["align"]].append((y, start, start + text["width"]))
        for boxes in sides.values():
            for (y0, a0, b0), (y1, a1, b1) in zip(sorted(boxes), sorted(boxes)[1:], strict=False):
                assert y1 - y0 >= 12 or a1 > b0 + 4 or a0 > b1 + 4


def test_512_tokens_as_lines_name_what_has_room_and_reach_every_token_by_key(opened: Tab) -> None:
    head = opened(show="lines", **LONG)
    assert len(head.lines) == 3000
    assert "the strongest 3,000 of 262,144 lines" in head.caption
    step = int(re.findall(r"every (\d+)\w\w named", head.caption)[0])
    rows, _ = head.names
    assert 512 // step - 3 <= len(rows) <= 512 // step + 1
    said = head.press("End")
    assert said.startswith("query [SEP] attends to key ")
    said = head.press("ArrowUp", "ArrowUp")
    assert said.startswith(f"query {head.reader.matrix('head')['y'][509]} attends to key ")
    assert len(head.lines) == 512
    head.press("Escape")


# ---- keyboard


def test_arrow_keys_home_end_and_escape_move_through_the_map(opened: Tab) -> None:
    head = opened(**built("one two three four", token="1"), anew=True)
    tokens = head.reader.rows[0]
    wanted = said_of(tokens, head.values)
    last = len(tokens) - 1
    for key, row, col in (
        ("ArrowDown", 1, 0),  # it starts at the chosen token
        ("ArrowDown", 2, 0),
        ("ArrowRight", 2, 1),
        ("End", 2, last),
        ("ArrowRight", 2, last),
        ("ArrowUp", 1, last),
        ("ArrowUp", 0, last),
        ("ArrowUp", 0, last),
        ("Home", 0, 0),
        ("ArrowLeft", 0, 0),
    ):
        said = head.press(key)
        assert said == wanted[row * len(tokens) + col]
        assert head.tip() == said
    tip = head.page.locator(".st-key-head .tip").bounding_box()
    box = head.canvas.bounding_box()
    assert tip
    assert box
    spot = head.spot(0, 0)
    assert abs(tip["x"] - box["x"] - spot["x"]) < 80  # beside its cell
    head.press("Escape")
    assert head.tip() == ""
    assert [text["text"] for text in head.written if "bold" in text["font"]] == [tokens[1]]  # the chosen one


def test_arrow_keys_move_along_both_sides_of_the_lines(opened: Tab) -> None:
    head = opened(**built("one two three four", show="lines"))
    tokens = head.reader.rows[0]
    for key, side, number in (
        ("Home", "query", 0),
        ("ArrowDown", "query", 1),
        ("ArrowRight", "key", 1),
        ("ArrowDown", "key", 2),
        ("End", "key", 5),
        ("ArrowDown", "key", 5),
        ("Home", "key", 0),
        ("ArrowUp", "key", 0),
        ("ArrowLeft", "query", 0),
    ):
        said = head.press(key)
        pattern = {"query": f"query {re.escape(tokens[number])} ", "key": f"key {re.escape(tokens[number])}: "}[side]
        assert len(re.findall(pattern, said)) == 3
        assert len(head.lines) == 6
    head.press("Escape")
    assert head.tip() == ""


@pytest.mark.parametrize("show", ["map", "lines"])
def test_enter_and_click_choose_the_token_without_a_pass(opened: Tab, server: Server, show: str) -> None:
    head = opened(**built("one two three four", show=show, token="1"), anew=True)
    reader, passes = head.reader, server.passes
    head.press("ArrowDown", "Enter")  # into the map at the chosen token; from the chosen token down the lines
    number = {"map": 1, "lines": 2}[show]
    if show == "map":
        head.press("ArrowDown", "Enter")
        number = 2
    reader.until_address(token=str(number))
    head.canvas.click(position=head.spot(4, None))
    reader.until_address(token="4")
    head.leave()
    bold = [text["text"] for text in head.written if "bold" in text["font"]]
    assert reader.rows[0][4] in bold
    head.canvas.click(position=head.spot(None, 0))  # the name of a key
    reader.until_address(token="0")
    if show == "map":
        head.canvas.click(position=head.spot(3, 1))  # the query of a cell
        reader.until_address(token="3")
    assert server.passes == passes


# ---- a window on 512 tokens


def test_the_window_on_512_tokens_has_its_own_names_and_exact_weights(opened: Tab, minilm: explorer.Model) -> None:
    head = opened(**LONG)
    run = explorer.run(minilm, minilm.batch([words(2000)]))
    weights = run.trace.pattern(3)[0, 1]
    tokens = run.batch.tokens[0]
    assert weights.shape == (512, 512)
    geometry = head.geometry
    first_row, first_col, n, m = geometry["shown"]
    assert geometry["overview"]
    assert min(n, m) >= 15
    assert geometry["px"] == geometry["py"] >= 15  # names have room
    assert f"{n} × {m} of 512 × 512: drag the frame" in head.caption
    assert head.names == (tokens[first_row : first_row + n], tokens[first_col : first_col + m])
    box = geometry["overview"]
    head.canvas.click(position={"x": box["x"] + 0.6 * box["width"], "y": box["y"] + 0.25 * box["height"]})
    row, col, _, _ = head.geometry["shown"]
    assert abs(row + n / 2 - 0.25 * 512) <= 4
    assert abs(col + m / 2 - 0.6 * 512) <= 4
    assert head.names == (tokens[row : row + n], tokens[col : col + m])
    cells = [(i, j) for i in range(row, row + n) for j in range(col, col + m)]
    wanted = [f"query {tokens[i]} attends to key {tokens[j]}: {format_number(float(weights[i, j]))}" for i, j in cells]
    assert head.sweep() == wanted


def test_dragging_moves_the_window_and_never_chooses(opened: Tab, server: Server) -> None:
    head = opened(**LONG, token="4", anew=True)
    reader, page, passes = head.reader, head.page, server.passes
    geometry, canvas = head.geometry, head.canvas.bounding_box()
    box = geometry["overview"]
    n, m = geometry["shown"][2:]

    def move(x: float, y: float) -> None:
        page.mouse.move(canvas["x"] + box["x"] + x * box["width"], canvas["y"] + box["y"] + y * box["height"])

    move(0.02, 0.02)
    page.mouse.down()
    for share in (0.3, 0.5):
        move(share, share)
        row, col, _, _ = head.geometry["shown"]
        assert abs(row + n / 2 - share * 512) <= 4
        assert abs(col + m / 2 - share * 512) <= 4
    move(3, 3)  # outside, and even outside the canvas: as far as it goes
    assert head.geometry["shown"] == [512 - n, 512 - m, n, m]
    move(-1, 0.5)  # let go above a cell
    page.mouse.up()
    assert head.geometry["shown"][1] == 0
    assert reader.address.get("token") == "4"
    row = head.geometry["shown"][0]
    page.mouse.move(canvas["x"] + 2, canvas["y"] + canvas["height"] - 2)
    assert head.geometry["shown"][0] == row  # no button, no drag

    # Another head leaves the window where it is.
    reader.canvas.focus()
    page.keyboard.press("ArrowRight")
    reader.until_head(3, 2)
    assert head.geometry["shown"] == [row, 0, n, m]

    # Keys move it along; it holds what they point at.
    head.press("ArrowDown", "End")
    shown = head.geometry["shown"]
    assert shown[1] == 512 - m
    said = head.press("ArrowLeft", *["ArrowDown"] * 3)
    at = head.ask("(canvas) => canvas.geometry.shown")
    assert at[1] == 512 - m
    assert said.startswith("query ")
    assert reader.address.get("token") == "4"
    assert server.passes == passes


def test_a_token_chosen_elsewhere_is_in_the_window(opened: Tab) -> None:
    head = opened(**LONG, token="400", anew=True)
    row, col, n, m = head.geometry["shown"]
    assert row <= 400 < row + n
    assert col <= 400 < col + m
    head = Matrix(head.reader, "looks")
    head.reader.open(**LONG, token="400", show="token", sel="5.11")
    row, _, n, _ = head.geometry["shown"]
    assert row <= 71 < row + n
    overview = head.geometry["overview"]
    assert overview["height"] >= 200  # heads are fewer than tokens, and still to be told apart


# ---- cases: names as they are


CASES = {
    "equal tokens": "the cat the",
    "numbers and dates": "1 2 10 In 2020 we 2021 2020-01 2020-02 May",
    "tags": "<s> </s> <b>bold a<br>b &lt;",
    "formulas": "costs $5 or $6 $x$ =1+1 ../../x [PAD]",
    "marks": ":red[b] :smile: `x` *y* _z_ [a](b)",
    "a script": "</script><script>alert(1)</script>",
    "not seen": "a\u200bb \u202ec d\u00a0e f\u3000g",
    "chinese and emoji": f"中文句子 {FAMILY} \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea a\u3000b",
    "right to left": "القطة تجلس على السجادة",
}


@pytest.mark.parametrize("case", CASES)
def test_names_are_drawn_and_told_as_typed(opened: Tab, case: str) -> None:
    """Cases B1 to B10, as a map and as lines."""
    head = opened(**built(CASES[case]))
    ribbon = head.reader.rows[0]
    drawn = head.reader.matrix("head")
    assert drawn["y"] == drawn["x"] == ribbon
    assert np.shape(drawn["z"]) == (len(ribbon), len(ribbon))
    assert all(name == visible(name) and name for name in ribbon)
    geometry = head.geometry
    assert geometry["px"] == geometry["py"] >= 13  # all are named
    assert head.names == (ribbon, ribbon)
    said = head.sweep()
    assert said == said_of(ribbon, np.array(drawn["z"]))
    assert head.point(1, 2) == said[len(ribbon) + 2]  # the hover is one line, in order
    order = head.page.locator(".st-key-head .tip").evaluate(
        "(tip) => [...tip.querySelectorAll('bdi')].map((name) => name.getBoundingClientRect().left)"
    )
    assert order == sorted(order)  # not turned around by what is in it
    assert head.page.locator(".st-key-head .tip bdi").all_text_contents() == [ribbon[1], ribbon[2]]
    assert head.reader.dialogs == []
    lines = opened(**built(CASES[case], show="lines"))
    assert lines.names == (ribbon, ribbon)


def test_a_shortened_name_ends_with_a_whole_grapheme(opened: Tab) -> None:
    long = "ก็" * 40 + " " + "e\u0301" * 40 + " " + "x" * 200
    for show in ("map", "lines"):
        head = opened(**built(f"{FAMILY} {long}", show=show))
        ribbon = head.reader.rows[0]
        assert ribbon[1] == FAMILY
        shortened = [text for text in head.written if text["text"].endswith("…")]
        assert len(shortened) >= 6 if show == "map" else 4
        for text in shortened:
            stem = text["text"].removesuffix("…")
            assert re.fullmatch(r"(ก็)+|(e\u0301)+|(é)+|x+", stem)
            assert text["width"] <= 131
        assert head.point(*((2, 2) if show == "map" else (2, None)))


def test_60_tokens_follow_the_rule_that_is_stated(opened: Tab) -> None:
    head = opened(**built(" ".join(f"w{i}" for i in range(58)), token="30"))
    ribbon = head.reader.rows[0]
    assert len(ribbon) == 60
    step = int(re.findall(r"every (\d)\w\w named", head.caption)[0])
    for names in head.names:
        assert [name for name in names if name in ribbon[::step]] == ribbon[::step]
        assert set(names) <= {*ribbon[::step], ribbon[30]}
    head.point(31, 13)  # between the named ones
    rows, cols = head.names
    assert ribbon[31] in rows
    assert ribbon[13] in cols
    places = sorted(text["at"][1] for text in head.written if not text["turned"])
    assert min(np.diff(places)) >= 12
    overlapping = sorted(text["at"][0] for text in head.written if text["turned"])
    assert min(np.diff(overlapping)) >= 12


# ---- cases: values


def ramp(palette: Any, places: np.ndarray) -> np.ndarray:
    """The colours of places between 0 and 1."""
    stops = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for _, colour in palette.sequential], dtype=float)
    at = np.clip(places, 0, 1)[..., None] * (len(stops) - 1)
    low = np.minimum(np.floor(at), len(stops) - 2).astype(int)[..., 0]
    return stops[low] + (at - low[..., None]) * (stops[low + 1] - stops[low])


def test_each_cell_has_the_colour_of_its_weight_on_one_scale(opened: Tab) -> None:
    """B13 and B16: queries from the top, keys from the left; a flat head is pale beside a peaked one."""
    strongest = []
    for sel in ("3.1", "0.2", "5.0"):
        for scheme, palette in (("light", LIGHT), ("dark", DARK)):
            head = opened(sel=sel, scheme=scheme)
            np.testing.assert_allclose(head.colours(), ramp(palette, head.values), atol=3)
        assert head.caption.startswith("query (looks) ↓ · key (is looked at) →")
        strongest.append(head.values.max())
    assert max(strongest) > 0.95
    assert min(strongest) < 0.75


@pytest.mark.parametrize(("scale", "place"), [("sqrt", np.sqrt), ("log", lambda w: 1 + np.log10(w.clip(1e-4)) / 4)])
def test_another_scale_moves_the_colours_and_is_named(opened: Tab, scale: str, place: Any) -> None:
    head = opened(scale=scale)
    np.testing.assert_allclose(head.colours(), ramp(LIGHT, place(head.values)), atol=3)
    legend = head.page.locator(".st-key-head .legend").inner_text()
    assert {"sqrt": "square-root colour", "log": "logarithmic colour"}[scale] in legend


@pytest.mark.parametrize(("scheme", "side"), [("light", "right"), ("dark", "left")])
def test_padding_is_hatched_and_the_hover_says_what_it_is(opened: Tab, scheme: str, side: str) -> None:
    """B15. A hatch has two colours, and neither is that of a weight."""
    head = opened(**built("one two three", pad_to="8", pad_side=side), scheme=scheme)
    padded = [i for i in range(8) if (i >= 5 if side == "right" else i < 3)]
    assert head.reader.rows[0] == head.reader.matrix("head")["y"]
    geometry, pixels = head.geometry, head.pixels()
    size = geometry["px"]
    said = head.sweep()
    for row, col in np.ndindex(8, 8):
        x, y = geometry["left"] + col * size, geometry["top"] + row * size
        cell = pixels[int(y + 4) : int(y + size - 4), int(x + 4) : int(x + size - 4)]
        hatched = row in padded or col in padded
        assert (len(np.unique(cell.reshape(-1, 4), axis=0)) > 2) == hatched, (row, col)
        wanted = "padding: not part of the text" if hatched else f"query {head.reader.rows[0][row]} attends"
        assert said[row * 8 + col].startswith(wanted)
    assert "hatched: padding" in head.caption
    assert head.point(padded[0], None) == "padding: not part of the text"
    assert head.point(None, padded[0]) == "padding: not part of the text"


def test_without_the_mask_padded_keys_show_their_weight(opened: Tab) -> None:
    head = opened(**built("one two three", pad_to="8", mask="false"))
    weights = head.values
    tokens = head.reader.rows[0]
    assert (weights[:5, 5:] > 0.01).all()
    np.testing.assert_allclose(weights[:5].sum(axis=1), 1, atol=1e-5)
    said = head.sweep()
    assert said[:40] == said_of(tokens, weights)[:40]
    assert set(said[40:]) == {"padding: not part of the text"}  # a padded query is no part of the text in any case
    lines = opened(**built("one two three", pad_to="8", mask="false", show="lines"))
    assert lines.point(None, 6).startswith("query ")
    assert lines.point(6, None) == "padding: not part of the text"
    assert lines.lines == [] or len(lines.lines) <= 40


# ---- the other matrices


def test_the_numbers_beside_the_products_are_those_of_the_engine_and_do_not_touch(
    opened: Tab, minilm: explorer.Model
) -> None:
    products = opened("products", show="queries")
    run = explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")))
    scores, weights = run.trace.scores(3)[0, 1][10], run.trace.pattern(3)[0, 1][10]
    texts = {text["text"] for text in products.written}
    assert {format_number(float(value)) for value in (*scores, *weights)} <= texts
    assert products.point(4, 7).splitlines()[1] == (
        f"score {format_number(float(scores[4]))}, weight {format_number(float(weights[4]))}"
    )
    right = [text for text in products.written if text["align"] == "right"]
    geometry = products.geometry
    edge = geometry["left"] + 32 * geometry["px"]
    assert len(right) == 2 * (len(scores) + 1)
    for text in right:
        x, y = text["at"]
        assert x - text["width"] > edge + 4
        for other in right:
            if other is not text and abs(other["at"][1] - y) < 5 and other["at"][0] > x:
                assert other["at"][0] - other["width"] > x + 4


def test_a_row_of_the_token_view_chooses_the_head_and_a_column_the_token(opened: Tab) -> None:
    looks = opened("looks", show="token", token="3", anew=True)
    looks.canvas.click(position=looks.spot(5 * 12 + 7, None))
    looks.reader.until_address(sel="5.7")
    into = Matrix(looks.reader, "looked_at")
    into.canvas.click(position=into.spot(None, 6))
    into.reader.until_address(token="6")
    token = looks.reader.rows[0][6]
    assert into.page.locator(".st-key-looked_at b").inner_text() == f"Who looks at “{token}”"
    said = into.point(5 * 12 + 7, 2)
    assert (
        said.replace("\u2068", "")
        .replace("\u2069", "")
        .startswith(f"in L5 H7, {token} is attended to by {looks.reader.rows[0][2]}: ")
    )


# ---- look


def test_no_name_is_drawn_over_another_where_many_are_lit(opened: Tab) -> None:
    looks = opened("looks", show="token", text=words(20))
    looks.point(3 * 12 + 2, 20)  # right below the chosen head
    for turned, axis in ((False, 1), (True, 0)):
        places = sorted(text["at"][axis] for text in looks.written if text["turned"] == turned)
        assert min(np.diff(places)) >= 12


def test_legend_and_caption_are_never_cut(opened: Tab) -> None:
    for link in (
        {"show": "sums", "scale": "log"},
        {"show": "queries", "text": words(20)},
        {"show": "ablation", "off": "3.1", "pad_to": "60", "text": words(20)},
        {"show": "map", "scale": "sqrt", **LONG},
    ):
        page = opened(**link).page
        for node in page.locator(".box .head b, .box .caption span, .box .tick, .box .unit").all():
            cut = node.evaluate(
                """(node) => {
                  const [own, box] = [node, node.closest(".box")].map((n) => n.getBoundingClientRect());
                  const touches = [...node.parentElement.querySelectorAll(".tick")].some((other) => {
                    const its = other.getBoundingClientRect();
                    return other !== node && node.matches(".tick") && its.left < own.right && own.left < its.right;
                  });
                  return node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== "inline"
                    || own.right > box.right + 1 || own.left < box.left - 1 || touches;
                }"""
            )
            assert not cut, (link, node.inner_text())


def test_a_change_of_theme_repaints_and_print_is_light_on_white(opened: Tab) -> None:
    head = opened(**built("one two three", pad_to="6"), anew=True)
    page = head.page
    light, weights = head.colours(), head.values
    for scheme, palette in (("dark", DARK), ("light", LIGHT)):
        painted = head.painted
        page.emulate_media(color_scheme=scheme)
        head.until_painted(painted)
        head.reader.settled()
        np.testing.assert_allclose(head.colours()[:5, :5], ramp(palette, weights[:5, :5]), atol=3)
    np.testing.assert_array_equal(head.colours(), light)
    for scheme in ("light", "dark"):
        page.emulate_media(media="screen", color_scheme=scheme)
        head.reader.settled()
        painted = head.painted
        page.emulate_media(media="print", color_scheme=scheme)
        head.until_painted(painted)
        pixels = head.pixels()
        assert (pixels[0, 0] == 255).all()
        assert pixels[..., :3].min() < 60
        np.testing.assert_allclose(head.colours()[:5, :5], ramp(LIGHT, weights[:5, :5]), atol=3)
    page.emulate_media(media="screen", color_scheme="light")
    head.reader.settled()


def test_a_dense_screen_is_used_whole(new_reader: Callable[..., Reader]) -> None:
    sharp = Matrix(new_reader(device_scale_factor=2).open(**built("one two three")))
    box = sharp.canvas.bounding_box()
    assert box
    assert sharp.pixels().shape[:2] == (round(2 * box["height"]), round(2 * box["width"]))
    assert sharp.sweep() == said_of(sharp.reader.rows[0], sharp.values)


@pytest.mark.parametrize(
    ("link", "file"),
    [
        ({}, "L3-H1"),
        (built("one two three", show="lines", sel="0.0"), "L0-H0"),
        (built("../../x <b>", show="token", token="4"), "where-it-looks"),
    ],
)
def test_the_picture_is_saved_with_title_and_legend(opened: Tab, link: dict[str, str], file: str) -> None:
    matrix = opened("looks" if link.get("show") == "token" else "head", **link)
    with matrix.page.expect_download() as info:
        matrix.page.locator(f".st-key-{matrix.key}").get_by_role("button", name="Save picture").click()
    assert info.value.suggested_filename == f"encoder-explorer-{file}.png"
    picture = np.array(Image.open(info.value.path()).convert("RGB")).astype(int)
    canvas = matrix.pixels()
    assert picture.shape[1] == canvas.shape[1]
    above = picture.shape[0] - canvas.shape[0]
    assert 40 < above < 150
    shown = canvas[..., 3] == 255
    np.testing.assert_array_equal(picture[above:][shown], canvas[..., :3][shown])
    header = picture[:above]
    assert (header == 255).all(axis=-1).mean() > 0.5
    assert len(np.unique(header.reshape(-1, 3), axis=0)) > 100  # letters, and a bar of all colours


def test_the_pages_that_were_only_looked_at_painted_no_more_than_was_pointed_at(opened: Tab) -> None:
    head = opened(**built("one two three", seed="3"))
    painted = head.painted
    head.ask("() => new Promise((done) => setTimeout(done, 300))")
    assert head.painted == painted
    assert painted <= 6  # mount, fonts, size, announcement
