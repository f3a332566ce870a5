"""Texts, batches, layers and heads that only one of two runs has: blank in the other, and named."""

from typing import Any

import numpy as np
import pytest

import explorer
from components.theme import format_number
from explorer.comparison import ABSENT
from tests.app.page import SHOWN_OF_TWO, TWO, Page
from tests.app.pairs import compared, holds, kept, numbers_in
from tests.inputs import TEXTS, words

Passes = list[explorer.Run]


def changed(a: dict[str, str], **b: Any) -> Page:
    """A page whose A has the first settings, and whose B differs."""
    page = kept(**a)
    for key, value in b.items():
        page.set(key, value)
    return page.ok()


def blank(picture: dict[str, Any], owner: str) -> list[str]:
    """Names of the rows that only this run has; asserts that they are without a number."""
    rows = [i for i, name in enumerate(picture["rows"]) if name.endswith(f" ({owner})")]
    assert np.isnan(picture["z"][rows]).all()
    if picture["rows"] == picture["cols"]:
        assert np.isnan(picture["z"][:, rows]).all()
    return [picture["rows"][i].removesuffix(f" ({owner})") for i in rows]


# Rules of alignment --------------------------------------------------------------------------------------------------

RULES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "the same": ("one two", "one two", [], []),
    "capitals": ("One TWO", "one two", [], []),
    "composed and decomposed": ("caf\u00e9", "cafe\u0301", [], []),
    "a word more": ("one two", "one three two", [], ["three"]),
    "a word less": ("one three two", "one two", ["three"], []),
    "another word": ("one two", "one three", ["two"], ["three"]),
    "nothing alike": ("one two", "three four five", ["one", "two"], ["three", "four", "five"]),
    "the longest sequence": ("a b c d e", "b c a d e", ["a"], ["a"]),
    "repeated": ("the cat the", "the the cat the", [], ["the"]),
    "a pair": ("one [SEP] two", "one", ["[SEP]", "two"], []),
    "typed padding": ("a [PAD] b", "a b", ["[", "PAD", "]"], []),
    "formulas": ("=1+1", "1+1", ["="], []),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pad_side", ["right", "left"])
def test_what_is_not_aligned_is_blank_and_named(rule: str, pad_side: str) -> None:
    text_a, text_b, only_a, only_b = RULES[rule]
    page = changed({"text": text_a, "pad_side": pad_side, "pad_to": "9"}, text=text_b)
    both = compared(page)
    assert sorted(both.alignment.only_a()) == sorted(only_a)
    assert sorted(both.alignment.only_b()) == sorted(only_b)
    a, b, difference = page.three("head")
    assert sorted(blank(a, "B")) == sorted(only_b)
    assert sorted(blank(b, "A")) == sorted(only_a)
    assert sorted(blank(difference, "A") + blank(difference, "B")) == sorted(only_a + only_b)
    shared = np.flatnonzero(both.alignment.shared)
    assert np.isfinite(difference["z"][np.ix_(shared, shared)]).all()
    holds(page, "head", both.pattern(1, 1))
    for owner, tokens in (("A", only_a), ("B", only_b)):
        assert (f"only {owner} has " in page.explanation) == bool(tokens)
        assert all(token in page.explanation for token in tokens)
    assert ("Not aligned" in page.explanation) == bool(only_a or only_b)


def test_many_tokens_that_are_not_aligned_are_counted() -> None:
    page = changed({"text": "one two"}, text=f"one {words(20)} two")
    count = len(compared(page).alignment.only_b())
    assert f" and {count - 6} more" in page.explanation


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"empty", "spaces", "newlines", "512 words", "2,000 words"}))
def test_every_text_beside_another(name: str) -> None:
    page = changed({"text": TEXTS[name], "view": "compare"}, text="the dog the")
    assert "the dog the" in page.explanation
    page.set("view", "attention").press("swap").ok()
    holds(page, "head", compared(page).pattern(1, 1))


def test_the_longest_texts_that_have_nothing_in_common() -> None:
    longest = " ".join(f"other{i}" for i in range(600))
    for view, parts in TWO.items():
        part = next(iter(parts))
        shown = {SHOWN_OF_TWO[view]: part} if part else {}
        page = kept(text=longest, layers="1", view=view, **shown).set("text", words(600)).ok()
        assert len(page.rows[0]) == 512


# Batches and padding -------------------------------------------------------------------------------------------------


def test_a_sentence_that_only_b_has_stands_beside_the_last_of_a() -> None:
    page = changed({"text": "one two"}, text="one two\n\nthree four\nfive", sentence=2)
    assert page.value("sentence") == 2
    assert page.control("sentence").options[2] == "4: five"  # C4: the line of the box
    both = compared(page, sentence_a=0)
    holds(page, "head", both.pattern(1, 1))
    assert "only A has one, two; only B has five." in page.explanation
    for view in TWO:
        page.set("view", view).ok()


def test_the_same_sentence_on_another_line_stands_beside_itself() -> None:
    page = changed({"text": "zero\none two three"}, text="one two three\nelse", mask=False)
    both = compared(page, sentence_a=1)
    holds(page, "head", both.pattern(1, 1))
    assert "Not aligned" not in page.explanation


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"text": "one two\nthree"}, {"text": "one two\n\n\nthree"}),
        ({"text": "one two\nthree", "pad_side": "left"}, {"pad_side": "right"}),
        ({"text": "one two\nthree", "pad_to": "12"}, {"pad_to": 0}),
        (
            {"text": "one two\nthree", "pad_to": "12", "pad_side": "left"},
            {"text": "one two\nthree\nfour five six seven"},
        ),
    ],
    ids=["blank lines", "another side", "less padding", "a larger batch"],
)
def test_padding_that_is_masked_changes_no_more_than_rounding(a: dict[str, str], b: dict[str, Any]) -> None:
    """A8 and A6, for the second sentence: the numbers at its tokens agree wherever its padding is."""
    page = changed(a | {"sentence": "1", "view": "compare", "pair_show": "outputs"}, **b)
    both = compared(page)
    assert both.alignment.shared.sum() == 3
    assert "Not aligned" not in page.explanation
    real = both.alignment.shared
    difference = page.three("outputs")[2]["z"][real]
    assert np.abs(difference).max() <= 1e-5
    page.set("view", "attention").ok()
    pictures = page.three("head")
    assert np.abs(pictures[2]["z"][np.ix_(real, real)]).max() <= 1e-5
    for picture, place in zip(pictures[:2], (both.alignment.a, both.alignment.b), strict=True):
        padding = ~real & (place != ABSENT)
        assert np.flatnonzero(picture["row_padding"]).tolist() == np.flatnonzero(padding).tolist()
        assert np.flatnonzero(picture["col_padding"]).tolist() == np.flatnonzero(padding).tolist()
        assert (picture["z"][np.ix_(real, padding)] == 0).all()
        np.testing.assert_allclose(np.nansum(picture["z"][real], axis=1), 1, atol=1e-6)
    assert both.heads()["moved"].max() <= 1e-5
    tokens = page.set("view", "layernorm").at.dataframe[0].value["Token"]
    assert not any("[PAD]" in token for token in tokens)


def test_without_the_mask_the_same_padding_changes_numbers() -> None:
    page = changed({"text": "one two\nthree four five six seven"}, mask=False)
    assert np.nanmax(np.abs(page.three("head")[2]["z"])) > 1e-2
    assert page.matrix("moved")["z"].max() > 1e-2
    assert "A gives it no weight at all" in page.explanation
    page.press("swap").ok()
    assert "B gives it no weight at all" in page.explanation


def test_padding_rows_are_in_no_mean_and_no_table() -> None:
    """A9: of 3 tokens padded to 9, three count."""
    for view in TWO:
        for part in TWO[view]:
            shown = {SHOWN_OF_TWO[view]: part} if part else {}
            page = kept(text="one two three four five\none", sentence="1", view=view, **shown).set("seed", 1).ok()
            table = page.at.dataframe[0].value
            if "Token" in table:
                assert set(table["Token"]) == {"[CLS]", "one", "[SEP]"}
                rest = numbers_in(page)
                assert not np.isinf(rest).any()


def test_one_token_and_one_word() -> None:
    """A17: nothing is divided by nothing."""
    for a, b in (("a", "a"), ("a", "b"), ("a", "a b c")):
        for view in TWO:
            for part in TWO[view]:
                shown = {SHOWN_OF_TWO[view]: part} if part else {}
                page = kept(text=a, view=view, layers="1", heads="1", **shown).set("text", b).set("seed", 1).ok()
                assert not np.isinf(numbers_in(page)).any()
        assert np.isfinite(page.set("view", "attention").matrix("moved")["z"]).all()


# Layers and heads ----------------------------------------------------------------------------------------------------


def test_layers_and_heads_that_one_does_not_have_are_blank_and_not_0() -> None:
    page = changed({"layers": "4", "heads": "4", "sel": "3.3"}, layers=2, heads=2)
    assert page.link["sel"] == "3.3"  # D1: one of both has it
    a, b, difference = page.three("head")
    assert a["title"] == "A · L3 H3"
    assert b["title"] == "B has no L3 H3"
    assert np.isfinite(a["z"]).all()
    assert np.isnan(b["z"]).all()
    assert np.isnan(difference["z"]).all()
    moved = page.matrix("moved")["z"]
    assert moved.shape == (4, 4)
    assert np.isfinite(moved[:2, :2]).all()
    assert np.isnan(moved[2:]).all()
    assert np.isnan(moved[:, 2:]).all()
    assert "The chosen head is in one run only" in page.explanation
    table = page.at.dataframe[0].value
    assert table["There in"].tolist() == ["A and B"] * 4 + ["A"] * 12
    assert table["Weight that would have to move"].isna().tolist() == [False] * 4 + [True] * 12
    off = {button.key: button.disabled for button in page.at.button if str(button.key).startswith("off_")}
    assert off["off_one"]
    for view in TWO:
        page.set("view", view).ok()
    page.set("view", "layernorm").ok()
    rows = page.three("norms")
    only_a = [i for i, name in enumerate(rows[0]["rows"]) if name.startswith(("L2", "L3"))]
    assert np.isnan(rows[1]["z"][only_a]).all()
    assert np.isnan(rows[2]["z"][only_a]).all()
    assert np.isfinite(rows[0]["z"][only_a]).all()


def test_the_choice_is_brought_into_what_the_larger_of_both_has() -> None:
    page = changed({"layers": "4", "heads": "4", "sel": "3.3"}, layers=2, heads=2)
    page.press("keep_a").ok()
    assert page.link["sel"] == "1.1"
    page.set("layers", 1).ok()
    assert page.link["sel"] == "1.1"
    page.press("forget_a").ok()
    assert page.link["sel"] == "0.1"


def test_a_link_to_a_layer_that_neither_has_is_noted() -> None:
    page = kept(sel="40.3")
    assert page.link["sel"] == "1.1"
    assert page.notes[0].startswith("The link asks for sel = 40.3, which is not possible here.")
    assert kept(layers="3", sel="2.0").set("layers", 1).notes == []


def test_a_checkpoint_that_only_a_has_can_be_chosen() -> None:
    page = changed({"layers": "4", "view": "residual"}, layers=2)
    row = page.matrix("stream_a")["rows"].index("L2 mid")
    page.point("stream_b", row, 2).ok()
    assert page.link["sel"] == "2.1"
    assert page.link["point"] == "mid"
    assert page.link["token"] == "2"
    final = changed({"norm": "pre", "view": "residual"}, norm="post")
    assert np.isnan(final.three("stream")[1]["z"][final.matrix("stream_b")["rows"].index("final norm")]).all()


def test_a_token_that_only_a_has_cannot_be_chosen() -> None:
    """The choice is one of B's tokens, for all views."""
    page = changed({"text": "one two three", "token": "1"}, text="one three")
    slot = page.matrix("head_a")["rows"].index("two (A)")
    page.point("head_a", slot, 0).ok()
    assert page.link["token"] == "1"
    page.point("head_a", slot + 1, 0).ok()
    assert page.link["token"] == "2"
    assert page.announced("head_a")["row"] == slot + 1


def test_a_value_that_one_does_not_have_leaves_the_other_as_it_is() -> None:
    """Post-LN has no final norm. The other's picture has its own width, and no column of nothing."""
    page = changed(
        {"text": "one two three four five six seven eight nine ten", "view": "shapes", "shape_show": "tensor",
         "site": "final_norm.out"},
        norm="pre",
    )  # fmt: skip
    a, b, difference = page.three("tensor")
    assert a["title"] == "A has no final_norm.out"
    np.testing.assert_array_equal(b["z"], compared(page).b.output[0])
    assert np.isnan(a["z"]).all()
    assert np.isnan(difference["z"]).all()


@pytest.mark.parametrize("view", TWO)
def test_streams_of_different_widths(view: str) -> None:
    for part in TWO[view]:
        shown = {SHOWN_OF_TWO[view]: part} if part else {}
        page = changed({"view": view, **shown}, d_model=12)
        if (view, part) == ("compare", "summary"):
            assert "the streams are 8 and 12 wide, so their vectors cannot be subtracted" in page.explanation
        if (view, part) == ("compare", "outputs"):
            assert "The outputs have different widths, so they cannot be subtracted." in page.explanation


def test_no_query_is_aligned() -> None:
    """Special tokens always are: the first [CLS] and the closing [SEP]."""
    page = changed({"text": "a"}, text="b c")
    shared = compared(page).alignment.shared
    assert shared.sum() == 2
    assert format_number(float(page.matrix("moved")["z"].max())) in page.explanation
