"""What the twin is trained on: rows of a wanted length, drawn anew for each step from a seed."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from training.sources import CACHE, Document, documents, fetch
from training.templates import everyday_sentence


@dataclass(frozen=True, slots=True)
class Mix:
    """What is drawn how often."""

    lengths: tuple[tuple[int, int, float], ...]
    """Shortest and longest row of a batch, in tokens, and the share of batches (and so of tokens)."""
    everyday: tuple[float, float]
    """Share of passages that are everyday sentences: up to 64 tokens, and above."""
    entries: float
    """Share of passages that are entries of the dictionary."""
    lists: float = 0.0
    """Share of passages that list words and names of the dictionary. What is left is prose."""


FIRST: Final = Mix(((8, 24, 0.28), (25, 64, 0.32), (65, 240, 0.17), (241, 512, 0.23)), (0.45, 0.12), 0.2)
"""Many long texts: they need all positions, and reach their target sooner than short ones."""
THEN: Final = Mix(((8, 24, 0.25), (25, 64, 0.48), (65, 240, 0.17), (241, 512, 0.10)), (0.3, 0.1), 0.15)
"""Fewer of them, and more prose."""
AGAIN: Final = Mix(((8, 24, 0.15), (25, 64, 0.60), (65, 240, 0.17), (241, 512, 0.08)), (0.2, 0.1), 0.17, 0.13)
"""Of the second run: lists of names and rare words too."""

_LIFETIME = re.compile(r"\(\d{4}-\d{4}\)")
"""What the dictionary says of most people."""

TOKENS_PER_WORD: Final = 1.25
HELD_OUT_ONE_IN: Final = 12

RESERVED: Final = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "Attention is all you need.",
    "Layer normalization keeps the residual stream of a deep encoder in a sensible range, doesn't it?",
    "I love pizza 🍕😀 and 👩\u200d👩\u200d👧\u200d👦!",
    "<script>alert(1)</script>",
    "the the the the",
    "Hello",
    "Short.",
    "",
)
"""The texts of the reference activations, and one more that the figures use. No training row is or holds one."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents of prose (sentences in order) and entries of a dictionary (each on its own)."""

    prose: tuple[Document, ...]
    entries: tuple[Document, ...]

    @classmethod
    def split(cls, found: Sequence[Document], *, held_out: bool) -> "Corpus":
        """The documents of one side of the split."""
        side = [document for document in found if is_held_out(document.name) == held_out]
        prose = tuple(document for document in side if not document.name.startswith("wordnet/"))
        return cls(prose, tuple(document for document in side if document.name.startswith("wordnet/")))


def is_held_out(document: str) -> bool:
    """Whether a document is kept for testing: one in 12, by a hash of its name."""
    return int.from_bytes(hashlib.blake2b(document.encode(), digest_size=8).digest()) % HELD_OUT_ONE_IN == 0


def load_corpus(folder: Path = CACHE, *, held_out: bool = False) -> Corpus:
    """The corpus of the pinned packages, fetched where need be."""
    return Corpus.split(documents(fetch(folder)), held_out=held_out)


def draw_texts(
    rng: np.random.Generator, corpus: Corpus | None, n_tokens: int, mix: Mix = FIRST
) -> tuple[list[str], int]:
    """The texts of one batch, and how many tokens each may have at most. Without a corpus all come from templates.

    Together they have about `n_tokens` tokens; they are of like length, so that little is padding.
    """
    bounds = mix.lengths[rng.choice(len(mix.lengths), p=[share for _, _, share in mix.lengths])]
    longest = int(rng.integers(bounds[0], bounds[1] + 1))
    n_rows = max(1, round(n_tokens / longest))
    return [draw_text(rng, corpus, longest, mix) for _ in range(n_rows)], longest


def draw_text(rng: np.random.Generator, corpus: Corpus | None, n_tokens: int, mix: Mix = FIRST) -> str:
    """One training text of about that many tokens. None of the reserved ones is in it."""
    while True:
        text = _draw(rng, corpus, n_tokens, mix)
        if not is_reserved(text):
            return text


def is_reserved(text: str) -> bool:
    """Whether a text is one of the reserved, or holds one of them that is longer than two words."""
    plain = _plain(text)
    return any(plain == reserved or (reserved.count(" ") > 1 and reserved in plain) for reserved in _RESERVED_PLAIN)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


_RESERVED_PLAIN: Final = tuple(_plain(text) for text in RESERVED)


def _draw(rng: np.random.Generator, corpus: Corpus | None, n_tokens: int, mix: Mix) -> str:
    kind = rng.random()
    if kind < 0.08 and n_tokens >= 16:  # a pair
        first = max(6, int(n_tokens * rng.uniform(0.3, 0.7)))
        return f"{_passage(rng, corpus, first, mix)} [SEP] {_passage(rng, corpus, n_tokens - first, mix)}"
    text = _passage(rng, corpus, n_tokens, mix)
    return _noise(rng, text) if kind > 0.92 else text


def _passage(rng: np.random.Generator, corpus: Corpus | None, n_tokens: int, mix: Mix) -> str:
    """Consecutive sentences of a document, entries of the dictionary, or everyday sentences."""
    share_of_everyday = mix.everyday[n_tokens > 64]
    kind = rng.random()
    if corpus is None or kind < share_of_everyday:
        return _fill(lambda: everyday_sentence(rng), n_tokens)
    if kind < share_of_everyday + mix.entries:
        return _fill(lambda: _sentence_of_entry(rng, corpus), n_tokens)
    if kind < share_of_everyday + mix.entries + mix.lists:
        return _fill(lambda: _list_of_words(rng, corpus), n_tokens)
    document = corpus.prose[rng.integers(len(corpus.prose))]
    start = int(rng.integers(len(document.sentences)))
    following = iter(document.sentences[start:])
    return _fill(lambda: next(following, ""), n_tokens)


def _sentence_of_entry(rng: np.random.Generator, corpus: Corpus) -> str:
    sentences = corpus.entries[rng.integers(len(corpus.entries))].sentences
    return sentences[rng.integers(len(sentences))]


def _list_of_words(rng: np.random.Generator, corpus: Corpus) -> str:
    """A few names of people, or words that are near each other in the dictionary and so of one kind."""
    start = int(rng.integers(len(corpus.entries)))
    if people := rng.random() < 0.6:
        tries = (int(rng.integers(len(corpus.entries))) for _ in range(200))
        start = next((at for at in tries if _LIFETIME.search(corpus.entries[at].sentences[0])), start)
    words = [document.sentences[0].partition(":")[0] for document in corpus.entries[start : start + 60]]
    if people and rng.random() < 0.6:
        words = [word.rpartition(" ")[2] for word in words]
    chosen = [words[n] for n in rng.permutation(len(words))[: rng.integers(2, 12)]]
    mark = ("; ", "; ", ", ", ", ", " and ", " ")[rng.integers(6)]
    return mark.join(chosen) + (".", ";", "", ":")[rng.integers(4)]


def _fill(next_sentence: Callable[[], str], n_tokens: int) -> str:
    """Sentences until the wanted length is reached, or there is no other. What is too much, the tokenizer cuts."""
    n_words = 0
    sentences: list[str] = []
    while n_words * TOKENS_PER_WORD < n_tokens - 2 and (sentence := next_sentence()):
        # A text rather ends early than in the middle of a short sentence.
        if sentences and (n_words + sentence.count(" ") + 1) * TOKENS_PER_WORD > n_tokens + 8:
            break
        sentences.append(sentence)
        n_words += sentence.count(" ") + 1
    return " ".join(sentences)


def _noise(rng: np.random.Generator, text: str) -> str:
    """What is no good sentence: words shuffled, repeated, alone, in capitals, unknown; digits and punctuation."""
    words = text.split()
    kind = rng.integers(7)
    if kind == 0:
        rng.shuffle(words)
    elif kind == 1:
        words = words[: len(words) // 2] * 2
    elif kind == 2:
        words = [words[0]] * int(rng.integers(1, len(words) + 1))
    elif kind == 3:
        words = [word.upper() for word in words]
    elif kind == 4:  # unknown words among known ones, or alone
        keep = rng.choice([0.0, 0.5, 0.9])
        words = [word if rng.random() < keep else chr(int(rng.integers(0x13000, 0x13400))) for word in words]
    elif kind == 5:
        words = [word if rng.random() < 0.6 else str(rng.integers(10 ** rng.integers(1, 6))) for word in words]
    else:
        marks = (
            "<b>",
            "</b>",
            "()",
            "=",
            "{",
            "};",
            "&",
            "#",
            "@",
            "->",
            "...",
            "http://www.",
            ".com/",
            "_",
            "if",
            "x",
        )
        words = [word if rng.random() < 0.6 else marks[rng.integers(len(marks))] for word in words]
    return " ".join(words)
