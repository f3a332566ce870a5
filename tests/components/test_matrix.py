"""The matrix without a browser: what is packed, and what is believed of what comes back."""

import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from components.canvas import read_packet
from components.labels import EMPTY
from components.matrix import Matrix, Side, mount, pack_matrix, read_pick
from components.matrix.payload import MAX_SIDE

ODD_NAMES = [
    "</script><script>alert(1)</script>",
    "$x$",
    "a<br>b",
    "👨‍👩‍👧‍👦",
    "مرحبا",
    "\u202eevil",
    "\ud83d",
    '"\\\n\t',
]


def matrix(**changes: object) -> Matrix:
    arguments = {
        "values": np.array([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]),
        "rows": ["a", "b"],
        "cols": ["x", "y", "z"],
        "title": "T",
        "row_title": "row",
        "col_title": "column",
        "phrase": ("of ", " to ", ": "),
    }
    return Matrix(**(arguments | changes))


def unpacked(what: Matrix) -> tuple[dict, np.ndarray, np.ndarray]:
    """What the browser reads: header, float32 `[row, col]`, float32 `[side, row]`."""
    header, body = read_packet(pack_matrix(what))
    floats = np.frombuffer(body, "<f4")
    size = len(header["rows"]), len(header["cols"])
    cells = size[0] * size[1]
    return header, floats[:cells].reshape(size), floats[cells:].reshape(len(header["sides"]), size[0])


# ---- what a matrix may be


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"values": np.ones((3, 2))}, r"values must be \[row, col\] = \[2, 3\]"),
        ({"values": np.ones(6)}, "values must be"),
        ({"rows": [], "values": np.ones((0, 3))}, "values must be"),
        ({"cols": [], "values": np.ones((2, 0))}, "values must be"),
        ({"rows": ["r"] * (MAX_SIDE + 1), "values": np.ones((MAX_SIDE + 1, 3))}, "1 to 4096"),
        ({"row_padding": np.zeros(3, dtype=bool)}, r"row_padding must be bool \[2\]"),
        ({"row_padding": [0, 1]}, "row_padding must be bool"),  # 0/1 integers may mean either sense
        ({"col_padding": np.zeros(2, dtype=bool)}, r"col_padding must be bool \[3\]"),
        ({"sides": [Side("sum", np.ones(3))]}, "the side 'sum' must have 2 values"),
        ({"high": 0.0}, "colours must run"),
        ({"high": float("nan")}, "colours must run"),
        ({"high": float("inf")}, "colours must run"),
        ({"low": float("nan")}, "colours must run"),
        ({"low": -1.0, "high": 2.0}, "evenly around 0, not from -1.0 to 2.0"),
        ({"floor": 0.0}, "a share of high"),
        ({"floor": 1.0}, "a share of high"),
        ({"low": 0.5}, "colours must run from 0 up"),  # colours are shares of the high end
        ({"row_group": 0}, "row_group"),
        ({"chosen_row": 2}, r"chosen_row \(2\) must be one of 2 rows"),
        ({"chosen_row": -1}, "chosen_row"),
    ],
)
def test_what_disagrees_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        matrix(**changes)


def test_the_largest_matrix_is_allowed():
    matrix(rows=["r"] * MAX_SIDE, values=np.ones((MAX_SIDE, 3)))


# ---- the payload


def test_the_header_says_everything_and_nothing_more():
    header, values, sides = unpacked(matrix())
    assert header == {
        "version": 1,
        "rows": ["a", "b"],
        "cols": ["x", "y", "z"],
        "title": "T",
        "row_title": "row",
        "col_title": "column",
        "phrase": ["of ", " to ", ": "],
        "unit": "weight",
        "low": 0.0,
        "high": 1.0,
        "floor": 1e-4,
        "row_padding": [0, 0],
        "col_padding": [0, 0, 0],
        "square": True,
        "whole": False,
        "written": False,
        "beyond": [False, False],
        "row_group": 1,
        "chosen_row": None,
        "sides": [],
        "file": "matrix",
    }
    np.testing.assert_array_equal(values, matrix().values)
    assert sides.shape == (0, 2)


@pytest.mark.parametrize("order", ["C", "F"])
def test_every_float32_arrives_as_it_is(order):
    values = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32, order=order)
    values[0] = [np.nan, np.inf, -0.0, 1e-45]
    side = np.arange(5, dtype=np.float64) / 3
    side[2] = np.nan
    made = matrix(values=values, rows="abcde", cols="wxyz", sides=(Side("a", side), Side("b", -side)))
    header, arrived, sides = unpacked(made)
    np.testing.assert_array_equal(arrived.view(np.uint32), np.ascontiguousarray(values).view(np.uint32))
    np.testing.assert_array_equal(sides, np.array([side, -side], dtype=np.float32))
    assert header["sides"] == ["a", "b"]


def test_flags_groups_and_the_chosen_row_arrive():
    rows, cols = np.array([False, True]), np.array([True, False, True])
    header, _, _ = unpacked(matrix(row_padding=rows, col_padding=cols, row_group=2, chosen_row=0))
    assert (header["row_padding"], header["col_padding"]) == ([0, 1], [1, 0, 1])
    assert (header["row_group"], header["chosen_row"]) == (2, 0)


@pytest.mark.parametrize(
    ("extremes", "beyond"),
    [
        ((-1.0, 1.0), [False, False]),
        ((-1.1, 0.0), [True, False]),
        ((0.0, np.inf), [False, True]),
        ((np.nan, 2.0), [False, True]),
    ],
)
def test_the_legend_knows_of_values_beyond_its_colours(extremes, beyond):
    header, _, _ = unpacked(matrix(values=np.array([[*extremes, 0.5], [0, 0, 0]]), low=-1.0, high=1.0))
    assert header["beyond"] == beyond


def test_a_weight_that_rounding_has_made_more_than_1_is_not_beyond():
    assert unpacked(matrix(values=np.full((2, 3), np.nextafter(np.float32(1), 2))))[0]["beyond"] == [False, False]


def test_names_arrive_as_typed_and_an_empty_one_is_seen():
    header, _, _ = unpacked(matrix(values=np.ones((9, 3)), rows=[*ODD_NAMES, ""]))
    assert header["rows"] == [*ODD_NAMES, EMPTY]


def test_packing_leaves_the_values_alone():
    values = np.ones((2, 3))
    values.flags.writeable = False  # the record of a run is read-only
    pack_matrix(matrix(values=values))
    np.testing.assert_array_equal(values, 1)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("L3-H1", "L3-H1"),
        ("../../x", "x"),
        ("a/b\\c:d", "a-b-c-d"),
        ("L3 H1 before", "L3-H1-before"),
        ("“مرحبا”", "matrix"),
        ("\u202egnp.exe\x00", "gnp-exe"),
        ("", "matrix"),
        ("..", "matrix"),
    ],
)
def test_the_name_of_a_picture_is_never_a_path(file, name):
    assert unpacked(matrix(file=file, title="../../x"))[0]["file"] == name


# ---- the choice


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"row": 3, "col": 5, "serial": 7}, (3, 5, 7)),
        ({"row": 0, "col": 0, "serial": 0}, (0, 0, 0)),
        ({"row": 3, "col": None, "serial": 1}, (3, None, 1)),
        ({"row": None, "col": 5, "serial": 1}, (None, 5, 1)),
        ({"row": 3, "serial": 1}, (3, None, 1)),
        ({"row": 6, "col": 12, "serial": 1}, (5, 11, 1)),
        ({"row": -1, "col": -(10**30), "serial": -4}, (0, 0, 0)),
        ({"row": 10**30, "col": 5, "serial": 10**30}, (5, 5, 2**53 - 1)),
        ({"row": None, "col": None, "serial": 1}, None),
        ({"serial": 1}, None),
        ({"row": 1.0, "col": 5, "serial": 1}, None),
        ({"row": True, "col": 5, "serial": 1}, None),
        ({"row": 1, "col": False, "serial": 1}, None),
        ({"row": "1", "col": 5, "serial": 1}, None),
        ({"row": [1], "col": 5, "serial": 1}, None),
        ({"row": 1, "col": float("nan"), "serial": 1}, None),
        ({"row": 1, "col": 5}, None),
        ({"row": 1, "col": 5, "serial": None}, None),
        ({"row": 1, "col": 5, "serial": True}, None),
        ({"row": 1, "col": 5, "serial": 1.0}, None),
        ({}, None),
        ([1, 5, 1], None),
        ("1.5", None),
        (None, None),
    ],
)
def test_a_pick_is_clamped_or_refused(value, expected):
    assert read_pick(value, 6, 12) == expected


@pytest.mark.parametrize("state", [None, {}, {"pick": None}, {"pick": "x"}, {"pick": {"row": "0"}}, "text"])
def test_the_callback_ignores_what_is_no_pick(state, monkeypatch):
    session = {"m": state}
    monkeypatch.setattr(mount.st, "session_state", session)
    mount._picked("m", 6, 12, lambda row, col: pytest.fail(f"picked {row}, {col}"))
    assert session == {"m": state}


def test_the_callback_hands_on_a_clamped_pick(monkeypatch):
    monkeypatch.setattr(mount.st, "session_state", {"m": {"pick": {"row": 99, "col": None, "serial": 4}}})
    picks = []
    mount._picked("m", 6, 12, lambda row, col: picks.append((row, col)))
    assert picks == [(5, None)]
    assert mount.st.session_state["m-echo"] == 4
    mount._picked("m", 6, 12, None)  # nobody has to listen


# ---- what changes with a click


def page():
    import numpy as np
    import streamlit as st

    from components.matrix import Matrix, matrix_canvas, pack_matrix

    values = np.full((2, 3), st.session_state.get("value", 0.5))
    words = {"title": "T", "row_title": "row", "col_title": "column", "phrase": ("", " ", ": ")}
    payload = pack_matrix(Matrix(values=values, rows=["a", "b"], cols=["x", "y", "z"], **words))
    said = {name: st.session_state[name] for name in ("mode", "scale", "marked") if name in st.session_state}
    matrix_canvas(payload, key="m", height=300, on_pick=lambda row, col: None, **said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mode": "lines"}, {"mode": "lines"}),
        ({"scale": "log"}, {"scale": "log"}),
        ({"marked": (1, None)}, {"row": 1}),
        ({"marked": (None, 2)}, {"col": 2}),
        ({"m-echo": 9}, {"echo": 9}),
    ],
)
def test_mode_scale_and_mark_leave_the_payload_alone_and_reach_the_announcer(change, said):
    app = AppTest.from_function(page).run()
    assert not app.exception
    canvas, announcer = (element.proto for element in app.get("bidi_component"))
    announced = {"target": "m", "mode": "map", "scale": "linear", "row": None, "col": None, "echo": 0}
    assert json.loads(announcer.json) == announced
    for name, value in change.items():
        app.session_state[name] = value
    app.run()
    assert not app.exception
    canvas_after, announcer_after = (element.proto for element in app.get("bidi_component"))
    assert (canvas_after.bytes, canvas_after.id) == (canvas.bytes, canvas.id)
    assert announcer_after.id == announcer.id
    assert json.loads(announcer_after.json) == announced | said


def test_other_numbers_reach_the_same_canvas():
    app = AppTest.from_function(page).run()
    before = app.get("bidi_component")[0].proto
    app.session_state["value"] = 0.25
    app.run()
    after = app.get("bidi_component")[0].proto
    assert after.bytes != before.bytes
    assert after.id == before.id
