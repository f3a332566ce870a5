"""The word tokenizer: one token a word, one vector a word."""

import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from explorer import build
from explorer.text import WordTokenizer, make_batch
from tests.helpers import record, tiny

WORDS = WordTokenizer()


def tokens_of(sentence: str) -> list[str]:
    return WORDS.encode(sentence).tokens[1:-1]


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("The cat, didn't!", ["The", "cat", ",", "didn", "'", "t", "!"]),
        ("snake_case x1 3.14", ["snake_case", "x1", "3", ".", "14"]),
        ("2020-01 May", ["2020", "-", "01", "May"]),
        ("...", [".", ".", "."]),
        ("中文句子", ["中", "文", "句", "子"]),
        ("私はcatです", ["私", "は", "cat", "で", "す"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("القطة تجلس", ["القطة", "تجلس"]),
        ("café cafe\u0301", ["café", "cafe\u0301"]),
        ("\U0001f44d\U0001f3fd!", ["\U0001f44d\U0001f3fd", "!"]),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", ["\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"]),
        (
            "a\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466b",
            ["a", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "b"],
        ),
        ("a\u00a0b\u3000c\td", ["a", "b", "c", "d"]),
        ("", []),
        ("   ", []),
    ],
)
def test_where_it_cuts(sentence, tokens):
    """B10: a CJK character is a token; an emoji with all its parts is one; a letter keeps its accents."""
    assert tokens_of(sentence) == tokens


def test_a_sentence_stands_between_cls_and_sep():
    encoded = WORDS.encode("a b")
    assert encoded.tokens == ["[CLS]", "a", "b", "[SEP]"]
    assert (encoded.ids[0], encoded.ids[-1], WORDS.pad_id) == (1, 2, 0)
    assert encoded.offsets == [(0, 0), (0, 1), (2, 3), (0, 0)]


def test_a_typed_separator_is_the_special_token():
    """In capitals, wherever it stands. It is no word and has no letters; other names in brackets are words."""
    encoded = WORDS.encode("a[SEP]b [sep]")
    assert encoded.tokens == ["[CLS]", "a", "[SEP]", "b", "[", "sep", "]", "[SEP]"]
    assert [pos for pos, token_id in enumerate(encoded.ids) if token_id == 2] == [2, 7]
    assert encoded.offsets == [(0, 0), (0, 1), (0, 0), (6, 7), (8, 9), (9, 12), (12, 13), (0, 0)]
    assert [word is None for word in encoded.words] == [True, False, True, False, False, False, False, True]
    assert tokens_of("[CLS] [PAD]") == ["[", "CLS", "]", "[", "PAD", "]"]


def test_each_token_is_a_word_of_its_own():
    words = WORDS.encode("the cat the").words
    assert (words[0], words[-1]) == (None, None)
    assert len(set(words[1:-1])) == 3


def test_composed_and_decomposed_accents_are_one_word():
    assert WORDS.word_id("café") == WORDS.word_id("cafe\u0301")
    assert WORDS.word_id("cafe") != WORDS.word_id("café")


def test_case_matters():
    assert WORDS.word_id("The") != WORDS.word_id("the")


def test_an_id_is_exact_in_a_browser_and_never_that_of_a_special_token():
    for i in range(1_000):
        assert 3 <= WORDS.word_id(f"word{i}") < 2**52


def test_ids_are_the_same_in_another_process():
    """Python's own hash of a string is salted: with it, a link would show other vectors on the next day."""
    words = ["cat", "Straße", "中", "\U0001f600"]
    code = f"from explorer.text import WordTokenizer; print([WordTokenizer().word_id(w) for w in {words!r}])"
    root = Path(__file__).parent.parent
    salt = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env=os.environ | {"PYTHONHASHSEED": salt, "PYTHONIOENCODING": "utf-8"},
    )
    assert result.stdout.strip() == str([WORDS.word_id(word) for word in words])


def test_a_word_has_the_same_vector_in_every_text():
    model = build(tiny())
    vectors = []
    for sentences in (["cat"], ["the cat sat"], ["nothing here", "a b c cat"]):
        batch = model.batch(sentences)
        _, values = record(model, batch.token_ids, batch.key_padding_mask)
        row = next(i for i, tokens in enumerate(batch.tokens) if "cat" in tokens)
        vectors.append(values["embed.tokens"][row, batch.tokens[row].index("cat")])
    assert torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[0], vectors[2])


WORD = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=12)


VECTORS = build(tiny(n_layers=1)).encoder.embed.tokens


@given(st.lists(WORD, min_size=1, max_size=20))
def test_no_two_different_words_of_one_text_share_a_vector(some):
    batch = make_batch([" ".join(some)], WORDS, max_len=10_000)
    vectors = VECTORS(batch.token_ids)[0]
    by_word: dict[str, tuple[float, ...]] = {}
    for token, vector in zip(batch.tokens[0], vectors.tolist(), strict=True):
        word = unicodedata.normalize("NFC", token)
        assert by_word.setdefault(word, tuple(vector)) == tuple(vector)
    assert len(set(by_word.values())) == len(by_word)


@given(st.text(max_size=60).filter(lambda text: "[SEP]" not in text))
def test_offsets_reproduce_any_text(text):
    """Nothing but whitespace is lost, nothing is invented, and no token is cut in two or overlaps."""
    encoded = WORDS.encode(text)
    position = 0
    for token, (start, end) in list(zip(encoded.tokens, encoded.offsets, strict=True))[1:-1]:
        assert text[position:start].strip() == ""
        assert text[start:end] == token
        position = end
    assert text[position:].strip() == ""


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_texts_become_one_batch_with_stable_ids(texts):
    batch = make_batch(texts, WORDS, max_len=64)
    for row, text in enumerate(texts):
        alone = WORDS.encode(text).ids
        assert batch.token_ids[row, ~batch.key_padding_mask[row]].tolist() == alone
