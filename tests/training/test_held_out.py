"""The texts that the twin is judged by."""

import json

import pytest

from training.held_out import FILE, LONG, read_held_out
from training.templates import is_held_out_sentence
from training.texts import is_held_out, is_reserved

CONTENT = json.loads(FILE.read_text(encoding="utf-8"))


def test_there_are_enough_of_each_kind_and_none_twice():
    lists = read_held_out()
    assert {name: len(texts) for name, texts in lists.items()} == {
        "lines": 160, "pairs": 20, "long": 12, "everyday": 60, "other": 30, "unknown": 5,
    }  # fmt: skip
    texts = [text for texts in lists.values() for text in texts]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", ["lines", "pairs", "long"])
def test_lines_are_from_documents_that_training_does_not_read(name):
    assert all(is_held_out(row["document"]) for row in CONTENT[name])
    assert len({row["document"] for row in CONTENT[name]}) >= 10
    assert not any(row["document"].startswith("wordnet/") for row in CONTENT[name])


def test_everyday_sentences_have_words_that_training_has_not():
    assert all(is_held_out_sentence(row["text"]) for row in CONTENT["everyday"])


def test_the_texts_of_the_reference_activations_are_not_among_them():
    assert not [text for texts in read_held_out().values() for text in texts if is_reserved(text)]


def test_lengths_in_tokens(minilm):
    n_tokens = {name: [minilm.batch([text]).n_real for text in texts] for name, texts in read_held_out().items()}
    for name in ("lines", "pairs"):
        assert min(n_tokens[name]) >= 16
        assert max(n_tokens[name]) <= 64
    assert LONG == 300 < min(n_tokens["long"])
    assert max(n_tokens["long"]) <= 512


def test_pairs_are_pairs_and_unknown_words_are_unknown(minilm):
    lists = read_held_out()
    assert all(minilm.batch([text]).is_pair(0) for text in lists["pairs"])
    for text in lists["unknown"]:
        assert set(minilm.batch([text]).tokens[0]) == {"[CLS]", "[UNK]", "[SEP]"}
