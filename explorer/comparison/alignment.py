"""Which token of one text stands beside which token of another."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from explorer.errors import MaskError
from explorer.text import SEP, Batch

Side = Literal["a", "b"]
ABSENT: Final = -1
"""The place of a token in a row that does not have it."""


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """The tokens of two rows in one reading order. Each slot holds a token of A, a token of B, or one of each.

    Real tokens stand together where the texts agree: in a longest sequence of tokens that both have in the same order.
    Tokens agree when they have the same letters, upper and lower case alike; `##ing` is not `ing`. The first `[CLS]`
    stands with the first `[CLS]`, the closing `[SEP]` with the closing `[SEP]`. What only one text has stands where it
    stands there, blank in the other; where both have something in one gap, A's comes first. Padding stands with padding
    of the same side, counted from the text outward, and never with a word. Where a token is in its row does not matter.

    With A and B swapped the same tokens stand together. Only slots that one text has alone may change their order: in
    a gap where the other has some too, A's comes first again.
    """

    a: Int[np.ndarray, " slot"]
    """The place of each token in A's row, -1 where A does not have it. Read-only."""
    b: Int[np.ndarray, " slot"]
    tokens: tuple[str, ...]
    """As B writes them; as A does where B has none."""
    padding_a: Bool[np.ndarray, " slot"]
    """Where A has padding: False where A has nothing."""
    padding_b: Bool[np.ndarray, " slot"]

    @property
    def shared(self) -> Bool[np.ndarray, " slot"]:
        """Where both have the same real token."""
        return (self.a != ABSENT) & (self.b != ABSENT) & ~self.padding_a

    def only_a(self) -> list[str]:
        """The real tokens of A that stand with none of B, in their order."""
        return self._alone(self.b, self.padding_a)

    def only_b(self) -> list[str]:
        """The real tokens of B that stand with none of A, in their order."""
        return self._alone(self.a, self.padding_b)

    def spread(
        self, values: Float[np.ndarray, "*axes"], side: Side, *, axis: int = -1
    ) -> Float[np.ndarray, "*spread_axes"]:
        """What was measured along one side's row, slot by slot. NaN where that side has no such token."""
        place = self.a if side == "a" else self.b
        along = [1] * values.ndim
        along[axis] = len(place)
        return np.where((place == ABSENT).reshape(along), np.nan, np.take(values, place, axis=axis))

    def _alone(self, other: np.ndarray, padding: np.ndarray) -> list[str]:
        return [self.tokens[slot] for slot in np.flatnonzero((other == ABSENT) & ~padding)]


def align(batch_a: Batch, batch_b: Batch, *, sentence_a: int = 0, sentence_b: int = 0) -> Alignment:
    """Two sentences beside each other: see `Alignment` for the rules.

    Raises:
        IndexError: If there is no such sentence.
        MaskError: If a row has no real token, or padding between its real tokens.
    """
    tokens_a, real_a = _row(batch_a, sentence_a)
    tokens_b, real_b = _row(batch_b, sentence_b)
    slots = [
        *_padding_before(real_a.start, real_b.start),
        *_text(tokens_a, tokens_b, real_a, real_b),
        *_padding_after(range(real_a.stop, len(tokens_a)), range(real_b.stop, len(tokens_b))),
    ]
    a, b = np.array(slots).T.copy()
    padding_a = batch_a.key_padding_mask.numpy()[sentence_a, a] & (a != ABSENT)
    padding_b = batch_b.key_padding_mask.numpy()[sentence_b, b] & (b != ABSENT)
    for array in (a, b, padding_a, padding_b):
        array.flags.writeable = False
    tokens = tuple(tokens_a[i] if j == ABSENT else tokens_b[j] for i, j in slots)
    return Alignment(a=a, b=b, tokens=tokens, padding_a=padding_a, padding_b=padding_b)


def common_tokens(tokens_a: Sequence[str], tokens_b: Sequence[str]) -> list[tuple[int, int]]:
    """A longest common subsequence of two texts, as pairs of indices, both rising.

    Where both end with `[SEP]`, those two are a pair, and first tokens that agree are one. Of equally long ones it is
    the same for (a, b) and (b, a): the text that comes first in the alphabet decides.

    Source: Wagner and Fischer 1974, "The String-to-String Correction Problem".
    """
    a, b = [_letters(token) for token in tokens_a], [_letters(token) for token in tokens_b]
    if b < a:
        return [(i, j) for j, i in common_tokens(tokens_b, tokens_a)]
    closing = a[-1:] == b[-1:] == [_letters(SEP)]
    n, m = len(a) - closing, len(b) - closing
    numbers = {letters: number for number, letters in enumerate(dict.fromkeys(a + b))}
    number_b = np.array([numbers[letters] for letters in b[:m]], dtype=np.int64)
    longest = np.zeros((n + 1, m + 1), dtype=np.int32)  # [i, j]: how much a[i:] and b[j:] have in common
    for i in reversed(range(n)):
        with_i = np.maximum(longest[i + 1, :-1], longest[i + 1, 1:] + (number_b == numbers[a[i]]))
        longest[i, :-1] = np.maximum.accumulate(with_i[::-1])[::-1]
    pairs = []
    i = j = 0
    while i < n and j < m:
        if a[i] == b[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1, j] >= longest[i, j + 1]:
            i += 1
        else:
            j += 1
    return [*pairs, (n, m)] if closing else pairs


def match_sentence(batch_a: Batch, batch_b: Batch, sentence_b: int) -> int:
    """Which sentence of A stands beside one of B: the same text if A has it, else that of the same row, else A's last.

    Of several with the same text that of the same row comes first, then the first.
    """
    same = [row for row, sentence in enumerate(batch_a.sentences) if sentence == batch_b.sentences[sentence_b]]
    if same and sentence_b not in same:
        return same[0]
    return min(sentence_b, len(batch_a.sentences) - 1)


def _row(batch: Batch, sentence: int) -> tuple[list[str], range]:
    """The tokens of one row, and the places of the real ones."""
    if not 0 <= sentence < len(batch.sentences):
        raise IndexError(f"sentence {sentence} does not exist; this text has sentences 0 to {len(batch.sentences) - 1}")
    places = np.flatnonzero(~batch.key_padding_mask.numpy()[sentence])
    if len(places) == 0:
        raise MaskError(f"sentence {sentence} has no real token; there is nothing to compare")
    real = range(int(places[0]), int(places[-1]) + 1)
    if len(real) != len(places):
        raise MaskError(f"sentence {sentence} has padding between real tokens; put it before or after them")
    return batch.tokens[sentence], real


def _text(tokens_a: list[str], tokens_b: list[str], real_a: range, real_b: range) -> list[tuple[int, int]]:
    """The slots of real tokens: pairs where the texts agree, what is between them one by one, A's before B's."""
    pairs = common_tokens([tokens_a[i] for i in real_a], [tokens_b[j] for j in real_b])
    slots = []
    after_a = after_b = 0
    for i, j in [*pairs, (len(real_a), len(real_b))]:
        slots += [(place, ABSENT) for place in real_a[after_a:i]]
        slots += [(ABSENT, place) for place in real_b[after_b:j]]
        slots += list(zip(real_a[i : i + 1], real_b[j : j + 1], strict=True))  # none at the end
        after_a, after_b = i + 1, j + 1
    return slots


def _padding_before(n_a: int, n_b: int) -> list[tuple[int, int]]:
    """The slots of padding on the left: what is next to the text stands together."""
    return [(max(n_a - n, ABSENT), max(n_b - n, ABSENT)) for n in range(max(n_a, n_b), 0, -1)]


def _padding_after(places_a: range, places_b: range) -> list[tuple[int, int]]:
    """The slots of padding on the right."""
    return list(zip_longest(places_a, places_b, fillvalue=ABSENT))


def _letters(token: str) -> str:
    """What two tokens that agree have in common: composed or decomposed, in upper or lower case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", token).casefold())
