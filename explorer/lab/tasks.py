"""Tasks for a small encoder, in which every answer is a token of the sentence: so it is known where to look for it.

A sentence is a row of letters, as a person would type it: `a b c d` is read as `[CLS] a b c d [SEP]`.
"""

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, runtime_checkable

import regex
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from explorer.config import check_count
from explorer.errors import ConfigError
from explorer.text import PAD, SEP, Encoded

UNK: Final = "[UNK]"
SPECIAL: Final = (PAD, "[CLS]", SEP, UNK)
VOCABULARY: Final = (*SPECIAL, *string.ascii_lowercase)
"""Token of each id. The first three are those of `explorer.text.WordTokenizer`."""

PAD_ID, CLS_ID, SEP_ID, UNK_ID = range(len(SPECIAL))
NOWHERE: Final = -1
MOST_LETTERS: Final = 12


class LetterTokenizer:
    """One token a letter, for encoders that were trained on a task of this module.

    Letters may be written together or apart, small or large. `[SEP]` in capitals is the special token. Everything else
    is `[UNK]`, whose vector no training has touched.
    """

    _TOKEN = regex.compile(r"\[SEP\]|\s|\X")

    def __init__(self) -> None:
        self.pad_id = PAD_ID

    def encode(self, sentence: str) -> Encoded:
        """The letters of the sentence, between `[CLS]` and `[SEP]`. `ab C!` is `[CLS] a b c [UNK] [SEP]`."""
        found = [match for match in self._TOKEN.finditer(sentence) if not match.group().isspace()]
        tokens = [token_of(match.group()) for match in found]
        return Encoded(
            ids=[CLS_ID, *(VOCABULARY.index(token) for token in tokens), SEP_ID],
            tokens=["[CLS]", *tokens, SEP],
            offsets=[(0, 0), *((0, 0) if match.group() == SEP else match.span() for match in found), (0, 0)],
            words=[None, *(None if token == SEP else number for number, token in enumerate(tokens)), None],
        )


def token_of(typed: str) -> str:
    """The token of one typed sign."""
    if typed == SEP:
        return SEP
    return typed.lower() if typed.lower() in VOCABULARY[len(SPECIAL) :] else UNK


@dataclass(frozen=True, slots=True, eq=False)
class Exercise:
    """Sentences, and what is asked at each token. Padding stands on the right."""

    token_ids: Int[Tensor, "batch pos"]
    key_padding_mask: Bool[Tensor, "batch pos"]
    """True = padding."""
    right: Int[Tensor, "batch pos"]
    """Where the answer to each token stands: the key that this query should look at. -1 where nothing is asked."""

    @property
    def counts(self) -> Bool[Tensor, "batch pos"]:
        """Where something is asked: never at padding, `[CLS]` or `[SEP]`."""
        return self.right != NOWHERE

    @property
    def targets(self) -> Int[Tensor, "batch pos"]:
        """The answers, as token ids; `[PAD]` where nothing is asked."""
        answers = self.token_ids.gather(1, self.right.clamp(min=0))
        return torch.where(self.counts, answers, PAD_ID)


@runtime_checkable
class Task(Protocol):
    """What is asked of an encoder. Each task is a frozen value."""

    name: ClassVar[str]
    asks: ClassVar[str]
    """One sentence for the reader: what each token has to answer."""
    example: ClassVar[str]
    """Something to type."""

    @property
    def longest(self) -> int: ...

    @property
    def max_len(self) -> int:
        """Tokens of the longest sentence, `[CLS]` and `[SEP]` included."""
        ...

    def batch(self, generator: torch.Generator, size: int) -> Exercise:
        """That many sentences of random length, drawn from this generator alone."""
        ...

    def right(
        self, token_ids: Int[Tensor, "batch pos"], key_padding_mask: Bool[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        """Where the answer to each token stands in sentences of any origin, padded on either side; else -1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverse:
    """Every letter answers with the letter as far from the end as it is from the start: `a b c` gives `c b a`.

    The right places are a falling diagonal, which lies elsewhere for each length: so the encoder has to find the end.
    """

    name: ClassVar[str] = "reverse"
    asks: ClassVar[str] = "Each letter answers with the letter that stands in its place when the row is read backwards."
    example: ClassVar[str] = "a b c d"

    longest: int = 7
    """Most letters of a sentence; the fewest are 1."""

    def __post_init__(self) -> None:
        check_count("longest", self.longest, 1, MOST_LETTERS)

    @property
    def max_len(self) -> int:
        return self.longest + 2

    def batch(self, generator: torch.Generator, size: int) -> Exercise:
        return _exercise(*draw_sentences(generator, size, longest=self.longest), self.right)

    def right(
        self, token_ids: Int[Tensor, "batch pos"], key_padding_mask: Bool[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        pos, first, last = _ends(key_padding_mask)
        return torch.where((first < pos) & (pos < last), first + last - pos, NOWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Every letter answers with the token before it: `a b c` gives `[CLS] a b`. One diagonal, for all lengths."""

    name: ClassVar[str] = "shift"
    asks: ClassVar[str] = "Each letter answers with the token before it, the first one with [CLS]."
    example: ClassVar[str] = "a b c d"

    longest: int = 7
    """Most letters of a sentence; the fewest are 1."""

    def __post_init__(self) -> None:
        check_count("longest", self.longest, 1, MOST_LETTERS)

    @property
    def max_len(self) -> int:
        return self.longest + 2

    def batch(self, generator: torch.Generator, size: int) -> Exercise:
        return _exercise(*draw_sentences(generator, size, longest=self.longest), self.right)

    def right(
        self, token_ids: Int[Tensor, "batch pos"], key_padding_mask: Bool[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        pos, first, last = _ends(key_padding_mask)
        return torch.where((first < pos) & (pos < last), pos - 1, NOWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Every letter before the separator answers with its partner behind it: `a b [SEP] c d` gives `c d`.

    The sides differ in length; a letter without a partner is asked nothing. The right places are a diagonal whose
    distance is that to the separator: so the encoder has to find it, and not take the `[SEP]` at the end for it.
    """

    name: ClassVar[str] = "copy"
    asks: ClassVar[str] = (
        "The letters before the first [SEP] answer with those that follow it, the first with the first."
    )
    example: ClassVar[str] = "a b c [SEP] d e f"

    longest: int = 4
    """Most letters on each side of the separator; the fewest are 1."""

    def __post_init__(self) -> None:
        check_count("longest", self.longest, 1, MOST_LETTERS // 2)

    @property
    def max_len(self) -> int:
        return 2 * self.longest + 3

    def batch(self, generator: torch.Generator, size: int) -> Exercise:
        return _exercise(*draw_sentences(generator, size, longest=self.longest, n_parts=2), self.right)

    def right(
        self, token_ids: Int[Tensor, "batch pos"], key_padding_mask: Bool[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        pos, first, last = _ends(key_padding_mask)
        separator = (token_ids == SEP_ID).int().argmax(dim=1, keepdim=True)  # the first one
        partner = separator + (pos - first)
        return torch.where((first < pos) & (pos < separator) & (partner < last), partner, NOWHERE)


TASKS: Final[dict[str, type[Reverse] | type[Copy] | type[Shift]]] = {task.name: task for task in (Reverse, Copy, Shift)}


def task_of(name: str, longest: int | None = None) -> Task:
    """The task of that name, with sentences of its usual length unless told.

    Raises:
        ConfigError: If there is none of that name, or it has no sentences of that length.
    """
    if name not in TASKS:
        raise ConfigError(f"task must be one of {', '.join(TASKS)}, not {name!r}; usual: {next(iter(TASKS))}")
    return TASKS[name]() if longest is None else TASKS[name](longest=longest)


def draw_sentences(
    generator: torch.Generator, size: int, *, longest: int, n_parts: int = 1
) -> tuple[Int[Tensor, "batch pos"], Bool[Tensor, "batch pos"]]:
    """Token ids and their padding: `[CLS]`, then in each part 1 to `longest` letters and a `[SEP]`.

    Lengths are equally likely, and so are letters, which may repeat. All batches have room for the longest sentence.
    """
    n_pos = 1 + n_parts * (longest + 1)
    n_letters = torch.randint(1, longest + 1, (size, n_parts), generator=generator)
    letters = torch.randint(len(SPECIAL), len(VOCABULARY), (size, n_pos), generator=generator)
    ends = (n_letters + 1).cumsum(dim=1)  # [batch, part]: where each part's [SEP] stands
    pos = torch.arange(n_pos)
    token_ids = torch.where((pos == ends[:, :, None]).any(dim=1), SEP_ID, letters)
    token_ids = torch.where(pos == 0, CLS_ID, token_ids)
    padding = pos > ends[:, -1:]
    return torch.where(padding, PAD_ID, token_ids), padding


def _exercise(token_ids: Tensor, key_padding_mask: Tensor, right: Callable[[Tensor, Tensor], Tensor]) -> Exercise:
    return Exercise(token_ids, key_padding_mask, right(token_ids, key_padding_mask))


def _ends(key_padding_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each place of a row `[pos]`, and where its first and last real token stand `[batch, 1]`."""
    real = (~key_padding_mask).int()
    n_pos = real.shape[1]
    first = real.argmax(dim=1, keepdim=True)
    last = n_pos - 1 - real.flip(1).argmax(dim=1, keepdim=True)
    return torch.arange(n_pos), first, last
