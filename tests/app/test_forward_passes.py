"""Looking costs nothing: only what changes a number runs the encoder, and once."""

import pytest

import explorer
from tests.app.page import FREE, SMALL, Page

Passes = list[explorer.Run]


@pytest.mark.parametrize("link", [{}, SMALL], ids=["minilm", "built"])
def test_opening_is_one_pass_and_so_is_opening_again(passes: Passes, link: dict[str, str]) -> None:
    page = Page(**link)
    assert len(passes) == 1
    page.again()
    page.at.run()
    assert len(passes) == 1


@pytest.mark.parametrize("link", [{}, SMALL], ids=["minilm", "built"])
def test_looking_around_is_no_pass(passes: Passes, link: dict[str, str]) -> None:
    page = Page(**link)
    seen = set()
    for serial, (layer, head) in enumerate([(0, 0), (1, 1), (0, 1), (9, 99)], start=1):
        page.pick(layer, head, serial).ok()
        seen.add(page.heatmap["title"])
    assert len(seen) == (4 if not link else 3)  # the last one is clamped, in a small encoder to the one before
    page.set("sentence", 1).ok()
    for view in (*FREE[1:], *FREE):
        page.set("view", view).ok()
    page.set("view", "layernorm")
    for quantity in ("mean_in", "std_out", "mean_out"):
        page.set("quantity", quantity).ok()
    for norm in page.norms:
        page.set("norm_choice", norm).ok()
    page.resize(720).ok()
    page.at.context["theme"] = "dark"
    page.at.run()
    assert len(passes) == 1


def test_a_link_to_another_head_or_view_of_the_same_run_is_no_pass(passes: Passes) -> None:
    Page(**SMALL)
    for view in FREE:
        Page(**SMALL, view=view, sel="0.0", sentence="1", quantity="mean_in", norm_at="norm1").ok()
    assert len(passes) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("text", "Other words."),
        ("layers", 3),
        ("heads", 4),
        ("d_model", 16),
        ("d_ff", 17),
        ("activation", "gelu"),
        ("norm", "pre"),
        ("positions", "none"),
        ("final_norm", "true"),
        ("init", "normal"),
        ("seed", 1),
        ("pad_to", 20),
        ("pad_side", "left"),
        ("mask", False),
        ("causal", True),
        ("precision", "bfloat16"),
    ],
)
def test_what_changes_a_number_is_one_pass_and_going_back_is_none(passes: Passes, key: str, value: object) -> None:
    page = Page(**SMALL)
    before = page.value(key)
    page.set(key, value).ok()
    assert len(passes) == 2
    page.at.run()
    assert len(passes) == 2
    if key != "d_model":  # the heads had to follow the width
        page.set(key, before).ok()
        assert len(passes) == 2


@pytest.mark.parametrize(
    ("key", "value"), [("text", "Other words."), ("layers", 2), ("pad_to", 20), ("pad_side", "left"), ("mask", False)]
)
def test_the_trained_encoder_too(passes: Passes, key: str, value: object) -> None:
    page = Page()
    before = page.value(key)
    page.set(key, value).ok()
    assert len(passes) == 2
    page.set(key, before).ok()
    assert len(passes) == 2


def test_changing_the_source_is_one_pass_and_going_back_is_none(passes: Passes) -> None:
    page = Page()
    page.set("source", "built").ok()
    assert len(passes) == 2
    page.set("source", "minilm").ok()
    assert len(passes) == 2


def test_padding_to_what_the_text_has_anyway_is_no_pass(passes: Passes) -> None:
    page = Page(**SMALL, text="a b")
    page.set("pad_to", 4).ok()
    assert len(passes) == 1
    page.set("text", "\n  a b \n\n").ok()  # the same sentence
    assert len(passes) == 1


def test_nothing_is_run_where_there_is_nothing_to_run(passes: Passes) -> None:
    page = Page(**SMALL, text="")
    page.refused()
    page.set("seed", 3)
    page.refused()
    assert not passes
