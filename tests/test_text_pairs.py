"""Words and pairs: which tokens form a word, what was typed for them, and which sentence of a pair they are of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.text import WordTokenizer, make_batch, segments_of
from tests.helpers import rough, tiny
from tests.inputs import TEXTS

WORDS = WordTokenizer()
SIDES = pytest.mark.parametrize("side", ["right", "left"])


def batch_of(*sentences, **options):
    return make_batch(list(sentences), WORDS, **{"max_len": 16} | options)


@SIDES
def test_the_pieces_of_a_word_are_one_span(minilm, side):
    """[CLS] token ##ization now [SEP], beside [CLS] now [SEP] and two pads."""
    batch = minilm.batch(["Tokenization now", "now"], padding_side=side)
    assert batch.tokens[0] == ["[CLS]", "token", "##ization", "now", "[SEP]"]
    assert batch.word_spans(0) == [(0, 1), (1, 3), (3, 4), (4, 5)]
    assert batch.word_spans(1) == [(pos, pos + 1) for pos in range(5)]
    assert [batch.as_typed(0, *span) for span in batch.word_spans(0)] == ["[CLS]", "Tokenization", "now", "[SEP]"]
    expected = ["[CLS]", "now", "[SEP]", "[PAD]", "[PAD]"]
    typed = [batch.as_typed(1, *span) for span in batch.word_spans(1)]
    assert typed == (expected if side == "right" else expected[3:] + expected[:3])


def test_one_piece_of_a_word_is_its_own_letters(minilm):
    batch = minilm.batch(["Tokenization now"])
    assert [batch.as_typed(0, pos, pos + 1) for pos in range(5)] == ["[CLS]", "Token", "ization", "now", "[SEP]"]
    assert batch.as_typed(0, 0, 5) == "[CLS] Tokenization now [SEP]"
    assert batch.as_typed(0, 2, 4) == "ization now"


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("THE Café cafe\u0301!", ["THE", "Café", "cafe\u0301", "!"]),
        (
            "e\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f467 x",
            ["e\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "x"],
        ),
        ("हिन्दी अ", ["हिन्दी", "अ"]),
        ("中文", ["中", "文"]),
        ("a [MASK] b", ["a", "[MASK]", "b"]),
        ("tokenization[MASK]ization", ["tokenization", "[MASK]", "ization"]),
        ("the the", ["the", "the"]),
    ],
)
def test_words_as_typed(minilm, sentence, words):
    """Accents that the tokenizer strips, and emoji it does not know, are shown all the same."""
    batch = minilm.batch([sentence])
    assert [batch.as_typed(0, *span) for span in batch.word_spans(0)] == ["[CLS]", *words, "[SEP]"]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("which", ["minilm", "words"])
@SIDES
def test_words_tile_every_row(name, which, side, minilm):
    """Every position is in one span, no span holds two words, and no letter is shown twice."""
    tokenizer = minilm.tokenizer if which == "minilm" else WORDS
    batch = make_batch([TEXTS[name], "a b"], tokenizer, max_len=512, padding_side=side)
    width = batch.token_ids.shape[1]
    for row, sentence in enumerate(batch.sentences):
        spans = batch.word_spans(row)
        assert [pos for start, stop in spans for pos in range(start, stop)] == list(range(width))
        for start, stop in spans:
            words = set(batch.words[row][start:stop])
            assert len(words) == 1
            assert stop - start == 1 or None not in words
        typed = [batch.as_typed(row, *span) for span in spans if batch.words[row][span[0]] is not None]
        rest = sentence
        for word in typed:
            assert word
            _, found, rest = rest.partition(word)
            assert found == word


@SIDES
def test_a_pair(side):
    """Sentence 0 is a pair of 6 tokens; sentence 1 is none, of 3 tokens and 3 pads."""
    batch = batch_of("one two [SEP] three", "four", padding_side=side)
    assert batch.tokens[0] == ["[CLS]", "one", "two", "[SEP]", "three", "[SEP]"]
    assert batch.segments[0].tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.segments[1].tolist() == [0] * 6
    assert (batch.is_pair(0), batch.is_pair(1)) == (True, False)
    assert batch.word_spans(0) == [(pos, pos + 1) for pos in range(6)]
    assert batch.as_typed(0, 0, 6) == "[CLS] one two [SEP] three [SEP]"
    left = batch_of("a [SEP] b", "one two three four", padding_side="left")
    assert left.segments[0].tolist() == [0, 0, 0, 0, 1, 1]


def test_sentences_are_not_positions_where_their_numbers_are_equal():
    """5 sentences of up to 5 tokens: the first and the last are pairs."""
    batch = batch_of("a [SEP] b", "c", "d", "e", "f [SEP] g")
    pair, single = [0, 0, 0, 1, 1], [0] * 5
    assert batch.segments.tolist() == [pair, single, single, single, pair]
    assert [batch.is_pair(row) for row in range(5)] == [True, False, False, False, True]
    assert [batch.as_typed(row, 1, 2) for row in range(5)] == ["a", "c", "d", "e", "f"]


@pytest.mark.parametrize("which", ["minilm", "words"])
@pytest.mark.parametrize(
    ("sentence", "segments"),
    [
        ("a [SEP] b", [0, 0, 0, 1, 1]),
        ("a[SEP]b", [0, 0, 0, 1, 1]),
        ("a [SEP] b [SEP] c", [0, 0, 0, 1, 1, 1, 1]),
        ("a [SEP] [SEP] b", [0, 0, 0, 1, 1, 1]),
        ("a [SEP] b [SEP]", [0, 0, 0, 1, 1, 1]),
        ("[SEP] a", [0, 0, 0, 0]),
        ("a [SEP]", [0, 0, 0, 0]),
        ("[SEP] a [SEP] b", [0] * 6),
        ("a [SEP] [SEP]", [0] * 5),
        ("[SEP]", [0, 0, 0]),
        ("a [sep] b", [0] * 7),
        ("", [0, 0]),
    ],
)
def test_what_is_a_pair(which, sentence, segments, minilm):
    tokenizer = minilm.tokenizer if which == "minilm" else WORDS
    batch = make_batch([sentence], tokenizer, max_len=16)
    assert batch.segments[0].tolist() == segments
    assert batch.is_pair(0) == (1 in segments)
    separators = np.array(batch.tokens[0]) == "[SEP]"
    for pos in np.flatnonzero(separators):
        assert batch.offsets[0][pos] == (0, 0)
        assert batch.words[0][pos] is None
    assert batch.roles()["sep"][0].tolist() == separators.tolist()


@pytest.mark.parametrize(
    ("max_len", "tokens", "segments"),
    [
        (6, ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"], [0, 0, 0, 0, 1, 1]),
        (5, ["[CLS]", "a", "b", "[SEP]", "[SEP]"], [0] * 5),  # nothing is left of B: no pair
        (4, ["[CLS]", "a", "b", "[SEP]"], [0] * 4),  # the typed separator is gone: the closing one is not of B
        (2, ["[CLS]", "[SEP]"], [0, 0]),
        (1, ["[SEP]"], [0]),
    ],
)
def test_a_pair_that_is_cut(max_len, tokens, segments):
    """The closing [SEP] is of the segment that is left."""
    batch = batch_of("a b [SEP] c d", max_len=max_len)
    assert batch.tokens == [tokens]
    assert batch.segments.tolist() == [segments]
    assert len(batch.words[0]) == len(batch.offsets[0]) == max_len
    assert batch.n_cut == (7 - max_len,)


@given(st.lists(st.sampled_from(["a", "[SEP]"]), max_size=8))
def test_segments_never_go_back(middle):
    tokens = ["[CLS]", *middle, "[SEP]"]
    segments = segments_of(tokens)
    assert segments == sorted(segments)
    assert tokens[segments.count(0) - 1] == "[SEP]"


@pytest.mark.parametrize("n_segments", [0, 1])
def test_an_encoder_without_segments_reads_a_pair_as_one_sentence(n_segments):
    """The same numbers as where no segment is given; the record has no second row of a table that has one."""
    model = rough(tiny(n_segments=n_segments))
    batch = model.batch(["one [SEP] two", "three"])
    assert batch.is_pair(0)
    run = explorer.run(model, batch)
    alone = model.encoder(batch.token_ids, batch.key_padding_mask).detach().numpy()
    assert np.array_equal(run.output, alone)


def test_an_encoder_with_segments_tells_the_two_sentences_apart():
    model = rough(tiny(n_segments=2))
    batch = model.batch(["one [SEP] two", "three"])
    added = explorer.run(model, batch).trace.embedding("segments")
    table = model.encoder.embed.segments.weight.detach().numpy()
    assert np.array_equal(added, table[batch.segments.numpy()])
    assert np.abs(table[0] - table[1]).max() > 0.1
