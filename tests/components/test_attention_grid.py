"""The attention grid without a browser: what is packed, and what is believed of what comes back."""

import json
import zlib
from itertools import pairwise

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from components.attention_grid import MAX_CELLS, GridScore, mount, pack, pool, read_header, read_pick, read_probe
from components.attention_grid.payload import EXACT_BYTES
from components.attention_grid.score import announcement, short_number
from components.canvas import read_packet

ODD_TOKENS = [
    "</script><script>alert(1)</script>",
    "$x$",
    "<b>x",
    "a<br>b",
    "&lt;",
    "👨‍👩‍👧‍👦",
    "مرحبا",
    "\u202eevil\u2069",
    "\u200b",
    "",
    "\ud83d",  # half of a surrogate pair, as a byte-level tokenizer may leave it
    '"\\\n\t',
]


def softmax_pattern(n_layers: int, n_heads: int, length: int, seed: int = 0) -> np.ndarray:
    logits = 3 * np.random.default_rng(seed).standard_normal((n_layers, n_heads, length, length), dtype=np.float32)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def padding(length: int, *padded: int) -> np.ndarray:
    flags = np.zeros(length, dtype=bool)
    flags[list(padded)] = True
    return flags


def packed(pattern: np.ndarray, **changes: object) -> bytes:
    length = pattern[0].shape[-1]
    arguments = {
        "tokens": [f"t{i}" for i in range(length)],
        "query_padding": padding(length),
        "key_padding": padding(length),
        "masked": True,
    }
    return pack(pattern, **(arguments | changes))


def pixels(payload: bytes) -> np.ndarray:
    """What the browser reads: uint8 [layer, head, row, col]."""
    header = read_header(payload)
    start = 4 + int.from_bytes(payload[:4], "little")
    shape = [header[name] for name in ("n_layers", "n_heads", "rows", "cols")]
    return np.frombuffer(payload, np.uint8, count=np.prod(shape), offset=start).reshape(shape)


def exact_weights(payload: bytes) -> np.ndarray:
    """What the browser reads after the pixels: float32 [layer, head, row, col]."""
    assert read_header(payload)["exact"] is True
    codes = pixels(payload)
    return np.frombuffer(payload[-4 * codes.size :], "<f4").reshape(codes.shape)


# ---- pooling


@pytest.mark.parametrize("length", [65, 100, 127, 128, 511, 512])
def test_pool_keeps_the_strongest_weight_of_every_cell(length):
    pattern = np.random.default_rng(length).random((2, 3, length, length), dtype=np.float32)
    starts = [i * length // MAX_CELLS for i in range(MAX_CELLS)] + [length]
    runs = np.diff(starts)
    assert runs.max() - runs.min() <= 1
    expected = np.array(
        [[pattern[..., a:b, c:d].max(axis=(-2, -1)) for c, d in pairwise(starts)] for a, b in pairwise(starts)]
    ).transpose(2, 3, 0, 1)
    np.testing.assert_array_equal(pool(pattern), expected)


@pytest.mark.parametrize("length", [65, 511, 512])
def test_a_single_strong_link_stays_as_strong_as_it_is_wherever_it_stands(length):
    for query, key in [(0, length - 1), (length - 1, 0), (length // 2, length // 3)]:
        pattern = np.zeros((1, 1, length, length), dtype=np.float32)
        pattern[0, 0, query, key] = 0.9
        pooled = pool(pattern)
        assert pooled.shape == (1, 1, 64, 64)
        assert np.count_nonzero(pooled) == 1
        assert pooled.max() == np.float32(0.9)


def test_pool_leaves_a_pattern_that_fits_as_it_came():
    pattern = softmax_pattern(1, 2, 64)
    np.testing.assert_array_equal(pool(pattern), pattern)


def test_pool_takes_each_axis_on_its_own():
    assert pool(np.ones((2, 3, 4, 200))).shape == (2, 3, 4, 64)
    assert pool(np.ones((2, 3, 200, 4))).shape == (2, 3, 64, 4)
    assert pool(np.ones((2, 3, 9, 9)), n=4).shape == (2, 3, 4, 4)


# ---- the payload


@pytest.mark.parametrize("length", [64, 128, 512])
def test_the_payload_of_12_x_12_heads_stays_small_at_any_length(length):
    payload = packed(softmax_pattern(12, 12, length))
    assert 12 * 12 * 64 * 64 < len(payload) <= 650_000


def test_the_header_says_everything_and_nothing_more():
    header = read_header(packed(softmax_pattern(2, 3, 5)))
    assert header == {
        "version": 2,
        "n_layers": 2,
        "n_heads": 3,
        "rows": 5,
        "cols": 5,
        "row_starts": None,
        "col_starts": None,
        "tokens": ["t0", "t1", "t2", "t3", "t4"],
        "keys": None,
        "query_padding": [0] * 5,
        "key_padding": [0] * 5,
        "masked": True,
        "exact": True,
        "digest": zlib.crc32(softmax_pattern(2, 3, 5).tobytes()),
    }


def test_queries_and_keys_may_be_other_tokens():
    weights = softmax_pattern(1, 2, 5)[..., :2, :]
    flags = np.zeros(5, dtype=bool)
    payload = pack(
        weights, tokens=["a", "b"], keys=list("vwxyz"), query_padding=flags[:2], key_padding=flags, masked=True
    )
    header = read_header(payload)
    assert (header["tokens"], header["keys"]) == (["a", "b"], list("vwxyz"))
    assert (header["rows"], header["cols"], header["exact"]) == (2, 5, True)
    np.testing.assert_array_equal(np.frombuffer(payload[-40:], np.float32).reshape(2, 5), weights[0, 1])


def test_tokens_arrive_as_typed():
    length = len(ODD_TOKENS)
    payload = packed(softmax_pattern(1, 1, length), tokens=ODD_TOKENS)
    assert read_header(payload)["tokens"] == ODD_TOKENS
    size = int.from_bytes(payload[:4], "little")
    json.loads(payload[4 : 4 + size].decode("utf-8", errors="strict"))
    assert len(payload) == 4 + size + 5 * length * length


@pytest.mark.parametrize("length", [65, 100, 511])
def test_uneven_lengths_name_the_tokens_of_each_cell(length):
    header = read_header(packed(softmax_pattern(1, 2, length)))
    starts = header["row_starts"]
    assert header["rows"] == header["cols"] == len(starts) == 64
    assert starts == header["col_starts"]
    assert starts[0] == 0
    runs = np.diff([*starts, length])
    assert set(runs) == {length // 64, length // 64 + 1}


def test_a_byte_decodes_to_the_weight():
    pattern = softmax_pattern(3, 2, 33)
    codes = pixels(packed(pattern)).astype(np.float64)
    assert np.abs(codes / 255 - np.sqrt(pattern)).max() <= 0.5 / 255 + 1e-6
    assert codes.max() > 200  # the bound above says little about a pattern without strong weights


def test_a_payload_with_few_cells_carries_the_weights_after_the_pixels():
    pattern = softmax_pattern(3, 2, 33)
    flags = padding(33, 32)
    payload = packed(pattern, query_padding=flags)
    start = 4 + int.from_bytes(payload[:4], "little")
    assert len(payload) == start + 5 * pattern.size
    np.testing.assert_array_equal(exact_weights(payload)[:, :, :32], pattern[:, :, :32])
    assert not exact_weights(payload)[:, :, 32].any()  # a padded query says nothing


@pytest.mark.parametrize(("length", "exact"), [(28, True), (29, False), (64, False), (512, False)])
def test_weights_travel_while_the_payload_stays_small(length, exact):
    payload = packed(softmax_pattern(12, 12, length))
    assert read_header(payload)["exact"] is exact
    assert len(payload) <= EXACT_BYTES or not exact
    assert pixels(payload).size == 144 * min(length, 64) ** 2


def test_long_names_count_and_pooled_cells_have_no_weight_of_their_own():
    assert len(packed(softmax_pattern(12, 12, 28))) > EXACT_BYTES - 40_000
    assert read_header(packed(softmax_pattern(12, 12, 28), tokens=["x" * 2000] * 28))["exact"] is False
    assert read_header(packed(softmax_pattern(1, 1, 65)))["exact"] is False


def test_the_codes_of_known_weights():
    pattern = np.array([[[[0.0, 1.0], [0.25, 0.75]]]], dtype=np.float32)
    assert pixels(packed(pattern)).tolist() == [[[[0, 255], [128, 221]]]]


def test_one_array_a_layer_gives_the_same_bytes_as_all_layers_stacked():
    pattern = softmax_pattern(3, 2, 70)
    assert packed(list(pattern)) == packed(pattern)


def test_packing_leaves_the_pattern_alone():
    pattern = softmax_pattern(1, 1, 6)
    pattern.flags.writeable = False  # the record of a run is read-only
    before = pattern.copy()
    packed(pattern, query_padding=padding(6, 5))
    np.testing.assert_array_equal(pattern, before)


# ---- padding


def masked_pattern(length: int, padded: list[int]) -> np.ndarray:
    pattern = softmax_pattern(2, 2, length)
    pattern[..., padded] = 0
    return pattern / pattern.sum(axis=-1, keepdims=True)


def test_a_pooled_cell_is_padding_only_if_all_its_tokens_are():
    flags = padding(128, *range(101, 128))  # cells of two tokens: 100 is real and 101 is not
    pattern = masked_pattern(128, list(range(101, 128)))
    header = read_header(packed(pattern, query_padding=flags, key_padding=flags))
    assert header["query_padding"] == header["key_padding"] == [0] * 51 + [1] * 13


def test_a_cell_of_real_and_padded_queries_holds_the_strongest_of_the_real_ones():
    pattern = np.full((1, 1, 128, 128), 0.01, dtype=np.float32)
    pattern[0, 0, 100, 7] = 0.25  # real
    pattern[0, 0, 101, 7] = 1.0  # padding: a valid softmax row without meaning
    pattern[0, 0, 120] = 1.0
    codes = pixels(packed(pattern, query_padding=padding(128, *range(101, 128))))[0, 0]
    assert codes[50, 3] == 128  # 255 * sqrt(0.25), not the 255 of the padded row
    assert not codes[51:].any()
    assert codes[:51].all()


@pytest.mark.parametrize("padded", [[0, 1], [4, 5], [2]])
def test_padded_queries_are_left_out_on_either_side(padded):
    pattern = masked_pattern(6, padded)
    flags = padding(6, *padded)
    codes = pixels(packed(pattern, query_padding=flags, key_padding=flags))
    assert not codes[:, :, flags].any()
    assert not codes[..., flags].any()
    assert codes[:, :, ~flags].any(axis=-1).all()


def test_without_the_mask_padded_keys_keep_their_weight():
    flags = padding(4, 3)
    payload = packed(softmax_pattern(1, 1, 4), query_padding=flags, key_padding=flags, masked=False)
    header = read_header(payload)
    assert header["masked"] is False
    assert header["query_padding"] == [0, 0, 0, 1]
    assert pixels(payload)[0, 0, :3, 3].all()


def test_weight_on_a_padded_key_contradicts_the_mask():
    with pytest.raises(ValueError, match="padded key has weight"):
        packed(softmax_pattern(1, 1, 4), key_padding=padding(4, 3), masked=True)


@pytest.mark.parametrize("bad", [np.nan, 1.5, -0.2])
def test_numbers_that_are_no_weights_are_refused(bad):
    pattern = softmax_pattern(1, 2, 70)
    pattern[0, 1, 3, 4] = bad
    if bad < 0:
        pattern[0, 1] = bad  # one negative number of several is not the strongest
    with pytest.raises(ValueError, match="between 0 and 1"):
        packed(pattern)


def test_rounding_just_above_one_is_no_fault():
    assert pixels(packed(np.full((1, 1, 1, 1), 1.000001, dtype=np.float32))).item() == 255


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": ["a", "b"]},
        {"query_padding": padding(2)},
        {"key_padding": padding(4)},
        {"key_padding": [0, 0, 1]},  # 0/1 integers may mean either sense
    ],
)
def test_lengths_and_flags_that_disagree_are_refused(changes):
    with pytest.raises(ValueError, match="token"):
        packed(softmax_pattern(1, 1, 3), **changes)


# ---- the choice


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"layer": 3, "head": 5, "serial": 7}, (3, 5, 7)),
        ({"layer": 0, "head": 0, "serial": 1}, (0, 0, 1)),
        ({"layer": 6, "head": 12, "serial": 1}, (5, 11, 1)),
        ({"layer": -1, "head": -(10**30), "serial": -4}, (0, 0, 0)),
        ({"layer": 10**30, "head": 5, "serial": 10**30}, (5, 5, 2**53 - 1)),
        ({"layer": 1.0, "head": 5, "serial": 1}, None),
        ({"layer": True, "head": 5, "serial": 1}, None),
        ({"layer": "1", "head": 5, "serial": 1}, None),
        ({"layer": None, "head": 5, "serial": 1}, None),
        ({"layer": [1], "head": 5, "serial": 1}, None),
        ({"layer": 1, "head": float("nan"), "serial": 1}, None),
        ({"layer": 1, "head": 5}, None),
        ({"head": 5, "serial": 1}, None),
        ({}, None),
        ([1, 5, 1], None),
        ("1.5", None),
        (None, None),
    ],
)
def test_a_pick_is_clamped_or_refused(value, expected):
    assert read_pick(value, 6, 12) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"layer": 3, "head": 5}, (3, 5)),
        ({"layer": 6, "head": -1}, (5, 0)),
        ({"layer": 10**30, "head": 5, "serial": "x"}, (5, 5)),
        ({"layer": True, "head": 5}, None),
        ({"layer": 1.0, "head": 5}, None),
        ({"layer": 1}, None),
        ([1, 5], None),
        (None, None),
    ],
)
def test_a_probe_is_clamped_or_refused(value, expected):
    assert read_probe(value, 6, 12) == expected


@pytest.mark.parametrize("state", [None, {}, {"pick": None}, {"pick": "x"}, {"pick": {"layer": "0"}}, "text"])
def test_the_callback_ignores_what_is_no_pick(state, monkeypatch):
    session = {"grid": state}
    monkeypatch.setattr(mount.st, "session_state", session)
    mount._picked("grid", 6, 12, lambda layer, head: pytest.fail(f"picked {layer}, {head}"))
    assert session == {"grid": state}


def test_the_callback_hands_on_a_clamped_pick(monkeypatch):
    monkeypatch.setattr(mount.st, "session_state", {"grid": {"pick": {"layer": 99, "head": -3, "serial": 4}}})
    picks = []
    mount._picked("grid", 6, 12, lambda layer, head: picks.append((layer, head)))
    assert picks == [(5, 0)]
    assert mount.st.session_state["grid-echo"] == 4


def page():
    import numpy as np
    import streamlit as st

    from components.attention_grid import attention_grid, pack

    flags = np.zeros(2, dtype=bool)
    payload = pack(np.full((3, 4, 2, 2), 0.5), tokens=["a", "b"], query_padding=flags, key_padding=flags, masked=True)
    selected = (st.session_state.get("layer", 0), st.session_state.get("head", 0))
    said = {name: st.session_state[name] for name in ("score", "off") if name in st.session_state}
    attention_grid(payload, selected=selected, on_pick=lambda layer, head: None, **said)


def test_a_new_choice_leaves_the_payload_alone_and_reaches_the_announcer():
    app = AppTest.from_function(page).run()
    grid, announcer = (element.proto for element in app.get("bidi_component"))
    assert json.loads(announcer.json) == {"target": "grid", "layer": 0, "head": 0, "echo": 0}
    app.session_state["layer"], app.session_state["head"] = 2, 99
    app.run()
    assert not app.exception
    grid_after, announcer_after = (element.proto for element in app.get("bidi_component"))
    assert grid_after.bytes == grid.bytes
    assert grid_after.id == grid.id
    assert len(grid.bytes) > 3 * 4 * 2 * 2
    assert json.loads(announcer_after.json) == {"target": "grid", "layer": 2, "head": 3, "echo": 0}


# ---- a score over the grid


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.68, ".68"),
        (0.6774, ".68"),
        (0.5, ".5"),
        (0.034, ".034"),
        (0.01, ".01"),
        (0.0099, "≈0"),
        (-1e-9, "≈0"),
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1.94, "1.9"),
        (-1.94, "−1.9"),
        (9.96, "10"),
        (12.4, "12"),
        (99.6, "100"),
        (123.4, "123"),
        (999.6, "1k"),
        (3421.0, "3.4k"),
        (2.5e6, "2.5M"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
    ],
)
def test_a_number_in_a_tile_has_two_digits(value, text):
    assert short_number(value) == text


def test_a_score_is_announced_as_bars_and_texts_and_its_means_leave_out_what_has_no_value():
    score = GridScore("Entropy (nats)", np.array([[0.5, np.nan, 1.5], [3.0, np.nan, np.nan]]), high=2.0)
    said = announcement(score)
    json.dumps(said, allow_nan=False)  # NaN would end the component in the browser
    assert said == {
        "label": "Entropy (nats)",
        "high": "2",
        "bars": [[0.25, None, 0.75], [1.0, None, None]],
        "short": [[".5", "–", "1.5"], ["3", "–", "–"]],
        "full": [["0.5", "–", "1.5"], ["3", "–", "–"]],
        "layers": ["1", "3"],
        "heads": ["1.8", "–", "1.5"],
    }


def test_bars_stay_between_nothing_and_full():
    score = GridScore("x", np.array([[-1.0, np.inf, 0.123456]], dtype=np.float32), high=1)
    assert announcement(score)["bars"] == [[0.0, 1.0, 0.123]]


@pytest.mark.parametrize("high", [0, -1, np.nan, np.inf])
def test_a_bar_without_an_end_is_refused(high):
    with pytest.raises(ValueError, match="end of the bar"):
        GridScore("x", np.ones((1, 1)), high)


@pytest.mark.parametrize("shape", [(3,), (0, 4), (3, 4, 1)])
def test_a_score_is_a_number_a_head(shape):
    with pytest.raises(ValueError, match="layer, head"):
        GridScore("x", np.ones(shape), 1)


def test_a_score_of_another_architecture_is_refused():
    score = GridScore("x", np.ones((4, 3)), 1)
    with pytest.raises(ValueError, match="as the grid"):
        mount.attention_grid(packed(softmax_pattern(3, 4, 2)), selected=(0, 0), on_pick=lambda *_: None, score=score)


def test_score_and_heads_that_are_off_travel_with_the_choice():
    app = AppTest.from_function(page).run()
    grid, _ = (element.proto for element in app.get("bidi_component"))
    score = GridScore("Entropy (nats)", np.ones((3, 4)), 2)
    app.session_state["score"], app.session_state["off"] = score, {(2, 0), (np.int64(1), 3)}
    app.run()
    assert not app.exception
    grid_after, announcer = (element.proto for element in app.get("bidi_component"))
    assert (grid_after.bytes, grid_after.id) == (grid.bytes, grid.id)
    said = json.loads(announcer.json)
    assert said["score"] == announcement(score)
    assert said["off"] == [[1, 3], [2, 0]]


# ---- exact weights of one head, where the payload has no room for all


def probing():
    import numpy as np
    import streamlit as st

    from components.attention_grid import attention_grid, pack

    length = st.session_state.get("length", 64)
    flags = np.zeros(length, dtype=bool)
    logits = np.random.default_rng(st.session_state.get("seed", 0)).random((12, 12, length, length), dtype=np.float32)
    pattern = logits / logits.sum(axis=-1, keepdims=True)
    payload = pack(pattern, tokens=["t"] * length, query_padding=flags, key_padding=flags, masked=True)

    def exact(layer, head):
        st.session_state["asked"] = (layer, head)
        return pattern[layer, head]

    how = {} if "silent" in st.session_state else {"exact": exact}
    attention_grid(payload, selected=(0, 1), on_pick=lambda layer, head: None, **how)


def probe(app: AppTest, layer: int, head: int) -> None:
    """What the callback leaves behind, which runs before the script."""
    digest = read_header(app.get("bidi_component")[0].proto.bytes)["digest"]
    app.session_state["grid-probe"] = (digest, (layer, head))
    app.run()


def test_exact_weights_come_once_they_are_asked_for_and_change_nothing_else():
    app = AppTest.from_function(probing).run()
    grid, announcer = (element.proto for element in app.get("bidi_component"))
    assert json.loads(announcer.json)["probes"] is True
    assert "asked" not in app.session_state
    probe(app, 3, 5)
    assert not app.exception
    grid_after, announcer_after, exact = (element.proto for element in app.get("bidi_component"))
    assert (grid_after.bytes, announcer_after.json) == (grid.bytes, announcer.json)
    header, body = read_packet(exact.bytes)
    assert header == {"target": "grid", "digest": read_header(grid.bytes)["digest"], "layer": 3, "head": 5}
    codes = np.rint(255 * np.sqrt(np.frombuffer(body, "<f4").reshape(64, 64))).astype(np.uint8)
    np.testing.assert_array_equal(codes, pixels(grid.bytes)[3, 5])


@pytest.mark.parametrize("change", [{"seed": 1}, {"length": 100}, {"length": 20}, {"silent": True}])
def test_what_was_asked_of_another_payload_is_forgotten(change):
    app = AppTest.from_function(probing).run()
    probe(app, 3, 5)
    for name, value in change.items():
        app.session_state[name] = value
    app.run()
    assert not app.exception
    assert len(app.get("bidi_component")) == 2
    assert ("probes" in json.loads(app.get("bidi_component")[1].proto.json)) == ("seed" in change)


def test_the_callback_keeps_the_head_that_was_asked_for(monkeypatch):
    monkeypatch.setattr(mount.st, "session_state", {"grid": {"probe": {"layer": 99, "head": 2}}})
    mount._probed("grid", 6, 12, 7)
    assert mount.st.session_state["grid-probe"] == (7, (5, 2))
    monkeypatch.setattr(mount.st, "session_state", {"grid": {"probe": {"layer": "1"}}})
    mount._probed("grid", 6, 12, 7)
    assert "grid-probe" not in mount.st.session_state


def test_exact_weights_leave_padded_queries_out_as_the_pixels_do():
    pattern = softmax_pattern(12, 12, 64)
    header = read_header(packed(pattern, query_padding=padding(64, 0, 63)))
    _, body = read_packet(mount._weights("grid", header, (3, 5), lambda layer, head: pattern[layer, head]))
    weights = np.frombuffer(body, "<f4").reshape(64, 64)
    np.testing.assert_array_equal(weights[1:63], pattern[3, 5, 1:63])
    assert not weights[[0, 63]].any()


def test_exact_weights_of_other_tokens_are_refused():
    header = {"rows": 3, "cols": 3, "digest": 7}
    with pytest.raises(ValueError, match="query, key"):
        mount._weights("grid", header, (0, 0), lambda layer, head: np.ones((3, 4)))
