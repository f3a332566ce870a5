"""What the twin is trained on, and that it is not what it is judged by."""

import json
import re

import numpy as np
import pytest

from training.sources import Document
from training.templates import FRAMES, HELD_OUT_WORDS, WORDS, everyday_sentence, is_held_out_sentence
from training.texts import (
    AGAIN,
    FIRST,
    RESERVED,
    THEN,
    Corpus,
    draw_text,
    draw_texts,
    is_held_out,
    is_reserved,
)

ENTRY = Document("wordnet/noun.1", ("whole: an assemblage of parts", "the team is a unit"))
PROSE = Document("sotu/1790", tuple(f"Sentence number {n} of this address is here." for n in range(200)))
CORPUS = Corpus((PROSE,), (ENTRY,))


def rng(*seed):
    return np.random.default_rng(seed)


def test_sentences_of_templates_have_every_slot_filled_and_no_word_twice_in_a_kind():
    sentences = [everyday_sentence(rng(n)) for n in range(400)]
    assert not [sentence for sentence in sentences if re.search(r"[{}]", sentence)]
    assert len(set(sentences)) > 380
    assert {slot for frame in FRAMES for slot in re.findall(r"\{([a-z]+)2?\}", frame)} == WORDS.keys()
    for n in range(200):
        places = [word for word in WORDS["noun"] if f" {word} " in everyday_sentence(rng(n))]
        assert len(places) == len(set(places))


def test_words_kept_for_testing_are_in_every_held_out_sentence_and_in_no_other():
    for n in range(400):
        assert is_held_out_sentence(everyday_sentence(rng(n), held_out=True))
        assert not is_held_out_sentence(everyday_sentence(rng(n)))
    assert {"animal", "street"} <= {*HELD_OUT_WORDS["noun"], *HELD_OUT_WORDS["thing"]}
    for kind, words in HELD_OUT_WORDS.items():
        assert not set(words) & set(WORDS[kind])


def test_the_reserved_texts_are_those_of_the_reference_activations(goldens):
    cases = json.loads((goldens / "minilm.json").read_text(encoding="utf-8"))["cases"]
    assert {text for case in cases.values() for text in case["texts"]} <= set(RESERVED)


def test_a_text_that_is_or_holds_a_reserved_one_is_found():
    assert is_reserved("hello")
    assert is_reserved("  ")
    assert is_reserved("He said: ATTENTION is all\nyou need. Then he left.")
    assert not is_reserved("Hello, Maria!")
    assert not is_reserved("A text with a short word.")


def test_a_corpus_full_of_reserved_texts_gives_none():
    """A draw that is refused is drawn again."""
    document = Document("sotu/1", (*[text for text in RESERVED if text], *PROSE.sentences))
    corpus = Corpus((document,), (Document("wordnet/2", ("Hello", "Short.", "unit: a thing")),))
    generator = rng(7)
    texts = [draw_text(generator, corpus, 16) for _ in range(3_000)]
    assert any("sentence number" in text.lower() for text in texts)
    assert not [text for text in texts if is_reserved(text)]


def test_a_document_is_on_one_side_of_the_split_whole():
    found = [Document(f"sotu/{n}", ("A.",)) for n in range(600)] + [
        Document(f"wordnet/{n}", ("B.",)) for n in range(60)
    ]
    train, test = Corpus.split(found, held_out=False), Corpus.split(found, held_out=True)
    names = [{document.name for document in (*side.prose, *side.entries)} for side in (train, test)]
    assert names[0] | names[1] == {document.name for document in found}
    assert not names[0] & names[1]
    assert len(test.prose) == pytest.approx(600 / 12, rel=0.4)
    assert all(is_held_out(name) for name in names[1])


def test_a_step_has_the_same_texts_each_time_and_another_step_has_others():
    first, again, other = (draw_texts(rng(*seed), CORPUS, 512) for seed in ((0, 5), (0, 5), (0, 6)))
    assert first == again
    assert first != other


@pytest.mark.parametrize("corpus", [CORPUS, None], ids=["corpus", "templates"])
def test_rows_have_about_the_tokens_that_were_asked_for(corpus):
    for low, high, _ in FIRST.lengths:
        for n in range(20):
            n_words = draw_text(rng(n, low), corpus, high).count(" ") + 1
            assert n_words < high + 40
        longest = max(draw_text(rng(n, low), corpus, high).count(" ") for n in range(20))
        assert longest > 0.5 * high


@pytest.mark.parametrize("mix", [FIRST, THEN, AGAIN])
def test_every_length_has_its_share(mix):
    """Long texts too: the encoder takes 512 tokens."""
    assert sum(share for _, _, share in mix.lengths) == pytest.approx(1)
    drawn = np.array([draw_texts(rng(0, n), None, 64, mix)[1] for n in range(1_000)])
    for low, high, share in mix.lengths:
        assert ((low <= drawn) & (drawn <= high)).mean() == pytest.approx(share, abs=0.05)
    assert drawn.max() > 500


def test_the_second_run_has_lists_of_names_and_words():
    """Without their definitions, from one end of a window of the dictionary to the other."""
    people = [Document(f"wordnet/noun.{n}", (f"Ann {chr(65 + n)}son: a poet (1800-18{n + 10})",)) for n in range(26)]
    words = [Document(f"wordnet/noun.{n}", (f"{chr(97 + n)}ish: of that kind",)) for n in range(26)]
    corpus = Corpus((PROSE,), (*people, *words))
    found = [draw_text(rng(n), corpus, 24, AGAIN) for n in range(600)]
    lists = [text for text in found if re.search(r"([A-Z]son|[a-z]ish)(; |, | and | )(Ann )?([A-Z]son|[a-z]ish)", text)]
    assert 0.06 < len(lists) / len(found) < 0.2
    assert any("son; " in text for text in lists)
    assert any("ish, " in text for text in lists)
    assert not [
        n for n in range(600) if re.search(r"(son|ish); (Ann )?[A-Za-z](son|ish)", draw_text(rng(n), corpus, 24))
    ]
