"""Every character of a token is seen, and none is obeyed."""

import html
import math

import pandas as pd
import pytest
import regex

from components.labels import axis_labels, csv_safe, markdown_escape, plotly_escape, shorten, visible

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
GRAPHEMES = [FAMILY, "🇨🇭", "👋🏽", "❤\ufe0f", "1\ufe0f\u20e3", ENGLAND, "e\u0301", "葛\U000e0100"]


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        ("\u200b", "⟨U+200B⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("a\u3000b", "a⟨U+3000⟩b"),
        ("\u061c", "⟨U+061C⟩"),
        ("\u3164", "⟨U+3164⟩"),
        ("\x00", "⟨U+0000⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\ufe0f", "⟨U+FE0F⟩"),
        ("a\ufe0f", "a⟨U+FE0F⟩"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("\u0301", "◌\u0301"),
        (" ", "␣"),
        (" a b ", "␣a b␣"),
        ("\t", "⇥"),
        ("\r\n", "↵"),
    ],
)
def test_what_would_not_be_seen_has_a_stand_in(token: str, seen: str) -> None:
    assert visible(token) == seen


@pytest.mark.parametrize(
    "token",
    [
        "animal",
        "##s",
        "中文句子",
        "السلام عليكم",
        "می\u200cخواهم",
        "क\u094d\u200dष",
        "한국어",
        "cafe\u0301",
        *GRAPHEMES,
    ],
)
def test_what_shapes_a_script_or_an_emoji_stays(token: str) -> None:
    assert visible(token) == token


@pytest.mark.parametrize("grapheme", GRAPHEMES)
@pytest.mark.parametrize("room", [1, 2, 3, 14])
def test_shortening_never_cuts_a_grapheme(grapheme: str, room: int) -> None:
    short = shorten(grapheme * 20, room)
    kept = short.removesuffix("…")
    assert short.endswith("…")
    assert kept == grapheme * (len(kept) // len(grapheme))
    assert len(regex.findall(r"\X", kept)) == max(1, room - 1)


@pytest.mark.parametrize("grapheme", GRAPHEMES)
def test_labels_never_cut_a_grapheme(grapheme: str) -> None:
    kept = axis_labels([grapheme * 20])[0].removesuffix("…")
    assert kept
    assert kept == grapheme * (len(kept) // len(grapheme))


def test_shortening_starts_where_it_must() -> None:
    assert shorten("a" * 14) == "a" * 14
    assert shorten("a" * 15) == "a" * 13 + "…"
    assert shorten("") == ""
    with pytest.raises(ValueError, match="at least 1"):
        shorten("abc", 0)


def test_a_stand_in_is_never_cut_either() -> None:
    assert axis_labels(["\u200b" * 30]) == ["⟨U+200B⟩…"]


def test_labels_are_never_empty_and_equal_tokens_stay_equal() -> None:
    assert axis_labels(["the", "cat", "the", ""]) == ["the", "cat", "the", "⟨empty⟩"]


@pytest.mark.parametrize("text", ["<b>x", "a<br>b", "</s>", "&lt;", "$x$", "$5 a", "%{x}", "<extra></extra>", "&#36;"])
def test_plotly_text_has_no_tag_formula_or_template_and_decodes_to_what_was_typed(text: str) -> None:
    escaped = plotly_escape(text)
    assert not regex.search(r"[<>$%]", escaped)
    assert html.unescape(escaped) == text


@pytest.mark.parametrize(
    "text",
    [":red[b] :smile: $x$ `code` *y* [a](b) <b>", "costs $5 or $6", ":material/home:", "# a", "1. a", "~x~ | {y}"],
)
def test_markdown_marks_are_all_escaped(text: str) -> None:
    escaped = markdown_escape(text)
    assert not regex.search(r"(?<!\\)(?:\\\\)*[!-/:-@\[\]-`{-~]", escaped)
    assert regex.sub(r"\\(.)", r"\1", escaped) == text


@pytest.mark.parametrize("text", ["a -> b", "x -- y", "www.example.com", "http://example.com", "a@b.co", ":streamlit:"])
def test_what_streamlit_rewrites_is_parted_by_a_joiner_without_width(text: str) -> None:
    escaped = markdown_escape(text)
    assert "\u2060" in escaped
    assert regex.sub(r"\\(.)", r"\1", escaped).replace("\u2060", "") == text


def test_a_spreadsheet_runs_no_formula_and_numbers_stay_numbers() -> None:
    frame = pd.DataFrame({"token": ["=1+1", "+a", "-", "@x", "\tz", "\ry", "ok", ""], "weight": [-0.5, *range(7)]})
    safe = csv_safe(frame)
    assert safe["token"].tolist() == ["'=1+1", "'+a", "'-", "'@x", "'\tz", "'\ry", "ok", ""]
    assert safe["weight"].tolist() == frame["weight"].tolist()
    assert "-0.5" in safe.to_csv()
    assert frame["token"][0] == "=1+1"


def test_tokens_as_headers_and_row_names_are_safe_too() -> None:
    safe = csv_safe(pd.DataFrame([[0.5, math.nan]], index=["=2"], columns=["=1+1", "the"]))
    assert list(safe.columns) == ["'=1+1", "the"]
    assert list(safe.index) == ["'=2"]
    assert math.isnan(safe.iloc[0, 1])
