"""One server and one browser for all tests in here; a context of its own for each reader."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.reader import Reader
from tests.browser.server import Server

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


# Of the package, not of the session: while Playwright runs, no other event loop can, and later tests need one.
@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app, running. No traceback may have come into its log by the end."""
    running = Server(tmp_path_factory.mktemp("server"))
    try:
        running.wait()
        yield running
    finally:
        running.stop()
    assert "Traceback" not in running.log


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Headless Chromium. A machine without one fails: nothing here may pass unseen."""
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        pytest.fail("there is no browser: install Chromium so that 'chromium' is on the PATH")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
        yield running
        running.close()


@pytest.fixture
def new_reader(server: Server, browser: Browser) -> Iterator[Callable[..., Reader]]:
    """Makes readers, each in a context of its own; asserts at the end that none had to complain."""
    readers: list[Reader] = []

    def make(**context: object) -> Reader:
        readers.append(Reader(browser, server.url, **context))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


@pytest.fixture
def reader(new_reader: Callable[..., Reader]) -> Reader:
    """One reader, who has not opened the page yet."""
    return new_reader()
