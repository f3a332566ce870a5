"""A server on a free port of this machine, a headless browser in front of it, and the clock in its pages."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypedDict
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, Playwright

ROOT: Final = Path(__file__).parents[1]
WATCH: Final = Path(__file__).parent / "watch.js"
QUIET: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
MEMORY: Final = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
"""As in the Makefile."""
START: Final = 60  # seconds until a server must be there
SETTLED: Final = """() => {
  const app = document.querySelector("[data-testid=stApp]");
  const canvases = [...document.querySelectorAll("[class*=st-key-] *")]
    .flatMap((node) => [...(node.shadowRoot?.querySelectorAll("canvas") ?? [])]);
  return app?.dataset.testConnectionState === "CONNECTED" && app.dataset.testScriptState === "notRunning" &&
    !document.querySelector("[data-stale=true], [data-testid=stSkeleton], [data-testid=stStatusWidget]") &&
    canvases.every((canvas) => canvas.dataset.painted);
}"""


class Change(TypedDict):
    """Milliseconds after the press."""

    shown: dict[str, float]
    """A part of the page -> when a frame had its new picture."""
    arrived: list[tuple[float, int]]
    """When each message of the server was there, and its bytes."""


class Server:
    """A Streamlit server, whose log is read."""

    def __init__(self, command: list[str], log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        self._log = log
        options = ["--server.address", "127.0.0.1", "--server.port", str(port), "--server.maxMessageSize", "200"]
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command, *options],
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=MEMORY | os.environ,
            )

    def wait(self) -> None:
        """Returns once the server says that it is healthy."""
        deadline = time.monotonic() + START
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}_stcore/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the server did not start:\n{self.log}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def passes(self) -> int:
        """Forward passes since the start: each leaves a line in the log."""
        return self.log.count("forward pass: ")


@contextmanager
def serve(*command: str) -> Iterator[Server]:
    """`python -m` this command, as a server until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(list(command), Path(folder) / "server.log")
        try:
            server.wait()
            yield server
        finally:
            server.stop()


@contextmanager
def launch(playwright: Playwright) -> Iterator[Browser]:
    """Headless Chromium, a process of its own each time.

    Raises:
        RuntimeError: If there is none on the PATH.
    """
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        raise RuntimeError("there is no browser: install Chromium so that 'chromium' is on the PATH")
    browser = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
    try:
        yield browser
    finally:
        browser.close()


class Tab:
    """One page of 1280 x 800, settled, and what changes on it."""

    def __init__(self, browser: Browser, url: str, link: dict[str, Any], *, limit: float = 60) -> None:
        self._context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
        self._context.set_default_timeout(limit * 1e3)
        self._context.add_init_script(path=WATCH)
        self.page: Page = self._context.new_page()
        self.page.goto(f"{url}?{urlencode(link)}")
        self.page.locator("[data-testid=stSelectbox]").first.wait_for()
        self.settle()

    def settle(self) -> None:
        """Waits until the script has ended and all is drawn, and a moment more: what follows starts from rest."""
        self.page.wait_for_function(SETTLED)
        self.page.wait_for_timeout(200)

    def choose_sentence(self, number: int, *names: str) -> Change:
        """Chooses one from the list, and waits until the parts with these names show it."""
        self.page.locator(".st-key-sentence input").click()
        option = self.page.get_by_role("option").nth(number)
        option.hover()
        return self._measure(names, option.click)

    def click_tile(self, n: int, layer: int, head: int) -> Change:
        """Clicks a tile of the grid of n x n heads, and waits for the head."""
        place = self.page.evaluate("(at) => tileAt(...at)", [n, layer, head])
        canvas = self.page.locator(".st-key-grid canvas")
        canvas.hover(position=place)
        return self._measure(("head",), lambda: canvas.click(position=place))

    def choose(self, label: str, name: str) -> Change:
        """Presses one of the choices that stand in a row, and waits for a picture that was not there before."""
        choice = self.page.get_by_role("radio", name=label, exact=True)
        choice.hover()
        return self._measure((name,), choice.click)

    def _measure(self, names: tuple[str, ...], press: Callable[[], None]) -> Change:
        self.page.wait_for_timeout(100)
        self.page.evaluate("(names) => watch(names)", list(names))
        press()
        found: Change = self.page.wait_for_function("() => window.changed").json_value()
        self.settle()
        return found

    def collect_garbage(self) -> None:
        session = self._context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        session.detach()

    def close(self) -> None:
        self._context.close()


def renderer_memory() -> int:
    """Private bytes of the renderer processes of all browsers that this process has started."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    total = 0
    for pid in filter(is_ours, parents):
        try:
            if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes():
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
        except OSError:
            continue
    return total * 1024
