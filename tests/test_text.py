"""Sentences to a batch: padding, cutting, refusals; and every awkward input through both tokenizers."""

import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer import TextError, sentences_of
from explorer.text import WordTokenizer, make_batch
from tests.helpers import rough, tiny
from tests.inputs import TEXTS, words

WORDS = WordTokenizer()


def batch_of(*sentences, **options):
    return make_batch(list(sentences), WORDS, **{"max_len": 16} | options)


def test_right_and_left_padding_by_hand():
    right, left = (batch_of("a b", "c", padding_side=side) for side in ("right", "left"))
    assert right.tokens == [["[CLS]", "a", "b", "[SEP]"], ["[CLS]", "c", "[SEP]", "[PAD]"]]
    assert left.tokens[1] == ["[PAD]", "[CLS]", "c", "[SEP]"]
    assert right.key_padding_mask.tolist() == [[False] * 4, [False, False, False, True]]
    assert left.key_padding_mask.tolist() == [[False] * 4, [True, False, False, False]]
    assert right.token_ids[1, 3] == left.token_ids[1, 0] == WORDS.pad_id
    assert left.offsets[1] == [(0, 0), (0, 0), (0, 1), (0, 0)]
    assert (right.n_real, right.n_padding) == (left.n_real, left.n_padding) == (7, 1)
    assert torch.equal(right.token_ids[1, :3], left.token_ids[1, 1:])


def test_padding_to_a_fixed_length():
    batch = batch_of("a b", "c", pad_to=6)
    assert batch.token_ids.shape == batch.key_padding_mask.shape == batch.segments.shape == (2, 6)
    assert batch.n_padding == 5
    assert batch_of("a b", pad_to=4).n_padding == 0


@pytest.mark.parametrize(
    ("pad_to", "message"),
    [
        (3, r"pad_to \(3\) .* longest sentence \(4 tokens\) and max_len \(16\); nearest: 4$"),
        (0, r"pad_to \(0\) .* nearest: 4$"),
        (-1, r"pad_to \(-1\) .* nearest: 4$"),
        (17, r"pad_to \(17\) .* nearest: 16$"),
    ],
)
def test_a_fixed_length_that_does_not_fit_is_refused(pad_to, message):
    with pytest.raises(TextError, match=message):
        batch_of("a b", pad_to=pad_to)


@pytest.mark.usefixtures("unchecked")
def test_other_refusals():
    with pytest.raises(TextError, match="there is no sentence to run; type at least one word"):
        batch_of()
    with pytest.raises(TextError, match="must be right or left, not 'middle'; usual: right"):
        batch_of("a", padding_side="middle")
    with pytest.raises(TextError, match=r"a list of sentences, not one string; write \['hello'\]"):
        make_batch("hello", WORDS, max_len=16)


def test_words_that_do_not_fit_are_counted():
    """C7: [CLS], 4 words and [SEP] fit into 6; the rest is visible, never silent."""
    batch = batch_of(words(10), "short", max_len=6)
    assert batch.tokens[0] == ["[CLS]", "word0", "word1", "word2", "word3", "[SEP]"]
    assert batch.n_cut == (6, 0)
    assert batch.sentences[0] == words(10)


def test_two_thousand_words_become_512_tokens(minilm):
    """C7."""
    batch = minilm.batch([words(2_000)])
    assert batch.token_ids.shape == (1, 512)
    assert batch.tokens[0][-1] == "[SEP]"
    assert batch.n_cut[0] > 2_000 - 512


def test_sentences_keep_the_numbers_of_their_lines():
    """C4: a blank line between two sentences renumbers nobody."""
    assert sentences_of("first\n\n  second \r\nthird") == [(1, "first"), (3, "second"), (4, "third")]
    for blank in ("", "   ", "\n\n\r\n", "\t"):
        assert sentences_of(blank) == []


def test_equal_words_that_are_written_differently_are_no_shared_id():
    """Composed and decomposed accents are one word; [UNK] twice is no collision either."""
    batch = batch_of("café cafe\u0301")
    assert batch.token_ids[0, 1] == batch.token_ids[0, 2]


def test_a_shared_id_is_refused_naming_both_words():
    """Two words with one vector would be shown as equal by every figure. 4 rows have room for one word."""
    with pytest.raises(TextError, match=r"the words 'cat' and 'dog' have the same id \(3\)"):
        make_batch(["cat", "dog"], WordTokenizer(4), max_len=16)
    assert make_batch(["cat cat"], WordTokenizer(4), max_len=16).n_real == 4


def test_ids_fit_into_the_table():
    tokenizer = WordTokenizer(50)
    assert all(3 <= tokenizer.word_id(f"word{i}") < 50 for i in range(300))


def test_padding_typed_as_a_word_is_a_real_token(minilm):
    """What is typed is text: only the padding of the batch is masked."""
    batch = minilm.batch(["a [PAD] b", "a much longer sentence than that"])
    assert batch.tokens[0][:5] == ["[CLS]", "a", "[PAD]", "b", "[SEP]"]
    assert batch.key_padding_mask[0].tolist() == [False] * 5 + [True] * 3
    pattern = explorer.run(minilm, batch).trace.pattern(0)[0]
    assert (pattern[:, 0, 2] > 0).all()
    assert batch_of("a [PAD] b").tokens == [["[CLS]", "a", "[", "PAD", "]", "b", "[SEP]"]]


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_left_padding_gives_real_tokens_the_same_vectors_as_right_padding(placement, positions):
    model = rough(tiny(norm_placement=placement, positions=positions))
    outputs = []
    for side in ("right", "left"):
        batch = model.batch(["one two", "three four five six"], pad_to=9, padding_side=side)
        outputs.append(explorer.run(model, batch).output[~batch.key_padding_mask.numpy()])
    assert_allclose(outputs[0], outputs[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("which", ["minilm", "words"])
def test_every_awkward_text_becomes_a_batch(name, which, minilm):
    """No exception, no replacement mark, and offsets that find each token in the text as it was typed."""
    tokenizer, max_len = (minilm.tokenizer, 512) if which == "minilm" else (WORDS, 512)
    sentences = [sentence for _, sentence in sentences_of(TEXTS[name])] or [TEXTS[name]]
    batch = make_batch(sentences, tokenizer, max_len=max_len)
    assert batch.sentences == tuple(sentences)
    assert batch.token_ids.shape[0] == len(sentences)
    for row, sentence in enumerate(sentences):
        ends = [0]
        for token, (start, end) in zip(batch.tokens[row], batch.offsets[row], strict=True):
            assert "\ufffd" not in token
            assert 0 <= start <= end <= len(sentence)
            if (start, end) != (0, 0):
                assert sentence[start:end].strip()
                assert start >= ends[-1]  # in order, without overlap
                ends.append(end)
                if which == "words":
                    assert sentence[start:end] == token
        if which == "words" and batch.n_cut[row] == 0:
            assert "".join(sentence.split()) == "".join(
                t for t in batch.tokens[row] if t not in ("[CLS]", "[SEP]", "[PAD]")
            )


@pytest.mark.parametrize("which", ["minilm", "words"])
def test_a_lone_surrogate_is_text_or_a_clear_refusal(which, minilm):
    """It has no UTF-8 form. Half an emoji, cut by another program, must not end in a TypeError of a library."""
    tokenizer = minilm.tokenizer if which == "minilm" else WORDS
    try:
        n_real = make_batch(["a \ud83d b"], tokenizer, max_len=16).n_real
    except TextError as refusal:
        n_real = len(str(refusal))
    assert n_real >= 5
