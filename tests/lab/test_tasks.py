"""What each task asks, by hand; and how sentences are drawn and read."""

import pytest
import torch

from explorer import ConfigError
from explorer.lab.tasks import (
    MOST_LETTERS,
    TASKS,
    VOCABULARY,
    Copy,
    Exercise,
    LetterTokenizer,
    Reverse,
    Shift,
    Task,
    task_of,
)
from explorer.text import Tokenizer, WordTokenizer, make_batch
from tests.inputs import TEXTS


def asked(task: Task, sentences: list[str], side: str = "right") -> list[list[str]]:
    """The answers that the task wants, token by token; `.` where it asks nothing."""
    batch = make_batch(sentences, LetterTokenizer(), max_len=32, padding_side=side)
    right = task.right(batch.token_ids, batch.key_padding_mask)
    exercise = Exercise(batch.token_ids, batch.key_padding_mask, right)
    names = [[VOCABULARY[token_id] for token_id in row] for row in exercise.targets.tolist()]
    return [
        [name if counts else "." for name, counts in zip(*row, strict=True)]
        for row in zip(names, exercise.counts.tolist(), strict=True)
    ]


def drawn(task: Task, size: int = 400, seed: int = 0) -> Exercise:
    return task.batch(torch.Generator().manual_seed(seed), size)


@pytest.mark.parametrize(
    ("task", "sentences", "expected"),
    [
        (Reverse(), ["a b c d", "x y"], [". d c b a .", ". y x . . ."]),
        (Reverse(), ["a b b", "q"], [". b b a .", ". q . . ."]),
        (Shift(), ["a b c d", "x y"], [". [CLS] a b c .", ". [CLS] x . . ."]),
        (Copy(), ["a b [SEP] c d"], [". c d . . . ."]),
        (Copy(), ["a b c [SEP] d", "a [SEP] b c"], [". d . . . . .", ". b . . . . ."]),
        (Copy(), ["a b c"], [". . . . ."]),  # nothing follows
        (Copy(), ["a [SEP] b [SEP] c"], [". b . . . . ."]),  # the first separator is meant
    ],
)
def test_what_is_asked_by_hand(task, sentences, expected):
    assert asked(task, sentences) == [row.split() for row in expected]


def test_where_the_answer_stands_by_hand():
    """`[CLS] a b b [SEP]`: equal letters have different places, so it is the place that is right, not the letter."""
    batch = make_batch(["a b b"], LetterTokenizer(), max_len=8)
    places = [task.right(batch.token_ids, batch.key_padding_mask)[0].tolist() for task in (Reverse(), Shift())]
    assert places == [[-1, 3, 2, 1, -1], [-1, 0, 1, 2, -1]]
    pair = make_batch(["a b [SEP] c d"], LetterTokenizer(), max_len=8)
    assert Copy().right(pair.token_ids, pair.key_padding_mask)[0].tolist() == [-1, 4, 5, -1, -1, -1, -1]


def test_padding_on_the_left_asks_the_same():
    for task in (Reverse(), Shift()):
        assert asked(task, ["a b c d", "x y"], side="left")[1] == [".", ".", *asked(task, ["x y"])[0]]
    assert asked(Copy(), ["a b [SEP] c d", "x [SEP] y"], side="left")[1] == [".", ".", *asked(Copy(), ["x [SEP] y"])[0]]


@pytest.mark.parametrize("name", TASKS)
def test_drawn_sentences(name):
    """Every length occurs, every letter too, and what stands beyond the last `[SEP]` is padding and nothing else."""
    task = task_of(name)
    exercise = drawn(task)
    n_parts = 2 if name == "copy" else 1
    ids, padding = exercise.token_ids, exercise.key_padding_mask
    assert ids.shape == padding.shape == exercise.right.shape == (400, task.max_len)
    assert torch.equal(padding, ids == 0)
    assert (ids[:, 0] == 1).all()
    assert not (ids[:, 1:] == 1).any()
    assert ((ids == 2).sum(dim=1) == n_parts).all()
    n_letters = (ids > 3).sum(dim=1)
    assert sorted(set(n_letters.tolist())) == list(range(n_parts, n_parts * task.longest + 1))
    assert set(ids.flatten().tolist()) == {0, 1, 2, *range(4, len(VOCABULARY))}


@pytest.mark.parametrize("name", TASKS)
def test_nothing_is_asked_of_padding_and_special_tokens(name):
    exercise = drawn(task_of(name))
    counts, ids = exercise.counts, exercise.token_ids
    assert not (counts & exercise.key_padding_mask).any()
    assert (ids[counts] > 3).all()
    assert not exercise.key_padding_mask.gather(1, exercise.right.clamp(min=0))[counts].any()
    assert (exercise.targets[~counts] == 0).all()
    assert torch.equal(exercise.targets[counts], ids.gather(1, exercise.right.clamp(min=0))[counts])
    if name != "copy":
        assert torch.equal(counts, ids > 3)


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_is_drawn_from_its_generator_alone(name):
    before = torch.get_rng_state()
    one, same, other = drawn(task_of(name)), drawn(task_of(name)), drawn(task_of(name), seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.token_ids, same.token_ids)
    assert not torch.equal(one.token_ids, other.token_ids)


def test_the_tokenizer_reads_letters_however_they_are_written():
    tokenizer = LetterTokenizer()
    assert isinstance(tokenizer, Tokenizer)
    encoded = tokenizer.encode("ab C!")
    assert encoded.tokens == ["[CLS]", "a", "b", "c", "[UNK]", "[SEP]"]
    assert encoded.ids == [1, 4, 5, 6, 3, 2]
    assert encoded.offsets == [(0, 0), (0, 1), (1, 2), (3, 4), (4, 5), (0, 0)]
    assert encoded.words == [None, 0, 1, 2, 3, None]
    assert tokenizer.encode("a b c").ids == tokenizer.encode("abc").ids
    pair = tokenizer.encode("a [SEP] b")
    assert (pair.ids, pair.words) == ([1, 4, 2, 5, 2], [None, 0, None, 2, None])


def test_special_tokens_are_those_of_the_other_tokenizers():
    assert VOCABULARY[:3] == WordTokenizer.SPECIAL
    assert LetterTokenizer().pad_id == WordTokenizer().pad_id == VOCABULARY.index("[PAD]")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_any_text_is_read(text):
    batch = make_batch([text], LetterTokenizer(), max_len=9)
    assert batch.token_ids.shape[1] <= 9
    assert set(batch.token_ids.flatten().tolist()) <= set(range(len(VOCABULARY)))
    for word, typed in zip(batch.words[0], batch.offsets[0], strict=True):
        assert (word is None) == (typed == (0, 0))


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_values_with_the_same_face(name):
    task = task_of(name)
    assert isinstance(task, Task)
    assert task == task_of(name, task.longest)
    assert hash(task) == hash(task_of(name))
    assert any("." not in row[1:2] for row in asked(task, [task.example]))


@pytest.mark.parametrize("name", TASKS)
def test_sentences_that_are_too_long_are_refused(name):
    most = MOST_LETTERS // 2 if name == "copy" else MOST_LETTERS
    assert task_of(name, most).max_len <= MOST_LETTERS + 3
    for longest, nearest in ((0, 1), (most + 1, most)):
        with pytest.raises(
            ConfigError, match=rf"longest \({longest}\) must lie between 1 and {most}; nearest: {nearest}"
        ):
            task_of(name, longest)


def test_an_unknown_task_is_refused_naming_the_known_ones():
    with pytest.raises(ConfigError, match="task must be one of reverse, copy, shift, not 'sort'; usual: reverse"):
        task_of("sort")
