"""What is chosen stays chosen, travels in the address, and is brought into bounds where they change."""

from collections.abc import Sequence
from typing import Any

import pytest

import explorer
from components.address import DEFAULT_TEXT, MAX_CHARACTERS, PARAMETERS, encode
from explorer.config import divisors
from explorer.device import available
from tests.app.page import FREE, SMALL, VIEWS, WIDGETS, Page

NOT_HERE = [device for device in ("mps", "cuda") if device not in available()]


# D1: bounds that change ----------------------------------------------------------------------------------------------


def test_a_layer_that_is_gone_becomes_the_last_one() -> None:
    page = Page(source="built", layers="8", sel="5.2").ok()
    assert page.chosen == (5, 2)
    page.set("layers", 2).ok()
    assert page.chosen == (1, 2)
    assert page.heatmap["title"] == "L1 H2"
    assert page.link["sel"] == "1.2"
    for view in VIEWS:
        page.set("view", view).ok()


def test_a_head_that_is_gone_becomes_the_last_one() -> None:
    page = Page(source="built", heads="8", sel="1.7").ok()
    page.set("heads", 2).ok()
    assert page.heatmap["title"] == "L1 H1"
    page.set("source", "minilm").ok()
    assert page.chosen == (1, 1)


def test_a_pick_outside_the_grid_is_brought_into_it() -> None:
    page = Page(**SMALL)
    page.pick(10**6, -4).ok()
    assert page.link["sel"] == "1.0"


@pytest.mark.parametrize("nonsense", [("1", 0), (None, None), (0.5, 1), ([], {})])
def test_a_pick_that_is_none_changes_nothing(nonsense: tuple[object, object]) -> None:
    page = Page(**SMALL, sel="1.0")
    page.pick(*nonsense).ok()
    assert page.chosen == (1, 0)


def test_the_pick_is_answered_with_its_own_number() -> None:
    """The canvas tells by it that the answer is not an older one."""
    page = Page(**SMALL)
    page.pick(1, 1, serial=7)
    assert '"echo": 7' in page.component("grid-announcement").json


def test_a_sentence_that_is_gone_becomes_one_that_is_there() -> None:
    page = Page(**SMALL, text="a\nb\nc", sentence="2").ok()
    page.set("text", "a\nb").ok()
    assert page.value("sentence") == 1
    page.set("text", "a").ok()
    assert "sentence" not in page.link


def test_a_token_of_the_ribbon_is_the_choice_of_every_view(passes: list[explorer.Run]) -> None:
    page = Page(**SMALL, text="a b c\nd e").ok()
    assert page.announced("ribbon") == {"target": "ribbon", "sentence": 0, "token": 4}  # [SEP]: 10 is beyond the end
    page.tap(1, 2).ok()
    assert page.link["sentence"] == "1"
    assert page.link["token"] == "2"
    assert page.value("sentence") == 1
    assert page.announced("head")["row"] == 2
    for view in FREE:
        page.set("view", view).ok()
        assert page.announced("ribbon") == {"target": "ribbon", "sentence": 1, "token": 2}
    for nonsense in [(7, 0), (0, 9), (None, 0), ("1", 1), (True, 1)]:
        page.tap(*nonsense).ok()
    assert page.link["token"] == "2"
    assert len(passes) == 1


def test_choices_survive_a_visit_to_the_other_views() -> None:
    page = Page(**SMALL, view="layernorm")
    page.set("quantity", "mean_out").set("norm_choice", "L0 norm1").set("sentence", 1)
    before = page.link
    assert before["quantity"] == "mean_out"
    assert before["norm_at"] == "norm1"
    for view in ("attention", "residual", "shapes", "layernorm"):
        page.set("view", view).ok()
    assert page.link == before
    assert page.value("quantity") == "mean_out"
    assert page.value("norm_choice") == "L0 norm1"
    assert page.value("sentence") == 1


def test_choices_survive_a_text_that_is_refused() -> None:
    page = Page(**SMALL, view="layernorm", quantity="mean_in", sel="1.1")
    before = page.link
    page.set("text", "").refused()
    page.set("text", DEFAULT_TEXT).ok()
    assert page.link == before
    assert page.value("quantity") == "mean_in"


BUILT: dict[str, Any] = {
    "layers": 3,
    "heads": 2,
    "d_model": 10,
    "d_ff": 7,
    "activation": "silu",
    "norm": "pre",
    "positions": "learned",
    "final_norm": "false",
    "init": "normal",
    "seed": 42,
}


def test_built_settings_survive_a_visit_to_the_trained_encoder() -> None:
    page = Page(source="built", d_model="10", heads="2")
    for key, value in BUILT.items():
        page.set(key, value)
    before = page.ok().link
    assert {key: page.value(key) for key in BUILT} == BUILT
    page.set("source", "minilm").ok()
    assert page.value("layers") == 6
    page.set("layers", 2).ok()
    page.set("source", "built").ok()
    assert {key: page.value(key) for key in BUILT} == BUILT
    assert page.link == before | {"sel": page.link["sel"]}
    page.set("source", "minilm").ok()
    assert page.value("layers") == 2


def test_a_preset_sets_the_controls_and_leaves_them_free() -> None:
    page = Page(source="built", norm="pre", text="a b")
    page.set("preset", "paper base").ok()
    expected = {"layers": 6, "heads": 8, "d_model": 512, "d_ff": 2048, "norm": "post", "activation": "relu"}
    assert {key: page.value(key) for key in expected} == expected
    assert "6 layers × 8 heads, Post-LN" in page.status
    page.set("layers", 1).ok()
    assert page.value("layers") == 1
    page.set("preset", "classroom").ok()
    assert page.value("d_model") == 128
    assert page.link == {"source": "built", "text": "a b", "sel": page.link["sel"]}


# C1: heads divide the width ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d_model", [1, 7, 8, 9, 96, 128, 1021, 1024])
def test_only_divisors_of_the_width_are_offered(d_model: int) -> None:
    page = Page(**(SMALL | {"d_model": str(d_model), "heads": "1", "text": "a"})).ok()
    assert page.control("heads").options == [str(n) for n in divisors(d_model) if n <= 128]


@pytest.mark.parametrize(("d_model", "asked", "used"), [(8, 3, 2), (7, 2, 1), (9, 4, 3), (128, 100, 128)])
def test_heads_of_a_link_that_do_not_divide_the_width(d_model: int, asked: int, used: int) -> None:
    page = Page(**(SMALL | {"d_model": str(d_model), "heads": str(asked)})).ok()
    assert page.value("heads") == used
    assert page.notes == [f"The link asks for heads = {asked}, which is not possible here. {used} is used."]


def test_heads_follow_the_width() -> None:
    page = Page(**(SMALL | {"heads": "8"}))
    page.set("d_model", 12).ok()
    assert page.value("heads") == 6
    page.set("d_model", 7).ok()
    assert page.value("heads") == 7
    assert page.link["heads"] == "7"


# D2: links -----------------------------------------------------------------------------------------------------------

HOSTILE = [
    ("heads", "abc"),
    ("heads", "\u0664"),
    ("layers", "-1"),
    ("layers", "999"),
    ("mask", "maybe"),
    ("norm", ""),
    ("sel", "9"),
    ("sel", "a.b"),
    ("sel", "-1.2"),
    ("seed", "1e3"),
    ("seed", "\u0661"),
    ("pad_to", "100000"),
    ("device", "cuda:0"),
    ("view", "<script>alert(1)</script>"),
    ("source", "**bold** $x$ :red[b]"),
    ("text", "x" * (MAX_CHARACTERS + 1)),
    ("causal", "maybe"),
    ("precision", "float8"),
    ("a", "{"),
]


@pytest.mark.parametrize("source", [{}, SMALL], ids=["minilm", "built"])
@pytest.mark.parametrize(("key", "raw"), HOSTILE, ids=[f"{key}={raw[:12]}" for key, raw in HOSTILE])
def test_a_hostile_value_becomes_the_default_with_a_note(key: str, raw: str, source: dict[str, str]) -> None:
    source = {name: value for name, value in source.items() if name != key}
    page = Page(**source, **{key: raw}).ok()
    assert len(page.notes) == 1
    assert page.notes[0].startswith(f"The link asks for {key} = {raw[:24]}")
    assert page.again().notes == []  # the address that is written is clean
    if key == "sel" and source:
        assert page.link["sel"] == "1.1"  # a small encoder has no head 3.1
    else:
        assert page.link.get(key) == source.get(key)


def test_many_hostile_values_have_a_note_each_and_the_good_ones_count() -> None:
    page = Page(**{key: raw for key, raw in HOSTILE if key not in ("source", "layers")}, layers="2").ok()
    assert len(page.notes) == len({key for key, _ in HOSTILE} - {"source", "layers"})
    assert page.link == {"layers": "2", "sel": "1.1"}


def test_notes_on_the_link_stay_while_looking_and_go_when_something_else_is_asked_for() -> None:
    page = Page(**SMALL, seed="1e3", sentence="7", sel="40.0")
    assert len(page.notes) == 3
    assert len(page.pick(0, 0).set("view", "shapes").notes) == 3
    assert page.set("seed", 1).ok().notes == []


def test_notes_are_not_formatted() -> None:
    page = Page(view="<b>x</b>&amp;")
    raw = [element.proto.body for element in page.at.get("html") if 'class="note"' in element.proto.body]
    assert len(raw) == 1
    assert "&lt;b&gt;x&lt;/b&gt;&amp;amp;" in raw[0]


@pytest.mark.parametrize(
    ("source", "key", "asked", "used"),
    [({}, "layers", "7", 6), ({}, "layers", "24", 6), (SMALL, "pad_to", "513", 0), (SMALL, "sentence", "7", 1)],
)
def test_a_value_that_this_page_cannot_have_is_noted(
    source: dict[str, str], key: str, asked: str, used: object
) -> None:
    """A good value as such, but not with this encoder or this text."""
    page = Page(**(source | {key: asked})).ok()
    assert page.value(key) == used
    assert len(page.notes) == 1
    assert page.notes[0].startswith(f"The link asks for {key} = {asked}, which is not possible here.")


def test_a_head_that_this_encoder_does_not_have_is_noted() -> None:
    page = Page(sel="40.3").ok()
    assert page.chosen == (5, 3)
    assert len(page.notes) == 1
    assert page.notes[0].startswith("The link asks for sel = 40.3, which is not possible here.")
    assert Page(layers="2").ok().notes == []  # the default was not asked for


def test_zeros_and_false_survive() -> None:
    link = {"sel": "0.0", "mask": "0", "seed": "0", "pad_to": "0", "sentence": "0"}
    for source in ({"source": "minilm"}, SMALL):
        page = Page(**(source | link)).ok()
        assert page.notes == []
        assert page.chosen == (0, 0)
        assert page.value("mask") is False
        assert page.value("pad_to") == 0
        assert page.link == {key: v for key, v in source.items() if v != "minilm"} | {"sel": "0.0", "mask": "false"}


EVERYTHING = {
    "source": "built",
    "text": "one & two # + 100 %25\n\U0001f468\u200d\U0001f469\u200d\U0001f467 القطة <b>x",
    "layers": "3",
    "heads": "5",
    "d_model": "20",
    "d_ff": "9",
    "activation": "silu",
    "norm": "pre",
    "positions": "none",
    "final_norm": "false",
    "init": "normal",
    "seed": "77",
    "pad_to": "30",
    "pad_side": "left",
    "mask": "false",
    "causal": "true",
    "device": "cpu",
    "precision": "float64",
    "beside": "true",
    "a": '{"source":"built","text":"one & two # + 100 %25","heads":"2","d_model":"8","off":"0.0"}',
    "view": "layernorm",
    "sentence": "1",
    "sel": "2.4",
    "token": "3",
    "show": "ablation",
    "units": "words",
    "special": "renormalised",
    "pair": "ab",
    "score": "entropy",
    "sum": "mean",
    "off": "0.1_2.4",
    "scale": "log",
    "table": "heads",
    "quantity": "mean_out",
    "norm_show": "token",
    "norm_at": "norm1",
    "mistake": "minus_beta",
    "stream": "added",
    "stream_show": "paths",
    "point": "mid",
    "pooling": "cls",
    "stream_pair": "growth",
    "pair_show": "outputs",
    "pair_table": "tokens",
    "shape_show": "tensor",
    "site": "ff.hidden",
    "grow": "width",
    "pad_show": "mask",
    "padded_to": "40",
    "padded_side": "left",
    "hide": "zero_after",
    "lab": "race",
    "task": "copy",
    "lab_norm": "pre",
    "rate": "0.001",
    "warm_up": "50",
    "lab_init": "normal",
    "cost": "bytes",
}


def test_a_link_with_everything_restores_everything() -> None:
    assert EVERYTHING.keys() == PARAMETERS.keys()
    page = Page(**EVERYTHING).ok()
    assert page.notes == []
    assert page.link == EVERYTHING
    # no control of that name in this view
    elsewhere = {"sel", "norm_at", "scale", "table", "token", "show", "units", "special", "pair", "score", "sum", "off"}
    elsewhere |= {"norm_show", "mistake", "stream", "stream_show", "point", "pooling", "a", "stream_pair", "pair_show"}
    elsewhere |= {"pair_table", "shape_show", "site", "grow", "cost", "pad_show", "padded_to", "padded_side", "hide"}
    elsewhere |= {"lab", "task", "lab_norm", "rate", "warm_up", "lab_init"}
    shown = {key: encode(page.value(key)) for key in EVERYTHING if key not in elsewhere}
    assert shown == {key: value for key, value in EVERYTHING.items() if key not in elsewhere}
    assert page.matrices == {"norms_a", "norms_b", "norms_difference"}
    assert "4 layers × 2 heads, Post-LN" in page.status
    assert "3 layers × 5 heads, Pre-LN" in page.status
    assert "causal" in page.status
    assert "float64" in page.status
    assert "(mask off)" in " ".join(page.status.split())
    page.at.run()
    assert page.link == EVERYTHING


def test_every_control_has_its_value_as_its_default_too() -> None:
    """A browser that is behind draws the control of a later run first: without a default it would show the smallest."""
    page = Page(**EVERYTHING)
    page.at.run()
    told = {}
    for kind in WIDGETS:
        for widget in page.at.get(kind):
            default = widget.proto.default
            told[widget.key] = (
                list(default) if isinstance(default, Sequence) and not isinstance(default, str) else default
            )
    assert told["layers"] == [3]
    assert told["mask"] is False
    assert told["seed"] == 77
    assert told["text"] == EVERYTHING["text"]
    assert told["heads"] == divisors(20).index(5)
    assert told["view"] == [2]  # the comparison comes first
    assert told["quantity"] == 6
    assert not page.at.warning


def test_the_address_leads_to_the_same_picture() -> None:
    page = Page()
    page.set("text", "first & last\nsecond").set("source", "built").set("norm", "pre").set("seed", 5).set("heads", 8)
    page.set("mask", False).set("pad_to", 12).set("sentence", 1).pick(2, 7).ok()
    other = page.again().ok()
    assert other.link == page.link
    assert other.component("head").bytes == page.component("head").bytes
    assert other.announced("head") == page.announced("head")
    assert other.component("grid").bytes == page.component("grid").bytes


def test_what_is_set_back_to_the_default_leaves_the_address() -> None:
    page = Page(mask="false", pad_to="30", view="residual", sel="1.1")
    page.set("mask", True).set("pad_to", 0).set("view", "attention").pick(3, 1)
    assert page.ok().link == {}


def test_parameters_of_others_stay_in_the_address() -> None:
    page = Page(**SMALL, embed="true", utm_source="a b").ok()
    page.set("seed", 3)
    assert page.link == SMALL | {"embed": "true", "utm_source": "a b", "sel": "1.1", "seed": "3"}


# C6 and padding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", NOT_HERE)
@pytest.mark.parametrize("source", [{}, SMALL], ids=["minilm", "built"])
def test_a_device_that_is_not_here_becomes_the_cpu_and_is_noted(device: str, source: dict[str, str]) -> None:
    page = Page(**source, device=device).ok()
    assert page.status.rstrip().split(" · ")[-1]
    assert "CPU, " in page.status
    assert len(page.notes) == 1
    assert f"device = {device}" in page.notes[0]
    assert page.notes[0].endswith("cpu is used.")
    assert page.link["device"] == "cpu"
    assert len(page.control("device").options) == 1 + len(available())


def test_padding_below_the_longest_sentence_is_noted_with_both_numbers() -> None:
    page = Page(pad_to="10").ok()
    assert page.notes == ["The longest sentence has 16 tokens, so sentences are padded to 16, not 10."]
    assert page.value("pad_to") == 10
    page.set("text", "Short.").ok()
    assert page.notes == []
    assert len(page.rows[0]) == 10
    page.set("pad_to", 512).ok()
    assert "4 real tokens, 508 padding" in page.status
