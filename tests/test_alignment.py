"""Which token of one text stands beside which of another: each rule, and what holds for any two texts."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer import MaskError, match_sentence
from explorer.comparison import ABSENT, align, common_tokens
from explorer.text import Batch
from tests.helpers import tiny

MODEL = explorer.build(tiny(max_len=64))


def batch_of(tokens, before=0, after=0):
    """One row of these tokens, or of a text cut at spaces, with so much padding on each side. Nothing is added."""
    tokens = tokens.split() if isinstance(tokens, str) else tokens
    row = ["[PAD]"] * before + list(tokens) + ["[PAD]"] * after
    return Batch(
        sentences=(" ".join(tokens),),
        token_ids=torch.zeros(1, len(row), dtype=torch.int64),
        key_padding_mask=torch.tensor([[True] * before + [False] * len(tokens) + [True] * after]),
        segments=torch.zeros(1, len(row), dtype=torch.int64),
        tokens=[row],
        offsets=[[(0, 0)] * len(row)],
        words=[[None] * len(row)],
        n_cut=(0,),
    )


def beside(text_a, text_b):
    """Two texts, cut at spaces: see `shown`."""
    return shown(batch_of(text_a), batch_of(text_b))


def shown(a, b):
    """The slots of two rows, each as `a|b`."""
    alignment = align(a, b)

    def letters(batch, place):
        return "" if place == ABSENT else batch.tokens[0][place]

    return " ".join(f"{letters(a, i)}|{letters(b, j)}" for i, j in zip(alignment.a, alignment.b, strict=True))


def test_a_text_beside_itself_is_all_shared():
    alignment = align(*[MODEL.batch(["the cat the", "a"])] * 2, sentence_a=1, sentence_b=1)
    assert alignment.a.tolist() == alignment.b.tolist() == [0, 1, 2, 3, 4]
    assert alignment.tokens == ("[CLS]", "a", "[SEP]", "[PAD]", "[PAD]")
    assert alignment.padding_a.tolist() == alignment.padding_b.tolist() == [False] * 3 + [True] * 2
    assert alignment.shared.tolist() == [True] * 3 + [False] * 2
    assert alignment.only_a() == alignment.only_b() == []


def test_real_tokens_stand_together_in_a_longest_common_order():
    """Matching the longest block first, `p q`, would leave the other four alone, as difflib does."""
    assert beside("p q a b c d", "a x b x c x d p q") == "p| q| a|a |x b|b |x c|c |x d|d |p |q"
    assert beside("the cat sat", "the dog sat down") == "the|the cat| |dog sat|sat |down"


def test_of_equally_long_ones_the_same_is_taken_whichever_text_comes_first():
    assert beside("x y", "y x") == "x| y|y |x"
    assert beside("y x", "x y") == "|x y|y x|"
    assert beside("the cat the dog", "the dog") == "the|the cat| the| dog|dog"
    assert beside("the dog", "the cat the dog") == "the|the |cat |the dog|dog"


def test_what_one_has_alone_stands_in_its_place_with_a_before_b():
    assert beside("x y a b z", "x c y d z") == "x|x |c y|y a| b| |d z|z"
    alignment = align(batch_of("x a z"), batch_of("x c d z"))
    assert alignment.tokens == ("x", "a", "c", "d", "z")
    assert (alignment.only_a(), alignment.only_b()) == (["a"], ["c", "d"])


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("Cat", "cat", True),
        ("STRASSE", "straße", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("CAF\u00c9", "cafe\u0301", True),
        ("cafe", "café", False),
        ("##ing", "ing", False),
        ("1", "١", False),
        ("a", "b", False),
    ],
)
def test_letters_decide_whether_tokens_agree(one, other, agree):
    assert len(common_tokens([one], [other])) == len(common_tokens([other], [one])) == agree


def test_tokens_are_written_as_in_b():
    assert align(batch_of(["Cat", "A"]), batch_of(["cat", "b"])).tokens == ("cat", "A", "b")


def test_the_first_cls_and_the_closing_sep_stand_together_whatever_is_typed():
    assert beside("[CLS] x [SEP]", "[CLS] x [SEP] y [SEP]") == "[CLS]|[CLS] x|x |[SEP] |y [SEP]|[SEP]"
    assert beside("[CLS] [SEP]", "[CLS] [CLS] [SEP] [SEP]") == "[CLS]|[CLS] |[CLS] |[SEP] [SEP]|[SEP]"
    assert beside("[CLS] a [SEP]", "[CLS] b [SEP]") == "[CLS]|[CLS] a| |b [SEP]|[SEP]"
    pair = align(MODEL.batch(["one [SEP] two"]), MODEL.batch(["two"]))
    assert (pair.only_a(), pair.only_b()) == (["one", "[SEP]"], [])


def test_padding_stands_with_padding_of_its_side_counted_from_the_text():
    text = "[CLS] x [SEP]"
    same = "[CLS]|[CLS] x|x [SEP]|[SEP]"
    assert shown(batch_of(text, before=1), batch_of(text, before=3)) == f"|[PAD] |[PAD] [PAD]|[PAD] {same}"
    assert shown(batch_of(text, after=3), batch_of(text, after=1)) == f"{same} [PAD]|[PAD] [PAD]| [PAD]|"
    assert shown(batch_of(text, before=1), batch_of(text, after=2)) == f"[PAD]| {same} |[PAD] |[PAD]"


def test_the_same_sentence_padded_left_and_right_aligns_all_its_tokens():
    sentences = ["one two three", "one"]
    left, right = (MODEL.batch(sentences, padding_side=side) for side in ("left", "right"))
    alignment = align(left, right, sentence_a=1, sentence_b=1)
    assert alignment.a[alignment.shared].tolist() == [2, 3, 4]
    assert alignment.b[alignment.shared].tolist() == [0, 1, 2]
    assert alignment.only_a() == alignment.only_b() == []
    assert alignment.padding_a.tolist() == [True, True, False, False, False, False, False]
    assert alignment.padding_b.tolist() == [False, False, False, False, False, True, True]


def test_a_typed_pad_is_a_word_and_never_stands_with_padding(minilm):
    typed, padded = minilm.batch(["a [PAD] b"]), minilm.batch(["a"], pad_to=5)
    assert typed.tokens[0] == ["[CLS]", "a", "[PAD]", "b", "[SEP]"]
    alignment = align(typed, padded)
    assert alignment.only_a() == ["[PAD]", "b"]
    assert alignment.b[alignment.padding_b].tolist() == [3, 4]
    assert (alignment.a[alignment.padding_b] == ABSENT).all()
    both = align(typed, minilm.batch(["a [PAD]"], pad_to=6))
    assert both.tokens[both.shared.nonzero()[0][2]] == "[PAD]"
    assert both.only_a() == ["b"]


def test_word_pieces_and_words_align_where_they_are_the_same_word(minilm):
    pieces, words = minilm.batch(["The Cat unhappily sat"]), MODEL.batch(["The Cat unhappily sat"])
    alignment = align(pieces, words)
    assert " ".join(np.array(alignment.tokens)[alignment.shared]) == "[CLS] The Cat sat [SEP]"
    assert alignment.only_a() == ["un", "##ha", "##pp", "##ily"]
    assert alignment.only_b() == ["unhappily"]


def test_what_is_spread_is_nan_where_a_side_has_nothing():
    alignment = align(batch_of("x a z"), batch_of("x z", before=1))
    assert alignment.tokens == ("[PAD]", "x", "a", "z")
    values = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
    spread = alignment.spread(values, "a")
    assert spread.dtype == np.float32
    np.testing.assert_array_equal(spread, [[np.nan, 1, 2, 3], [np.nan, 4, 5, 6]])
    np.testing.assert_array_equal(alignment.spread(values.T, "b", axis=0), [[1, 4], [2, 5], [np.nan, np.nan], [3, 6]])


def test_no_array_of_an_alignment_can_be_changed():
    alignment = align(batch_of(["x"]), batch_of(["x"]))
    for array in (alignment.a, alignment.b, alignment.padding_a, alignment.padding_b):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_rows_that_cannot_be_aligned_are_refused():
    good = batch_of(["x", "y", "z"])
    hollow = batch_of(["x", "y", "z"])
    hollow.key_padding_mask[0, 1] = True
    with pytest.raises(MaskError, match="padding between real tokens"):
        align(good, hollow)
    hollow.key_padding_mask[:] = True
    with pytest.raises(MaskError, match="no real token"):
        align(hollow, good)
    for number in (-1, 1):
        with pytest.raises(IndexError, match="this text has sentences 0 to 0"):
            align(good, good, sentence_b=number)


def test_long_texts_are_aligned():
    rng = np.random.default_rng(0)
    a, b = ([str(word) for word in rng.integers(0, 40, 512)] for _ in range(2))
    pairs = common_tokens(a, b)
    assert all(a[i] == b[j] for i, j in pairs)


def test_the_sentence_beside_one_of_b():
    def match(a, b, sentence_b):
        return match_sentence(MODEL.batch(a), MODEL.batch(b), sentence_b)

    assert match(["x", "y", "z"], ["z", "q"], 0) == 2  # the same text
    assert match(["x", "x", "x"], ["y", "x"], 1) == 1  # the same text in the same row, not the first
    assert match(["y", "x", "x"], ["x"], 0) == 1  # the first of the same text
    assert match(["x", "y", "z"], ["z", "q"], 1) == 1  # the same row
    assert match(["x", "y"], ["a", "b", "c"], 2) == 1  # A's last


# What holds for any two texts

TOKENS = st.lists(st.sampled_from(["a", "A", "b", "##b", "c", "[CLS]", "[SEP]", "[PAD]"]), min_size=1, max_size=8)
ROWS = st.tuples(TOKENS, st.integers(0, 3), st.integers(0, 3))


@given(ROWS, ROWS)
def test_every_token_appears_once_in_its_order_and_what_stands_together_agrees(row_a, row_b):
    a, b = batch_of(*row_a), batch_of(*row_b)
    alignment = align(a, b)
    for batch, place, padding in ((a, alignment.a, alignment.padding_a), (b, alignment.b, alignment.padding_b)):
        assert place[place != ABSENT].tolist() == list(range(len(batch.tokens[0])))
        assert padding[place != ABSENT].tolist() == batch.key_padding_mask[0].tolist()
        assert not padding[place == ABSENT].any()
    together = (alignment.a != ABSENT) & (alignment.b != ABSENT)
    assert (alignment.padding_a[together] == alignment.padding_b[together]).all()
    for i, j in zip(alignment.a[together], alignment.b[together], strict=True):
        assert a.tokens[0][i].lower() == b.tokens[0][j].lower()
    n_real = [int((~batch.key_padding_mask).sum()) - int(alignment.shared.sum()) for batch in (a, b)]
    assert [len(alignment.only_a()), len(alignment.only_b())] == n_real


@given(ROWS, ROWS)
def test_swapped_the_same_tokens_stand_together(row_a, row_b):
    a, b = batch_of(*row_a), batch_of(*row_b)
    one, other = align(a, b), align(b, a)
    assert sorted(zip(one.a, one.b, strict=True)) == sorted(zip(other.b, other.a, strict=True))
    assert (one.only_a(), one.only_b()) == (other.only_b(), other.only_a())


@given(TOKENS, TOKENS)
def test_no_common_order_is_longer(a, b):
    """The closing `[SEP]`, a pair in any case, costs nothing."""

    @cache
    def longest(i, j):
        if i == len(a) or j == len(b):
            return 0
        taken = 1 + longest(i + 1, j + 1) if a[i].lower() == b[j].lower() else 0
        return max(taken, longest(i + 1, j), longest(i, j + 1))

    pairs = common_tokens(a, b)
    assert len(pairs) == longest(0, 0)
    assert pairs == sorted(set(pairs))
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    if a[-1] == b[-1] == "[SEP]":
        assert pairs[-1] == (len(a) - 1, len(b) - 1)


@given(st.integers(0, 3), st.integers(0, 3), ROWS, TOKENS)
def test_padding_changes_no_pair_of_words(before, after, row_a, tokens):
    a = batch_of(*row_a)

    def words(b, shift):
        found = align(a, b)
        return [(i, j - shift) for i, j in zip(found.a[found.shared], found.b[found.shared], strict=True)]

    assert words(batch_of(tokens, before, after), before) == words(batch_of(tokens), 0)
