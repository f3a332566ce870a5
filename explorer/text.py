"""Sentences to a batch of token ids."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import regex
import tokenizers
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from explorer.errors import TextError

PaddingSide = Literal["right", "left"]
PAD: Final = "[PAD]"
SEP: Final = "[SEP]"

T = TypeVar("T")

_PUNCTUATION = regex.compile(r"(?:##)?\p{P}+")
_MARKS = regex.compile(r"\p{Mn}*")


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sentence as tokens, `[CLS]` and `[SEP]` included. `offsets` are character ranges of the sentence."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    words: list[int | None]
    """Number of the word that each token is a piece of; None for special tokens."""


@runtime_checkable
class Tokenizer(Protocol):
    """What a model asks of its tokenizer."""

    pad_id: int

    def encode(self, sentence: str) -> Encoded: ...


class WordPieceTokenizer:
    """The tokenizer of a published encoder, from its `tokenizer.json`.

    A special token that is typed, such as `[MASK]`, is that special token, as in the encoder's own library. It stands
    where a word stands and counts as one; only a typed `[SEP]` is no word, like the one at the end.
    """

    def __init__(self, path: Path) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.no_padding()  # the file carries padding and a cut at 128 tokens: ours happen in `make_batch`
        self._tokenizer.no_truncation()
        self.pad_id = self._tokenizer.get_vocab()[PAD]

    def encode(self, sentence: str) -> Encoded:
        # Half of a surrogate pair is no character: it is read as a question mark.
        encoding = self._tokenizer.encode(sentence.encode("utf-8", "replace").decode("utf-8"))
        separates = [token == SEP for token in encoding.tokens]
        return Encoded(
            ids=encoding.ids,
            tokens=encoding.tokens,
            offsets=[(0, 0) if sep else span for sep, span in zip(separates, encoding.offsets, strict=True)],
            words=[None if sep else word for sep, word in zip(separates, encoding.word_ids, strict=True)],
        )


class WordTokenizer:
    """One token a word, for encoders built from scratch.

    Cut at whitespace and punctuation. A word is a run of letters, marks, digits and underscores; a Chinese or Japanese
    character is a token of its own; so is each punctuation mark, and each emoji with all its parts. Case matters;
    composed and decomposed accents are the same word. `[SEP]` in capitals is the special token; other names in brackets
    are words.

    The id of a word is a hash of its letters, so it is the same in every text and on every machine. Where there is a
    table of `vocab_size` rows the ids fit into it; else they have 52 bits. `make_batch` refuses a text in which two
    words share an id.
    """

    SPECIAL: Final = (PAD, "[CLS]", SEP)
    ID_BITS: Final = 52  # exact in a float64, and so in a browser
    _WORD = regex.compile(
        r"\[SEP\]"
        r"|[\p{Han}\p{Hiragana}\p{Katakana}]\p{M}*"
        r"|(?:(?![\p{Han}\p{Hiragana}\p{Katakana}])[\p{L}\p{N}_]\p{M}*[\u200c\u200d]?)+"
        r"|\s|\X"
    )

    def __init__(self, vocab_size: int | None = None) -> None:
        self.pad_id = 0
        self._n_ids = (2**self.ID_BITS if vocab_size is None else vocab_size) - len(self.SPECIAL)

    def encode(self, sentence: str) -> Encoded:
        """The words of the sentence, between `[CLS]` and `[SEP]`."""
        found = [match for match in self._WORD.finditer(sentence) if not match.group().isspace()]
        tokens = [match.group() for match in found]
        return Encoded(
            ids=[1, *(self.SPECIAL.index(SEP) if token == SEP else self.word_id(token) for token in tokens), 2],
            tokens=["[CLS]", *tokens, SEP],
            offsets=[(0, 0), *((0, 0) if match.group() == SEP else match.span() for match in found), (0, 0)],
            words=[None, *(None if token == SEP else number for number, token in enumerate(tokens)), None],
        )

    def word_id(self, word: str) -> int:
        """The id of a word: never that of a special token, the same wherever the word stands."""
        letters = unicodedata.normalize("NFC", word).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(letters, digest_size=8).digest()
        return len(self.SPECIAL) + int.from_bytes(digest, "little") % self._n_ids


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Sentences as one rectangle of token ids. Rows are sentences in the order given."""

    sentences: tuple[str, ...]
    token_ids: Int[Tensor, "batch pos"]
    key_padding_mask: Bool[Tensor, "batch pos"]
    """True = padding."""
    segments: Int[Tensor, "batch pos"]
    """1 in the second sentence of a pair, else 0."""
    tokens: list[list[str]]
    """As the encoder sees them, padding included."""
    offsets: list[list[tuple[int, int]]]
    """Character range of each token in its sentence; (0, 0) for special tokens and padding."""
    words: list[list[int | None]]
    """Number of the word that each token is a piece of; None for special tokens and padding."""
    n_cut: tuple[int, ...]
    """How many tokens of each sentence did not fit and were left out."""

    def roles(self) -> dict[str, Bool[np.ndarray, "batch pos"]]:
        """Which tokens are `cls`, `sep` and `punctuation` (nothing but punctuation marks). Padding is none of them."""
        real = ~self.key_padding_mask.numpy()
        tokens = np.array(self.tokens, dtype=object)
        punctuation = [[bool(_PUNCTUATION.fullmatch(token)) for token in row] for row in self.tokens]
        return {
            "cls": real & (tokens == "[CLS]"),
            "sep": real & (tokens == "[SEP]"),
            "punctuation": real & np.array(punctuation),
        }

    def is_pair(self, sentence: int) -> bool:
        """Whether this is two sentences, `A [SEP] B`."""
        return bool(self.segments[sentence].any())

    def word_spans(self, sentence: int) -> list[tuple[int, int]]:
        """Positions [start, stop) of each word, in order, without a gap. Special tokens and padding stand alone."""
        spans: list[tuple[int, int]] = []
        for word, group in groupby(self.words[sentence]):
            start, length = spans[-1][1] if spans else 0, len(list(group))
            if word is None:
                spans += [(pos, pos + 1) for pos in range(start, start + length)]
            else:
                spans.append((start, start + length))
        return spans

    def as_typed(self, sentence: int, start: int, stop: int) -> str:
        """What was typed for the tokens at positions [start, stop): case, accents and emoji as in the sentence.

        Special tokens and padding go by their names.
        """
        text, offsets = self.sentences[sentence], self.offsets[sentence]
        parts = []
        for typed, group in groupby(range(start, stop), key=lambda pos: offsets[pos] != (0, 0)):
            positions = list(group)
            if typed:
                following = [first for first, last in offsets[positions[-1] + 1 :] if (first, last) != (0, 0)]
                first, last = offsets[positions[0]][0], offsets[positions[-1]][1]
                # Accents that a tokenizer strips lie between its tokens: they belong to the letter before.
                parts.append(text[first : _MARKS.match(text, last, following[0] if following else len(text)).end()])
            else:
                parts += [self.tokens[sentence][pos] for pos in positions]
        return " ".join(parts)

    @property
    def n_real(self) -> int:
        """Number of tokens that are not padding."""
        return int((~self.key_padding_mask).sum())

    @property
    def n_padding(self) -> int:
        """Number of padding tokens."""
        return int(self.key_padding_mask.sum())


def sentences_of(text: str) -> list[tuple[int, str]]:
    """One sentence a line, or one pair `A [SEP] B`, with its line number, from 1.

    Blank lines are no sentences, but they count as lines.
    """
    lines = enumerate(re.split(r"\r\n|\r|\n", text), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def make_batch(
    sentences: Sequence[str],
    tokenizer: Tokenizer,
    *,
    max_len: int,
    pad_to: int | None = None,
    padding_side: PaddingSide = "right",
) -> Batch:
    """The sentences as token ids, padded to the longest of them, or to `pad_to` tokens.

    A sentence above `max_len` tokens is cut after its first words; `[CLS]` and `[SEP]` stay, and `n_cut` says how many
    tokens were left out. A typed `[SEP]` with something on both sides makes a sentence a pair: see `segments_of`.

    Raises:
        TextError: If there is no sentence, `pad_to` is shorter than the longest sentence or longer than `max_len`, or
            two different words have the same id.
    """
    if isinstance(sentences, str):
        raise TextError(f"sentences must be a list of sentences, not one string; write [{sentences[:20]!r}]")
    if not sentences:
        raise TextError("there is no sentence to run; type at least one word")
    if padding_side not in ("right", "left"):
        raise TextError(f"padding_side must be right or left, not {padding_side!r}; usual: right")

    whole = [tokenizer.encode(sentence) for sentence in sentences]
    _refuse_shared_ids(whole)
    n_cut = tuple(max(0, len(encoded.ids) - max_len) for encoded in whole)
    rows = [_cut(encoded, max_len) for encoded in whole]
    longest = max(len(row.ids) for row in rows)
    if pad_to is not None and not longest <= pad_to <= max_len:
        nearest = min(max(pad_to, longest), max_len)
        raise TextError(
            f"pad_to ({pad_to:,}) must lie between the longest sentence ({longest:,} tokens) "
            f"and max_len ({max_len:,}); nearest: {nearest:,}"
        )
    width = pad_to or longest

    def pad(row: list[T], filler: T) -> list[T]:
        padding = [filler] * (width - len(row))
        return row + padding if padding_side == "right" else padding + row

    token_ids = torch.tensor([pad(row.ids, tokenizer.pad_id) for row in rows])
    return Batch(
        sentences=tuple(sentences),
        token_ids=token_ids,
        key_padding_mask=torch.tensor([pad([False] * len(row.ids), True) for row in rows]),
        segments=torch.tensor([pad(segments_of(row.tokens), 0) for row in rows]),
        tokens=[pad(row.tokens, PAD) for row in rows],
        offsets=[pad(row.offsets, (0, 0)) for row in rows],
        words=[pad(row.words, None) for row in rows],
        n_cut=n_cut,
    )


def segments_of(tokens: Sequence[str]) -> list[int]:
    """The segment of each token of `[CLS] A [SEP] B [SEP]`: 0 up to and including the first `[SEP]`, 1 after it.

    All 0 where there is no B, or no A. Further `[SEP]` belong to B.

    Source: Devlin et al. 2019, "BERT", section 3.
    """
    first = tokens.index(SEP)
    is_pair = first > 1 and any(token != SEP for token in tokens[first + 1 :])
    return [int(is_pair and pos > first) for pos in range(len(tokens))]


def _cut(encoded: Encoded, max_len: int) -> Encoded:
    """The first tokens and the closing `[SEP]`."""
    if len(encoded.ids) <= max_len:
        return encoded
    keep = [*range(max_len - 1), len(encoded.ids) - 1]
    columns = (encoded.ids, encoded.tokens, encoded.offsets, encoded.words)
    return Encoded(*([column[i] for i in keep] for column in columns))


def _refuse_shared_ids(rows: Sequence[Encoded]) -> None:
    """Two different words of one text must not share a vector. Composed and decomposed accents are one word."""
    word_of: dict[int, str] = {}
    for row in rows:
        for token_id, token in zip(row.ids, row.tokens, strict=True):
            word = unicodedata.normalize("NFC", token)
            if word_of.setdefault(token_id, word) != word:
                raise TextError(
                    f"the words {word_of[token_id]!r} and {word!r} have the same id ({token_id:,}); "
                    "change one of them, or use an open vocabulary (vocab_size None)"
                )
