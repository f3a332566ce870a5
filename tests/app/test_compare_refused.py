"""A link to two runs of which one cannot be had: the other is shown, and one sentence says why."""

import json
from typing import Any

import numpy as np
import pytest

import explorer
from components import state
from components.address import MAX_CHARACTERS, pack_settings, read
from explorer.device import available
from tests.app.page import SMALL, TWO, Page
from tests.app.pairs import LINK, kept
from tests.inputs import words

Passes = list[explorer.Run]


def settings(**asked: str) -> str:
    """Settings as a link has them."""
    return json.dumps(asked, separators=(",", ":"))


HOSTILE = {
    "not JSON": "built",
    "cut off": '{"source":"built"',
    "a list": '["built"]',
    "a number": "7",
    "nothing": "null",
    "an unknown key": settings(source="built", wheels="4"),
    "a key of the view": settings(source="built", view="shapes"),
    "a number of the laboratory": settings(source="minilm", number="1"),
    "no number of the laboratory": settings(source="lab"),
    "no source": settings(seed="1"),
    "numbers for strings": '{"source":"built","seed":1}',
    "a wrong value": settings(source="built", layers="-1"),
    "an unknown source": settings(source="<script>alert(1)</script>"),
    "deep": "[" * 30_000,
    "deep objects": '{"text":' * 10_000,
    "long": settings(source="built", text="x" * 100_000),
    "half a character": '{"source":"built","text":"\\ud800"}',
    "A in A": settings(source="built", a=settings(source="built")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_a_is_no_a_and_is_noted(name: str) -> None:
    page = Page(**LINK, a=HOSTILE[name]).ok()
    assert "a" not in page.link
    assert len(page.notes) == 1
    assert page.notes[0].startswith(f"The link asks for a = {HOSTILE[name][:24]}")
    assert page.again().notes == []
    page.press("keep_a").ok()


CANNOT = {
    "more layers than there are": (settings(source="minilm", layers="7"), "7"),
    "heads that do not divide the width": (settings(source="built", heads="3"), "128"),
    "too large an encoder": (
        settings(source="built", layers="24", heads="16", d_model="1024", d_ff="4096"),
        "302,309,376 parameters",
    ),
    "too large a run": (
        settings(source="built", layers="24", text="\n".join(["a " * 510] * 4)),
        f"{state.MAX_PAIR_RUN_BYTES / 2**20:,.0f} MiB are allowed",
    ),
    "no text": (settings(source="built", text=""), "no sentence"),
    "blanks": (settings(source="built", text=" \n\n "), "no sentence"),
    "too many sentences": (settings(source="built", text="a\n" * 65), "65"),
    "queries without a key": (settings(source="built", text="a b c\nd", causal="true", pad_side="left"), "causal"),
    "not trained here": (settings(source="lab", number="7"), "laboratory"),
}


@pytest.mark.parametrize("name", CANNOT)
@pytest.mark.parametrize("view", ["attention", "compare", "shapes"])
def test_an_a_that_cannot_be_run_is_given_up_and_b_is_shown(name: str, view: str, passes: Passes) -> None:
    packed, says = CANNOT[name]
    page = Page(**LINK, view=view, a=packed).ok()
    assert "a" not in page.link
    assert page.value("view") == ("attention" if view == "compare" else view)
    notes = [note for note in page.notes if note.startswith("There is no run A any more. ")]
    assert len(notes) == 1
    assert says in notes[0]
    assert len(passes) == 1
    assert page.set("seed", 3).ok().notes == []
    page.press("keep_a").ok()
    assert "a" in page.link


@pytest.mark.parametrize("button", ["swap", "forget_a"])
def test_where_a_was_given_up_no_button_of_a_is_left(button: str) -> None:
    page = Page(**LINK, a=CANNOT["no text"][0]).ok()
    left = [found for found in page.at.button if found.key == button]
    for found in left:  # and pressing it is no fault
        found.click()
        page.at.run()
        page.ok()
    assert left == []
    assert not page.control("beside").disabled


@pytest.mark.parametrize("name", CANNOT)
def test_the_note_is_made_of_whole_sentences(name: str) -> None:
    reason = Page(**LINK, a=CANNOT[name][0]).notes[-1].removeprefix("There is no run A any more. ")
    assert reason[0] == reason[0].upper()
    assert reason[-1] == "."


def test_keeping_what_was_refused_is_keeping_nothing() -> None:
    page = Page(**(LINK | {"text": ""}))
    page.refused()
    page.press("keep_a")
    page.refused()
    page.set("text", "one").ok()
    assert "a" not in page.link


def test_b_that_cannot_be_run_is_refused_and_a_is_still_there(passes: Passes) -> None:
    page = kept(view="residual").set("text", "")
    assert "no sentence" in page.refused()
    assert "a" in page.link
    page.set("text", "one two").ok()
    assert page.two
    page.set("causal", True).set("pad_side", "left").set("text", "one two\nthree")
    assert "causal" in page.refused().lower()
    page.press("forget_a").refused()
    page.set("mask", False).ok()
    assert not page.two


def test_a_pair_that_does_not_fit_is_refused_with_its_numbers(monkeypatch: pytest.MonkeyPatch, passes: Passes) -> None:
    """Both are kept, or each click would run one of them anew."""
    page = kept(text="a b")
    monkeypatch.setattr(state, "MAX_PAIR_RUN_BYTES", 2**18)
    page.set("text", words(200))
    message = page.refused()
    assert "and 0 MiB are allowed" in message
    assert len(passes) == 1
    assert "a" in page.link
    page.press("forget_a").ok()
    assert len(passes) == 2


def test_whether_a_pair_fits_does_not_depend_on_what_was_run_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the one who clicked sees what those do not who got his link."""
    monkeypatch.setattr(state, "MAX_PAIR_RUN_BYTES", 2**18)
    link = LINK | {"text": words(200)}
    page = Page(**link).ok().press("keep_a").ok()
    state.shared.clear()
    again = Page(**link, a=pack_settings(read(link)[0])).ok()
    assert again.two == page.two
    assert again.notes == page.notes


def test_both_runs_fit_into_what_is_kept() -> None:
    assert 2 * state.MAX_PAIR_RUN_BYTES <= state.RUNS_BYTES
    assert state.MAX_PAIR_RUN_BYTES <= state.MAX_RUN_BYTES


def test_a_value_of_a_that_the_controls_do_not_offer_is_brought_into_bounds_on_a_swap() -> None:
    """Heads above 128 have no tile, and no control."""
    page = Page(**LINK, a=settings(source="built", heads="256", d_model="256", text="a", layers="1")).ok()
    page.press("swap").ok()
    assert page.value("heads") == 128


@pytest.mark.parametrize("letter", ['"', "\\", "\u0001", "\U0001f44d"])
def test_the_longest_text_can_be_kept_and_swapped(letter: str) -> None:
    text = ("x" + letter) * (MAX_CHARACTERS // 2)
    page = Page(**(LINK | {"text": text})).press("keep_a").ok()
    page.set("text", "b").press("swap").ok()
    assert page.value("text") == text


def test_notes_on_the_text_of_a_are_shown_too() -> None:
    """C7: what was cut off is said of each run."""
    page = Page(**(LINK | {"text": words(600)})).ok()
    said = page.notes
    assert "the last" in said[0]
    page.press("keep_a").set("text", "short").ok()
    assert any("the last" in note and "A" in note for note in page.notes)


# Causal --------------------------------------------------------------------------------------------------------------


def test_causal_with_masked_padding_on_the_left_is_refused_with_the_reason(passes: Passes) -> None:
    """A10: the first padded query has no key at all."""
    for view in ("attention", *TWO):
        page = Page(**LINK, causal="true", pad_side="left", view=view)
        message = page.refused()
        assert "causal" in message.lower()
        assert "pad on the right" in message
    assert passes == []
    page.set("mask", False).ok()
    page.set("mask", True).set("pad_side", "right").ok()
    assert len(passes) == 2


@pytest.mark.parametrize("link", [{}, {"mask": "false", "pad_side": "left"}], ids=["right", "left, not masked"])
def test_causal_attention_on_the_page(link: dict[str, str]) -> None:
    page = Page(**LINK, causal="true", **link).ok()
    assert "causal" in page.status
    assert page.at.dataframe[0].value["Keys"].tolist() == [1, 2, 3, 4, 5]
    z = page.heatmap["z"]
    after = np.triu(np.ones(z.shape, dtype=bool), 1)
    assert np.isnan(z[after]).all()
    np.testing.assert_allclose(np.nansum(z, axis=1), 1, atol=1e-6)
    page.set("sentence", 1).ok()
    n_before = 2 if link else 0  # padding on the left that nothing hides
    assert page.at.dataframe[0].value["Keys"].tolist() == [n_before + 1, n_before + 2, n_before + 3]


def test_causal_beside_bidirectional() -> None:
    page = kept(sentence="1").set("causal", True).ok()
    both = page.status.split("B · ")
    assert "causal" not in both[0]
    assert "causal" in both[1]
    a, b, difference = page.three("head")
    assert np.isfinite(a["z"]).all()
    real = slice(0, 3)
    after = np.triu(np.ones((3, 3), dtype=bool), 1)
    assert np.isnan(b["z"][real, real][after]).all()
    np.testing.assert_array_equal(difference["z"][real, real][after], -a["z"][real, real][after])
    assert "What stands after the query is hatched in B" in page.explanation


def test_every_view_of_two_causal_runs_has_numbers() -> None:
    link: dict[str, Any] = {"causal": "true", "precision": "float16"}
    for view in TWO:
        page = kept(**link, view=view).set("seed", 1).ok()
        assert "float16" in page.status


def test_the_settings_of_these_tests_are_settings() -> None:
    values, refused = read(SMALL | {"a": CANNOT["no text"][0]})
    assert not refused
    assert (
        values["a"]
        == CANNOT["no text"][0]
        == pack_settings(
            values
            | {"source": "built", "text": ""}
            | {key: read({})[0][key] for key in ("layers", "heads", "d_model", "d_ff")}
        )
    )


@pytest.mark.parametrize("device", [device for device in ("mps", "cuda") if device not in available()])
def test_a_device_of_a_that_is_not_here_becomes_the_cpu_and_is_noted(device: str) -> None:
    """C6: a link made on another machine."""
    page = Page(**LINK, seed="1", a=settings(source="built", device=device)).ok()
    assert page.two
    assert "CPU, " in page.status.split("B · ")[0]
    assert any(device.upper() in note.upper() for note in page.notes)
