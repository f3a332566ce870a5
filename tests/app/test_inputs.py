"""What people type: nothing breaks the page, nothing typed is lost, everything is shown as typed."""

import pytest

from components.labels import visible
from explorer.text import sentences_of
from tests.app.page import SMALL, VIEWS, Page
from tests.inputs import TEXTS

SOURCES = {"minilm": {"layers": "1"}, "built": SMALL}
EMPTY = ("empty", "spaces", "newlines")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", TEXTS)
def test_every_input_through_both_encoders(name: str, source: str) -> None:
    text = TEXTS[name]
    page = Page(**SOURCES[source])
    page.set("text", text)
    assert page.value("text") == text
    assert page.link["text"] == text
    if name in EMPTY:
        assert page.refused() == "There is no sentence to run. Type at least one word in the box above."
        page.set("text", "a word").ok()
        return
    page.ok()
    assert len(page.rows) == len(sentences_of(text))
    for row in page.rows:
        assert row[0] == "[CLS]"
        assert "[SEP]" in row


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in EMPTY and "words" not in name])
def test_every_view_of_every_short_input(name: str) -> None:
    page = Page(**SMALL, text=TEXTS[name])
    for view in VIEWS:
        page.set("view", view).ok()


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("source", SOURCES)
def test_a_link_without_a_word_is_refused_in_one_sentence(name: str, source: str) -> None:
    page = Page(**SOURCES[source], text=TEXTS[name])
    assert page.refused().count(".") == 2
    assert page.value("text") == TEXTS[name]


@pytest.mark.parametrize(
    "name",
    ["repeated word", "numbers", "dates", "html", "script", "latex", "streamlit directives", "markdown", "formula"],
)
def test_words_are_shown_as_typed(name: str) -> None:
    page = Page(**SMALL, text=TEXTS[name]).ok()
    shown = "".join(page.rows[0][1:-1])
    assert shown == TEXTS[name].replace(" ", "")
    header, _ = page.grid
    assert header["tokens"] == page.rows[0]
    table = page.at.dataframe[0].value
    assert table["Token"].tolist() == page.rows[0]
    raw = "".join(element.proto.body for element in page.at.get("html"))
    assert "<script" not in raw
    assert "<b>x" not in raw


def test_equal_words_have_a_row_and_a_column_each() -> None:
    page = Page(**SMALL, text="the cat the").ok()
    z = page.heatmap["z"]
    assert z.shape == (5, 5)
    assert page.heatmap["cols"] == ["[CLS]", "the", "cat", "the", "[SEP]"]


def test_characters_that_cannot_be_seen_have_a_stand_in() -> None:
    page = Page(**SMALL, text="a\u200bb \u202ec").ok()
    tokens = page.rows[0]
    assert "⟨U+200B⟩" in tokens
    assert "⟨U+202E⟩" in tokens
    assert "\u202e" not in "".join(tokens)
    assert page.at.dataframe[0].value["Token"].tolist() == [visible(token) for token in tokens]


def test_a_blank_line_is_no_sentence_but_counts_as_a_line() -> None:
    page = Page(**SMALL, text="first\n\n" + "w " * 600).ok()
    assert len(page.rows) == 2
    assert page.notes == ["Line 3 is too long for this encoder: it reads 512 tokens, so the last 90 were left out."]


def test_signs_without_a_vector_are_explained() -> None:
    page = Page(layers="1", text="I like \U0001f642").ok()
    assert "[UNK]" in page.rows[0]
    assert page.notes == ["[UNK] stands for a word or sign that is not in this encoder's vocabulary, such as an emoji."]
    assert Page(**SMALL, text="I like \U0001f642").ok().notes == []


def test_sentences_in_the_list_are_told_apart() -> None:
    page = Page(**SMALL, text="the same sentence\nthe same sentence").ok()
    assert page.control("sentence").options == ["1: the same sentence", "2: the same sentence"]
    page = Page(**SMALL, text="the same sentence").ok()
    assert "sentence" not in [box.key for box in page.at.selectbox]
