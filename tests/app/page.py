"""One session on the page, and what a reader sees on it."""

import base64
import html
import json
import re
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from components.address import PARAMETERS
from components.attention_grid import read_header
from components.canvas import read_packet

APP = Path(__file__).parents[2] / "app.py"
SMALL = {"source": "built", "layers": "2", "heads": "2", "d_model": "8", "d_ff": "16"}
"""A link to an encoder that runs in a millisecond."""

VIEWS = ("attention", "layernorm", "residual", "shapes", "padding", "proof")
FREE = tuple(view for view in VIEWS if view != "padding")
"""Views of the one run. The padding view has runs of its own."""
SHOWN = {
    "attention": "show",
    "layernorm": "norm_show",
    "residual": "stream_show",
    "shapes": "shape_show",
    "padding": "pad_show",
}
"""The control that chooses a part of a view."""
PARTS: dict[str, dict[str, set[str]]] = {
    "attention": {
        "map": {"head"},
        "lines": {"head"},
        "token": {"looks", "looked_at"},
        "sums": {"sum_matrix"},
        "queries": {"products"},
        "ablation": {"before", "after", "moved"},
    },
    "layernorm": {
        "tokens": {"norms", "norm_detail"},
        "token": {"norms", "token_strips"},
        "distribution": {"norms", "distribution"},
        "parameters": {"norms", "gain_curves"},
        "batchnorm": {"layer_rows", "batch_rows"},
        "mistakes": {"norms", "difference_bars"},
    },
    "residual": {
        "growth": {"stream_map", "stream_growth"},
        "directions": {"stream_map", "cosine_curves"},
        "token": {"stream_map", "followed"},
        "checkpoint": {"stream_map", "picture"},
        "paths": {"stream_map", "token_paths"},
        "sentences": {"stream_map", "sentences"},
    },
    "shapes": {
        "cost": {"block", "cost_bars"},
        "growth": {"block", "growth_curves"},
        "tensor": {"block", "tensor"},
    },
    "padding": {
        "ways": {"ways_masked", "ways_unmasked"},
        "maps": {"map_alone", "map_masked", "map_unmasked"},
        "mask": {"mask_rows", "mask_broadcast", "mask_before", "mask_after", "mask_weights"},
        "batch": {"pad_batch", "own_map"},
        "pooling": {"pool_right", "pool_wrong"},
    },
    "proof": {"": {"residue_bars"}},
}
"""What is drawn in each part of each view: figures by their name, canvases and drawings by their key."""
THREE = ("a", "b", "difference")
"""The ends of the keys of the pictures of two runs: one scale for the first two."""
SHOWN_OF_TWO = {"residual": "stream_pair", "shapes": "shape_show", "compare": "pair_show"}
"""The parameter that chooses a part of a view of two runs. One that only the view of one run has is the first here."""
CONTROL_OF_TWO = SHOWN_OF_TWO | {"shapes": "shapes_of_two"}
"""The control that sets it."""


def _three(key: str) -> set[str]:
    return {f"{key}_{end}" for end in THREE}


TWO: dict[str, dict[str, set[str]]] = {
    "compare": {"summary": {"distance", "moved"}, "outputs": _three("outputs")},
    "attention": {"": _three("head") | {"moved"}},
    "layernorm": {"": _three("norms")},
    "residual": {"map": _three("stream"), "distance": {"distance"}, "growth": {"compared_over_depth"}},
    "shapes": {"cost": {"block_a", "block_b"}, "tensor": _three("tensor"), "parameters": set()},
    "proof": {"": {"residue_bars"}},
}
"""The same where two runs are compared. The other views show what the controls ask for alone."""
NOTHING_TO_DRAW = ("different widths, so their vectors cannot be", "is no value of either")
"""What is said in place of a picture that two runs cannot have."""
WIDGETS = ("text_area", "selectbox", "slider", "number_input", "toggle", "button_group")


class Page:
    """A session that was opened at a link, with its first run done."""

    _components: Any = None  # what is installed; sessions share it, for looking costs more than a run of the page

    def __init__(self, **link: str) -> None:
        self.at = AppTest.from_file(APP, default_timeout=120)
        for key, value in link.items():
            self.at.query_params[key] = value
        self.at._bidi_component_manager = Page._components
        self.at.run()
        Page._components = self.at._bidi_component_manager

    # What the reader does

    def set(self, key: str, value: Any) -> "Page":
        """Changes the control with this key."""
        self.control(key).set_value(value)
        self.at.run()
        return self

    def pick(self, layer: object, head: object, serial: int = 1) -> "Page":
        """Chooses a tile of the grid, with the very message that the browser sends for a click."""
        return self._trigger("grid", "pick", {"layer": layer, "head": head, "serial": serial})

    def point(self, key: str, row: int | None, col: int | None, serial: int = 1) -> "Page":
        """Clicks a cell, or the name of a row or column, of a matrix."""
        return self._trigger(key, "pick", {"row": row, "col": col, "serial": serial})

    def tap(self, sentence: object, token: object) -> "Page":
        """Chooses a token in the ribbon."""
        return self._trigger("ribbon", "pick", {"sentence": sentence, "token": token})

    def press(self, key: str) -> "Page":
        """Presses the button with this key."""
        next(button for button in self.at.button if button.key == key).click()
        self.at.run()
        return self

    def resize(self, height: object) -> "Page":
        """Tells what the browser measured of its window."""
        return self._trigger("screen", "changed", {"height": height})

    def _trigger(self, component: str, event: str, value: object) -> "Page":
        message = WidgetState(id=_make_trigger_id(self.component(component).id, "events"))
        message.json_trigger_value = json.dumps([{"event": event, "value": value}])
        states = self.at._tree.get_widget_states()
        states.widgets.append(message)
        self.at._run(states)
        return self

    def again(self) -> "Page":
        """The same page opened by somebody else, who was sent the address."""
        return Page(**self.link)

    # What the reader sees

    def control(self, key: str) -> Any:
        """The control of a parameter."""
        for kind in WIDGETS:
            for widget in self.at.get(kind):
                if widget.key == key:
                    return widget
        raise AssertionError(f"there is no control {key!r} on the page")

    def value(self, key: str) -> Any:
        return self.control(key).value

    def component(self, key: str) -> Any:
        """The message that carries a component to the browser."""
        for element in self.at.get("bidi_component"):
            if re.search(rf"-{key}$", element.proto.id):
                return element.proto
        raise AssertionError(f"there is no component {key!r} on the page")

    @property
    def link(self) -> dict[str, str]:
        """The address, as its parameters."""
        return dict(self.at.query_params)

    @property
    def grid(self) -> tuple[dict[str, Any], np.ndarray]:
        """Header and pixels `[layer, head, row, col]` of the grid."""
        payload = self.component("grid").bytes
        header = read_header(payload)
        size = [header[name] for name in ("n_layers", "n_heads", "rows", "cols")]
        start = 4 + int.from_bytes(payload[:4], "little")
        return header, np.frombuffer(payload, np.uint8, count=np.prod(size), offset=start).reshape(size)

    @property
    def chosen(self) -> tuple[int, int]:
        """Layer and head that the grid is told to frame."""
        choice = json.loads(self.component("grid-announcement").json)
        return choice["layer"], choice["head"]

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        """The figures by name, with their arrays decoded."""
        found = [decode(json.loads(chart.proto.spec)) for chart in self.at.get("plotly_chart")]
        return {figure["layout"]["meta"]["figure"]: figure for figure in found}

    def matrix(self, key: str) -> dict[str, Any]:
        """What a matrix canvas was sent: its header, the values `z [row, col]`, and those of its sides."""
        header, body = read_packet(self.component(key).bytes)
        size = len(header["rows"]), len(header["cols"])
        floats = np.frombuffer(body, np.float32)
        z, sides = floats[: size[0] * size[1]].reshape(size), floats[size[0] * size[1] :]
        return header | {"z": z, "side_values": sides.reshape(len(header["sides"]), size[0])}

    def announced(self, key: str) -> dict[str, Any]:
        """What a canvas is told apart from its data."""
        return json.loads(self.component(f"{key}-announcement").json)

    @property
    def heatmap(self) -> dict[str, Any]:
        """The chosen head."""
        return self.matrix("head")

    @property
    def matrices(self) -> frozenset[str]:
        """Keys of the canvases and drawings on the page, but for those that every page has."""
        found = (re.search(r"-([a-z_]+)$", element.proto.id) for element in self.at.get("bidi_component"))
        return frozenset(m.group(1) for m in found if m) - {"grid", "screen", "announcement", "exact", "ribbon"}

    @property
    def two(self) -> bool:
        """Whether two runs are compared: A and B, or both placements."""
        return "a" in self.link or (self.link.get("beside") == "true" and self.link.get("source") != "lab")

    def three(self, key: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """The pictures of A and of B, and of their difference."""
        a, b, difference = (self.matrix(f"{key}_{end}") for end in THREE)
        return a, b, difference

    @property
    def status(self) -> str:
        """The status line, or nothing where there is none."""
        return " · ".join(self._html(r'<div class="status".*?>(.*)</div>'))

    @property
    def notes(self) -> list[str]:
        return self._html(r'<div class="note".*?>(.*)</div>')

    @property
    def rows(self) -> list[list[str]]:
        """The ribbon: the tokens of each sentence."""
        ribbon = [element.proto for element in self.at.get("bidi_component") if element.proto.id.endswith("-ribbon")]
        return json.loads(ribbon[0].json)["names"] if ribbon else []

    @property
    def norms(self) -> list[str]:
        """The norms that can be shown at full size."""
        return [option.rpartition(": ")[2] for option in self.control("norm_choice").options]

    @property
    def explanation(self) -> str:
        return " ".join(text.value for text in self.at.text)

    @property
    def errors(self) -> list[str]:
        return [error.value for error in self.at.error]

    @property
    def exceptions(self) -> list[str]:
        return [exception.message for exception in self.at.exception]

    def _html(self, pattern: str) -> list[str]:
        bodies = [element.proto.body for element in self.at.get("html")]
        found = [match.group(1) for body in bodies if (match := re.fullmatch(pattern, body, re.DOTALL))]
        return [html.unescape(re.sub(r"<.*?>", " ", text)) for text in found]

    # What every page must be

    def ok(self) -> "Page":
        """Asserts that there is a whole page: no fault, its figures, its numbers, how to read them."""
        assert not self.exceptions
        assert not self.errors
        view = self.control("view").value
        assert self.figures.keys() | self.matrices == self._wanted(view)
        assert len(self.at.dataframe) == 1
        assert len(self.at.dataframe[0].value) > 0
        assert self.explanation
        assert self.status
        assert self.rows
        return self

    def _wanted(self, view: str) -> AbstractSet[str]:
        """What this page must draw."""
        two = self.two and view in TWO
        shown = (SHOWN_OF_TWO if two else SHOWN).get(view)
        part = self.link.get(shown, PARAMETERS[shown].default) if shown else ""
        if two and any(said in self.explanation for said in NOTHING_TO_DRAW) and part in ("distance", "tensor"):
            return set()
        if not two and part == "mistakes" and self.control("mistake").value != "all":
            return {"norms", "token_strips"}
        if not two and part == "tensor" and self.link.get("site") == "token_ids":
            return {"block"}  # ids are words, beside it
        parts = (TWO if two else PARTS)[view]
        return parts[part] if part in parts or not two else next(iter(parts.values()))

    def refused(self) -> str:
        """Asserts that there is one sentence instead of a picture, and returns it."""
        assert not self.exceptions
        assert len(self.errors) == 1
        assert not self.at.get("plotly_chart")
        assert not self.matrices
        assert not self.at.dataframe
        assert not self.status
        return re.sub(r"\\(.)", r"\1", self.errors[0])  # it is Markdown, in which all signs are escaped


def decode(value: Any) -> Any:
    """A figure's JSON with Plotly's packed arrays as NumPy arrays."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() >= {"dtype", "bdata"}:
        array = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        return array.reshape([int(n) for n in str(value.get("shape", array.size)).split(",")])
    return {key: decode(part) for key, part in value.items()}


def differing(link: dict[str, str]) -> dict[str, str]:
    """The parameters of a link that the page knows."""
    return {key: value for key, value in link.items() if key in PARAMETERS}
