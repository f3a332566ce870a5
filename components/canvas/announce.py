"""What changes with a click, sent apart from the data it is about: a few bytes instead of a picture."""

import re
from pathlib import Path
from typing import Any, Final

import streamlit as st

_HERE: Final = Path(__file__).parent

_announcement = st.components.v2.component(
    "canvas_announcement", js=(_HERE / "announce.js").read_text(encoding="utf-8")
)


def module(folder: Path, *names: str) -> str:
    """The source of a canvas as one module, with what all canvases share in front."""
    return "".join(path.read_text(encoding="utf-8") for path in (_HERE / "canvas.js", *(folder / n for n in names)))


def style(folder: Path, name: str) -> str:
    """The style of a canvas, after what all canvases share."""
    return "".join(path.read_text(encoding="utf-8") for path in (_HERE / "canvas.css", folder / name))


def announce(target: str, **announcement: Any) -> None:
    """Tells the canvas with the key `target` what the server decided. Numbers and texts only, and no NaN.

    Raises:
        ValueError: If the key holds anything but letters, digits, `_` and `-`; the browser finds the
            canvas by the class name made of it.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", target):
        raise ValueError(f"key ({target!r}) must be made of letters, digits, '_' and '-'")
    _announcement(key=f"{target}-announcement", data={"target": target, **announcement})


def echo_key(target: str) -> str:
    """Session key of the serial number of the last pick that came from a canvas."""
    return f"{target}-echo"
