"""A reader in front of the page: what he does, and what he sees when everything has settled."""

import re
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

TIMEOUT = 60_000  # ms; of a condition that fails, never of one that holds

# What still has to happen until the script has ended and everything on the page is of its last run, and is drawn.
MISSING = """() => {
  const missing = [];
  const app = document.querySelector("[data-testid=stApp]");
  if (app?.dataset.testConnectionState !== "CONNECTED") missing.push("connection");
  if (app?.dataset.testScriptState !== "notRunning") missing.push("end of the script");
  for (const waiting of ["[data-stale=true]", "[data-testid=stSkeleton]", "[data-testid=stStatusWidget]"])
    if (document.querySelector(waiting)) missing.push(`no ${waiting}`);
  if (document.querySelector("[data-testid=stAlertContainer]")) return missing;  // a refusal has no picture
  if (!document.querySelector(".status")) missing.push("status line");
  const figures = [...document.querySelectorAll("[data-testid=stPlotlyChart]")];
  const roots = [...document.querySelectorAll("[class*=st-key-] *")].map((node) => node.shadowRoot);
  const canvases = roots.flatMap((root) => [...(root?.querySelectorAll("canvas") ?? [])]);
  if (!roots.some((root) => root?.querySelector(".batch span.chosen"))) missing.push("the token ribbon");
  const drawings = roots.flatMap((root) => [...(root?.querySelectorAll(".diagram svg") ?? [])]);
  if (drawings.some((drawing) => !drawing.childElementCount)) missing.push("a drawn diagram");
  const waits = document.querySelector(".st-key-lab_start"); // an experiment that has not begun has no picture
  if (!figures.length && !canvases.length && !drawings.length && !waits) missing.push("figures");
  if (canvases.some((canvas) => !canvas.dataset.painted)) missing.push("a painted canvas");
  for (const figure of figures)
    if (!figure.querySelector(".js-plotly-plot")?._fullLayout?.meta?.figure || !figure.querySelector(".main-svg"))
      missing.push("a drawn figure");
  return missing;
}"""

MATRIX = """(key) => [...document.querySelectorAll(`.st-key-${key} *`)].find((node) => node.shadowRoot)
  ?.shadowRoot.querySelector("canvas")"""
FIGURE = """(name) => [...document.querySelectorAll(".js-plotly-plot")].find((f) => f.layout?.meta?.figure === name)"""


class Reader:
    """One tab of one browser, with everything it complains about."""

    def __init__(self, browser: Browser, url: str, **context: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"} | context
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(TIMEOUT)
        self.page: Page = self.context.new_page()
        self.base = url
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self._requested(request.url))
        self.page.on("websocket", lambda socket: self._requested(socket.url))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text} ({message.location.get('url')})")

    def _requested(self, url: str) -> None:
        if not url.startswith(("data:", "blob:", "about:")):  # these never leave the browser
            self.hosts.add(urlsplit(url).hostname or url)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    # What he does

    def open(self, **link: str) -> "Reader":
        """Opens a link with these parameters."""
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in link.items())
        return self.follow(f"{self.base}?{query}" if query else self.base)

    def follow(self, url: str) -> "Reader":
        self.page.goto(url)
        return self.settled()

    def type(self, text: str) -> None:
        """Types into the text box, and runs it."""
        box = self.page.locator(".st-key-text textarea")
        box.fill(text)
        box.press("Control+Enter")

    def view(self, name: str) -> "Reader":
        """Chooses a view by its name on the page, and waits for its figures."""
        self.page.get_by_role("radio", name=name, exact=True).click()
        if name == "Attention":
            return self.until("() => document.querySelector('.st-key-grid')")
        if name == "Padding":
            return self.until(f"() => ({MATRIX})('ways_unmasked')?.dataset.painted")
        figures = {
            "LayerNorm": "norm_detail",
            "Residual stream": "stream_growth",
            "Shapes": "cost_bars",
            "Proof": "residue_bars",
        }
        return self.until_figure(figures[name])

    def until(self, condition: str, argument: Any = None) -> "Reader":
        """Waits until a JavaScript condition holds, then until the page has settled."""
        self.page.wait_for_function(condition, arg=argument)
        return self.settled()

    def until_figure(self, name: str, **meta: Any) -> "Reader":
        """Waits for a figure that carries this mark."""
        mark = {"figure": name} | meta
        return self.until(
            f"""(mark) => {{
              const meta = ({FIGURE})(mark.figure)?._fullLayout?.meta;
              return meta && Object.entries(mark).every(([key, value]) => meta[key] === value);
            }}""",
            mark,
        )

    def until_head(self, layer: int, head: int) -> "Reader":
        return self.until_matrix("head", f"L{layer} H{head}")

    def drawn(self, key: str) -> "Reader":
        """Waits until a canvas is there and painted."""
        self.page.wait_for_function(f"(key) => ({MATRIX})(key)?.dataset.painted", arg=key)
        return self

    def until_matrix(self, key: str, title: str) -> "Reader":
        """Waits until a matrix of this title is drawn."""
        return self.until(f"([key, title]) => ({MATRIX})(key)?.matrix?.title === title", [key, title])

    def until_tokens(self, row: int, tokens: list[str]) -> "Reader":
        """Waits until the ribbon and the figures show these tokens."""
        return self.until(
            """([row, tokens]) => {
              const roots = [...document.querySelectorAll(".st-key-ribbon *")].map((node) => node.shadowRoot);
              const ribbon = roots.find((root) => root?.querySelector(".batch"));
              const spans = ribbon?.querySelectorAll(".row")[row]?.querySelectorAll("span") ?? [];
              return JSON.stringify([...spans].map((span) => span.textContent)) === JSON.stringify(tokens);
            }""",
            [row, tokens],
        )

    def until_address(self, **parameters: str | None) -> "Reader":
        """Waits until the address has these parameters; None: until it has not."""
        return self.until(
            """(wanted) => {
              const query = new URLSearchParams(location.search);
              return Object.entries(wanted).every(([key, value]) => query.get(key) === value);
            }""",
            parameters,
        )

    def settled(self) -> "Reader":
        try:
            self.page.wait_for_function(f"() => !({MISSING})().length")
        except PlaywrightTimeout:
            raise AssertionError(f"the page does not settle, it lacks: {self.page.evaluate(MISSING)}") from None
        return self

    # What he sees

    @property
    def canvas(self) -> Locator:
        return self.page.locator(".st-key-grid canvas")

    @property
    def address(self) -> dict[str, str]:
        query = urlsplit(self.page.url).query
        return {key: values[-1] for key, values in parse_qs(query, keep_blank_values=True).items()}

    @property
    def chosen(self) -> tuple[int, int]:
        """Layer and head that the canvas says it has framed."""
        label = self.canvas.get_attribute("aria-label") or ""
        layer, head = re.findall(r"Layer (\d+), head (\d+) selected", label)[0]
        return int(layer), int(head)

    def pixels(self) -> str:
        """The painted canvas, as a picture in text."""
        return self.canvas.evaluate("(canvas) => canvas.toDataURL()")

    def colours(self) -> int:
        """How many different colours the canvas shows."""
        return self.canvas.evaluate(
            """(canvas) => {
              const { width, height } = canvas;
              const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
              return new Set(new Uint32Array(pixels.buffer)).size;
            }"""
        )

    def figure(self, name: str) -> dict[str, Any]:
        """What Plotly drew: title, numbers of the first trace, names on the axes, font, and its box in the window."""
        return self.page.evaluate(
            f"""(name) => {{
              const figure = ({FIGURE})(name);
              const {{ title, font, meta, height }} = figure._fullLayout;
              const z = figure._fullData[0]?.z ?? [];
              const texts = (selector) => [...figure.querySelectorAll(selector)].map((node) => node.textContent);
              return {{
                title: title.text, meta, height, font: font.color,
                z: Array.from(z, (row) => Array.from(row)),
                y: texts(".ytick text"), x: texts(".xtick text"),
                image: figure.querySelector(".heatmaplayer image")?.href.baseVal ?? null,
                inside: box(figure),
              }};
              function box(node) {{
                const {{ left, top, right, bottom }} = node.getBoundingClientRect();
                return [left, top, right, bottom];
              }}
            }}""",
            name,
        )

    def matrix(self, key: str) -> dict[str, Any]:
        """What a matrix canvas drew: title, numbers, names on the sides, colour of its letters, its place, its look."""
        self.drawn(key)
        return self.page.evaluate(
            f"""(key) => {{
              const canvas = ({MATRIX})(key);
              const {{ title, rows, cols, values }} = canvas.matrix;
              const {{ left, top, right, bottom }} = canvas.getBoundingClientRect();
              const row = (_, i) => Array.from(values.slice(i * cols.length, (i + 1) * cols.length));
              return {{
                title, y: rows, x: cols, z: Array.from(rows, row), image: canvas.toDataURL(),
                font: getComputedStyle(canvas).color, inside: [left, top, right, bottom],
                height: canvas.getRootNode().host.clientHeight, ...canvas.dataset,
              }};
            }}""",
            key,
        )

    @property
    def heatmap(self) -> dict[str, Any]:
        """The chosen head."""
        return self.matrix("head")

    def tip(self, key: str, x: float, y: float) -> str:
        """What a canvas says of a point, in CSS pixels from its corner."""
        self.drawn(key)
        self.page.locator(f".st-key-{key} canvas").hover(position={"x": x, "y": y})
        tip = self.page.locator(f".st-key-{key} .tip")
        return tip.inner_text() if tip.is_visible() else ""

    @property
    def letters(self) -> tuple[int, int, int]:
        """The colour of the letters on the canvas of the chosen head."""
        red, green, blue = (int(part) for part in re.findall(r"\d+", self.heatmap["font"])[:3])
        return red, green, blue

    @property
    def rows(self) -> list[list[str]]:
        """The token ribbon."""
        rows = self.page.locator(".batch .row")
        return [rows.nth(i).locator("span").all_text_contents() for i in range(rows.count())]

    @property
    def text(self) -> str:
        return self.page.locator(".st-key-text textarea").input_value()

    @property
    def status(self) -> str:
        """The status line; of two runs one each."""
        return "\n".join(self.page.get_by_role("status").all_inner_texts())

    def colour(self, selector: str, name: str) -> tuple[int, int, int]:
        """A computed colour of the first element that matches, however the browser writes it."""
        red, green, blue = self.page.locator(selector).first.evaluate(
            """(node, name) => {
              const pen = document.createElement("canvas").getContext("2d");
              pen.fillStyle = getComputedStyle(node)[name];
              pen.fillRect(0, 0, 1, 1);
              return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
            }""",
            name,
        )
        return red, green, blue

    # What no page may do

    def close(self) -> None:
        """Asserts that the page complained about nothing, fetched nothing from elsewhere and showed no traceback."""
        try:
            words = self.page.locator("body").inner_text()
            faults = self.page.locator("[data-testid=stException]").count()
        finally:
            self.context.close()
        assert self.complaints == []
        assert self.hosts == {"127.0.0.1"}
        assert faults == 0
        assert "Traceback" not in words
        assert "Error:" not in words
