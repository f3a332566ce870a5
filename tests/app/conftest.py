"""Every test meets a server that has answered nothing yet."""

from collections.abc import Iterator

import pytest

import explorer
from components import state
from tests.app.page import Page


@pytest.fixture(autouse=True)
def fresh_server() -> Iterator[None]:
    """No run and no built encoder is kept from another test. The trained encoder is: it takes a second to load."""
    state.shared.clear()
    yield
    state.shared.clear()


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[explorer.Run]:
    """Grows by one run with each forward pass that the page asks for."""
    state.warm()  # runs the encoder once by itself
    done: list[explorer.Run] = []
    real = explorer.run

    def counted(*args: object, **kwargs: object) -> explorer.Run:
        done.append(real(*args, **kwargs))
        return done[-1]

    monkeypatch.setattr(explorer, "run", counted)
    return done


@pytest.fixture
def page() -> Page:
    """The page as a stranger meets it."""
    return Page()


@pytest.fixture(autouse=True)
def _tables_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no browser here that would have to show a picture first."""
    monkeypatch.setattr("components.panels.look.PICTURE_FIRST", 0)
