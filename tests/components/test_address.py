"""Every parameter survives the way into the address and back; what does not belong there becomes the default."""

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from components.address import (
    MAX_CHARACTERS,
    MAX_FF,
    MAX_PAD,
    MAX_WIDTH,
    NUMBER,
    PARAMETERS,
    SETTINGS,
    encode,
    pack_settings,
    read,
    read_settings,
    write,
)
from explorer.config import LIMITS
from explorer.precision import PRECISIONS
from explorer.stats.heads import SCORES
from explorer.stats.layernorm import MISTAKES
from explorer.stats.masking import WAYS
from explorer.stats.rollout import SUMS
from explorer.weights.seeded import MAX_SEED

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "source": st.sampled_from(["minilm", "minilm-preln", "built", "lab"]),
    "text": TEXTS,
    "layers": st.just(0) | st.integers(*LIMITS["n_layers"]),
    "heads": st.integers(1, MAX_WIDTH),
    "d_model": st.integers(1, MAX_WIDTH),
    "d_ff": st.integers(1, MAX_FF),
    "activation": st.sampled_from(["relu", "gelu", "silu"]),
    "norm": st.sampled_from(["post", "pre"]),
    "positions": st.sampled_from(["sinusoidal", "learned", "none"]),
    "final_norm": st.sampled_from(["auto", "true", "false"]),
    "init": st.sampled_from(["xavier", "normal"]),
    "seed": st.integers(0, MAX_SEED),
    "pad_to": st.integers(0, MAX_PAD),
    "pad_side": st.sampled_from(["right", "left"]),
    "mask": st.booleans(),
    "causal": st.booleans(),
    "device": st.sampled_from(["auto", "cpu", "cuda", "mps"]),
    "precision": st.sampled_from(list(PRECISIONS)),
    "beside": st.booleans(),
    "view": st.sampled_from(
        ["attention", "layernorm", "residual", "shapes", "padding", "proof", "laboratory", "compare"]
    ),
    "sentence": st.integers(0, 9_999),
    "sel": st.tuples(st.integers(0, 1023), st.integers(0, 1023)),
    "token": st.integers(0, 9_999),
    "show": st.sampled_from(["map", "lines", "token", "sums", "queries", "ablation"]),
    "units": st.sampled_from(["tokens", "words"]),
    "special": st.sampled_from(["shown", "hidden", "renormalised"]),
    "pair": st.sampled_from(["all", "aa", "ab", "ba", "bb"]),
    "score": st.sampled_from(["none", *SCORES]),
    "sum": st.sampled_from(list(SUMS)),
    "off": st.sets(st.tuples(st.integers(0, 1023), st.integers(0, 1023)), max_size=20).map(lambda s: tuple(sorted(s))),
    "scale": st.sampled_from(["linear", "sqrt", "log"]),
    "table": st.sampled_from(["queries", "heads"]),
    "quantity": st.sampled_from(
        ["std_in", "var_in", "mean_in", "std_normalised", "mean_normalised", "std_out", "mean_out", "eps_share"]
    ),
    "norm_show": st.sampled_from(["tokens", "token", "distribution", "parameters", "batchnorm", "mistakes"]),
    "norm_at": st.sampled_from(["embed", "norm1", "norm2", "final"]),
    "mistake": st.sampled_from(["all", *MISTAKES]),
    "stream": st.sampled_from(["norm", "turned", "added", "added_cosine"]),
    "stream_show": st.sampled_from(["growth", "directions", "token", "checkpoint", "paths", "sentences"]),
    "point": st.sampled_from(["pre", "mid", "post", "final"]),
    "pooling": st.sampled_from(["mean", "cls"]),
    "stream_pair": st.sampled_from(["map", "distance", "growth"]),
    "pair_show": st.sampled_from(["summary", "outputs"]),
    "pair_table": st.sampled_from(["heads", "tokens", "settings"]),
    "shape_show": st.sampled_from(["cost", "growth", "tensor", "parameters"]),
    "site": st.sampled_from(["attn.q", "attn.scores", "resid_post", "embed.sum", "final_norm.out", "token_ids"]),
    "pad_show": st.sampled_from(["ways", "maps", "mask", "batch", "pooling"]),
    "padded_to": st.integers(0, MAX_PAD),
    "padded_side": st.sampled_from(["right", "left"]),
    "hide": st.sampled_from(list(WAYS)),
    "lab": st.sampled_from(["gradients", "learn", "race"]),
    "task": st.sampled_from(["reverse", "copy", "shift"]),
    "lab_norm": st.sampled_from(["post", "pre"]),
    "rate": st.sampled_from(["0.003", "0.001", "0.0003"]),
    "warm_up": st.sampled_from(["0", "50", "100"]),
    "lab_init": st.sampled_from(["xavier", "normal"]),
    "grow": st.sampled_from(["length", "width", "depth"]),
    "cost": st.sampled_from(["flops", "bytes", "parameters"]),
}


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """What fixes a run of any source."""
    values = {key: draw(VALUES[key]) for key in SETTINGS}
    return values | ({NUMBER: draw(st.integers(0, 10**9))} if values["source"] == "lab" else {})


VALUES["a"] = st.just("") | settings().map(pack_settings)
DEFAULTS = {key: parameter.default for key, parameter in PARAMETERS.items()}


def link(values: dict[str, Any]) -> str:
    """The query string as Streamlit and the browser write it."""
    return urlencode(write(DEFAULTS | values))


def opened(query_string: str) -> tuple[dict[str, Any], list[str]]:
    """What a page reads that is opened at this address."""
    return read({key: values[-1] for key, values in parse_qs(query_string, keep_blank_values=True).items()})


def test_every_parameter_has_an_example_here() -> None:
    assert VALUES.keys() == PARAMETERS.keys()


@given(st.fixed_dictionaries(VALUES))
def test_all_values_come_back_through_an_address(values: dict[str, Any]) -> None:
    assert opened(link(values)) == (values, [])


@pytest.mark.parametrize("key", PARAMETERS)
@given(data=st.data())
def test_each_value_comes_back_alone_and_of_its_own_type(key: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[key])
    values, refused = opened(link({key: value}))
    assert (values, refused) == (DEFAULTS | {key: value}, [])
    assert type(values[key]) is type(value)


def test_defaults_are_left_out_and_an_empty_address_gives_them() -> None:
    assert write(DEFAULTS) == {}
    assert read({}) == (DEFAULTS, [])


@pytest.mark.parametrize("key", PARAMETERS)
def test_only_what_differs_is_in_the_address(key: str) -> None:
    other = next(value for value in _some(key) if value != DEFAULTS[key])
    assert list(write(DEFAULTS | {key: other})) == [key]


def _some(key: str) -> list[Any]:
    choices: dict[type, list[Any]] = {bool: [True, False], int: [1, 2], tuple: [(0, 0), (1, 1)]}
    words = [
        "built",
        "pre",
        "gelu",
        "none",
        "true",
        "normal",
        "left",
        "cpu",
        "shapes",
        "mean_in",
        "final",
        "log",
        "heads",
        "lines",
        "words",
        "hidden",
        "ab",
        "entropy",
        "mean",
        "parameters",
        "minus_beta",
        "turned",
        "paths",
        "final",
        "cls",
        "tensor",
        "ff_out",
        "depth",
        "pooling",
        "zero_after",
        "race",
        "copy",
        "0.001",
        "50",
        "bytes",
        "bfloat16",
        "growth",
        "outputs",
        "tokens",
        "maps",
        "zero_after",
        '{"source":"built","seed":"3"}',
    ]
    if key == "off":
        return [(), ((0, 0), (1, 1))]
    return choices.get(type(DEFAULTS[key]), [word for word in words if _accepted(key, word)])


def _accepted(key: str, raw: str) -> bool:
    return not read({key: raw})[1]


def test_false_and_zeros_survive() -> None:
    values = {"mask": False, "sel": (0, 0), "seed": 0, "pad_to": 0, "sentence": 0, "final_norm": "false", "text": ""}
    assert opened(link(values)) == (DEFAULTS | values, [])
    assert write(DEFAULTS | values) == {"text": "", "final_norm": "false", "mask": "false", "sel": "0.0"}


@pytest.mark.parametrize("raw", ["0", "false", "False", "FALSE"])
def test_the_mask_may_be_switched_off_in_any_spelling(raw: str) -> None:
    values, refused = read({"mask": raw})
    assert values["mask"] is False
    assert not refused


@pytest.mark.parametrize("key", ["seed", "pad_to", "sentence"])
def test_a_zero_that_is_written_is_a_zero(key: str) -> None:
    assert read({key: "0"}) == (DEFAULTS, [])


HOSTILE = [
    ("token", "-1"),
    ("norm_show", "dims"),
    ("mistake", "none"),
    ("stream", "length"),
    ("stream_show", "cosines"),
    ("point", "resid_post"),
    ("pooling", "max"),
    ("shape_show", "costs"),
    ("site", "layers.0.attn.q"),
    ("site", "../attn.q"),
    ("site", ""),
    ("grow", "height"),
    ("cost", "flop"),
    ("pad_show", "heads"),
    ("padded_to", "513"),
    ("padded_to", "-1"),
    ("padded_side", "both"),
    ("hide", "0"),
    ("show", "maps"),
    ("units", "letters"),
    ("special", "SHOWN"),
    ("pair", "ca"),
    ("score", "mean"),
    ("sum", "sum"),
    ("off", "3"),
    ("off", "3.1_"),
    ("off", "3.1,4.2"),
    ("off", "-1.0"),
    ("off", "0.0_" * 9_000 + "0.0"),
    ("heads", "abc"),
    ("heads", ""),
    ("heads", "0"),
    ("heads", "3.0"),
    ("heads", "-0"),
    ("layers", "-1"),
    ("layers", "999"),
    ("layers", "25"),
    ("layers", "0"),
    ("layers", "NaN"),
    ("mask", "maybe"),
    ("mask", ""),
    ("mask", "2"),
    ("norm", ""),
    ("norm", "PRE"),
    ("norm", "pre\n"),
    ("sel", "9"),
    ("sel", ""),
    ("sel", "."),
    ("sel", "1."),
    ("sel", "a.b"),
    ("sel", "-1.2"),
    ("sel", "1.2.3"),
    ("sel", "1.1024"),
    ("sel", "1, 2"),
    ("seed", "1e3"),
    ("seed", "+1"),
    ("seed", "1_000"),
    ("seed", " 1"),
    ("seed", "\u0661"),  # an Arabic one, which int() would read
    ("seed", "\u00b2"),  # a superscript two, a digit to isdigit() and none to int()
    ("seed", "9" * 5_000),  # int() itself refuses this many digits
    ("seed", str(MAX_SEED + 1)),
    ("pad_to", "513"),
    ("d_model", "1025"),
    ("d_ff", "4097"),
    ("device", "cuda:1"),
    ("source", "minilm'; --"),
    ("view", "../attention"),
    ("view", "__class__"),
    ("sentence", "10000"),
    ("quantity", "norm"),
    ("norm_at", "norm3"),
    ("table", "tables"),
    ("scale", "cube"),
    ("text", "x" * (MAX_CHARACTERS + 1)),
    ("causal", "both"),
    ("precision", "float8"),
    ("precision", "double"),
    ("stream_pair", "maps"),
    ("pair_show", "output"),
    ("pair_table", "head"),
    ("pad_show", "way"),
    ("padded_to", "513"),
    ("padded_to", "-1"),
    ("padded_side", "both"),
    ("hide", "-inf"),
    ("shape_show", "parameter"),
    ("view", "compared"),
    ("a", "x"),
    ("a", "built"),
    ("a", "null"),
    ("a", "3"),
    ("a", '"built"'),
    ("a", "[]"),
    ("a", '["source","built"]'),
    ("a", '{"source":"built"'),
    ("a", "{'source':'built'}"),
    ("a", '{"source":"built"} x'),
    ("a", "[" * 10_000),
    ("a", '{"a":' * 7_000),
    ("a", '{"source":"built","seed":' + "[" * 9_000 + "]" * 9_000 + "}"),
    ("a", '{"source":"built","a":"{}"}'),
    ("a", '{"source":"built","view":"shapes"}'),
    ("a", '{"source":"built","beside":"true"}'),
    ("a", '{"source":"built","":""}'),
    ("a", "{}"),
    ("a", '{"seed":"1"}'),
    ("a", '{"source":"minilm","number":"1"}'),
    ("a", '{"source":"lab","heads":"2"}'),
    ("a", '{"source":"lab","number":"-1"}'),
    ("a", '{"source":"lab","number":"1e3"}'),
    ("a", '{"source":"built","seed":1}'),
    ("a", '{"source":"built","mask":false}'),
    ("a", '{"source":"built","seed":null}'),
    ("a", '{"source":"built","seed":["1"]}'),
    ("a", '{"source":["built"]}'),
    ("a", '{"source":{}}'),
    ("a", '{"source":"theirs"}'),
    ("a", '{"source":"built","seed":"-1"}'),
    ("a", '{"source":"built","seed":"1e3"}'),
    ("a", '{"source":"built","layers":"25"}'),
    ("a", '{"source":"built","layers":"0"}'),
    ("a", '{"source":"built","precision":"float8"}'),
    ("a", '{"source":"built","off":"1"}'),
    ("a", '{"source":"built","text":"' + "x" * (MAX_CHARACTERS + 1) + '"}'),
    ("a", '{"source":"built","text":"' + "x" * 100_000 + '"}'),
    ("a", " " * 200_000 + '{"source":"built"}'),
    ("a", "9" * 5_000),
    ("a", "NaN"),
    ("a", "Infinity"),
    ("a", '{"source":"built","text":"\\ud800"}'),  # half a character, which no address can hold
    ("a", '{"source":"built","text":"\\udc00 b"}'),
    ("a", "__import__('os')"),
]


@pytest.mark.parametrize(("key", "raw"), HOSTILE, ids=[f"{key}={raw[:12]!r}" for key, raw in HOSTILE])
def test_a_hostile_value_becomes_the_default_and_is_named(key: str, raw: str) -> None:
    assert read({key: raw}) == (DEFAULTS, [key])


@given(settings())
def test_the_settings_of_any_run_come_back_and_are_written_in_one_way(values: dict[str, Any]) -> None:
    packed = pack_settings(values)
    assert read_settings(packed) == values
    assert [type(value) for value in read_settings(packed).values()] == [type(value) for value in values.values()]
    assert pack_settings(read_settings(packed)) == packed
    assert opened(link({"a": packed})) == (DEFAULTS | {"a": packed}, [])


@given(settings(), st.randoms())
def test_settings_in_another_order_or_with_defaults_written_out_are_the_same(
    values: dict[str, Any], random: Any
) -> None:
    """Of one pair there is one link."""
    written = [(key, encode(value)) for key, value in values.items() if (key, value) != ("layers", 0)]
    random.shuffle(written)
    raw = json.dumps(dict(written), indent=1)
    assert read({"a": raw}) == (DEFAULTS | {"a": pack_settings(values)}, [])


def test_only_what_fixes_a_run_is_packed_and_what_would_be_built() -> None:
    everything = DEFAULTS | {"source": "built", "seed": 7, "mask": False, "text": "a", "sel": (1, 1), "view": "shapes"}
    assert pack_settings(everything) == '{"source":"built","text":"a","seed":"7","mask":"false"}'
    assert (
        pack_settings(everything | {"source": "minilm"}) == '{"source":"minilm","text":"a","seed":"7","mask":"false"}'
    )
    of_lab = everything | {"source": "lab", NUMBER: 12}
    assert pack_settings(of_lab) == '{"source":"lab","text":"a","seed":"7","mask":"false","number":"12"}'
    assert pack_settings(DEFAULTS) == '{"source":"minilm"}'
    assert read_settings('{"source":"minilm"}') == {key: DEFAULTS[key] for key in SETTINGS}


@pytest.mark.parametrize("letter", ["x", '"', "\\", "\n", "\x01", "\U0001f44d"])
def test_the_settings_of_the_longest_text_come_back(letter: str) -> None:
    """Some letters take more room in JSON."""
    values = {key: DEFAULTS[key] for key in SETTINGS}
    values |= {"source": "built", "text": letter * MAX_CHARACTERS, "off": tuple((layer, 0) for layer in range(24))}
    assert read_settings(pack_settings(values)) == values


@given(st.text(max_size=40) | st.text('{}[]":,builtsource012', max_size=40))
def test_nothing_that_is_read_as_settings_is_an_error(raw: str) -> None:
    values, refused = read({"a": raw})
    assert refused == ([] if values["a"] or not raw else ["a"])


def test_one_bad_value_does_not_spoil_the_good_ones() -> None:
    values, refused = read({"heads": "abc", "seed": "7", "layers": "-1", "mask": "false"})
    assert refused == ["layers", "heads"]
    assert values == DEFAULTS | {"seed": 7, "mask": False}


@given(st.dictionaries(st.sampled_from(list(PARAMETERS)), st.text(max_size=12)))
def test_no_value_at_all_makes_reading_fail_and_what_is_read_can_be_written(query: dict[str, str]) -> None:
    values, refused = read(query)
    assert values.keys() == PARAMETERS.keys()
    assert set(refused) <= query.keys()
    assert read(write(values)) == (values, [])


def test_unknown_keys_are_ignored() -> None:
    assert read({"embed": "true", "utm_source": "x", "": "", "kept": "1"}) == (DEFAULTS, [])


@given(TEXTS)
@example("a & b # c + d % e = f ? g")
@example("100 %25 \n two lines\n")
@example("\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd")
@example("القطة \u202e\u200b")
@example("false")
@example("")
def test_any_text_comes_back_through_a_quoted_address(text: str) -> None:
    query = write(DEFAULTS | {"text": text})
    by_hand = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
    for query_string in (by_hand, urlencode(query)):
        assert opened(query_string) == (DEFAULTS | {"text": text}, [])


def test_the_longest_text_is_still_accepted() -> None:
    text = "x" * MAX_CHARACTERS
    assert read({"text": text})[0]["text"] == text


@pytest.mark.parametrize(
    ("value", "written"), [(True, "true"), (False, "false"), (0, "0"), (12, "12"), ((3, 5), "3.5"), ("pre", "pre")]
)
def test_how_values_are_written(value: Any, written: str) -> None:
    assert encode(value) == written
