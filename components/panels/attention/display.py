"""Which tokens of a sentence are shown as queries and as keys, and what that does to a pattern."""

from dataclasses import dataclass

import numpy as np

from components.labels import visible
from explorer import Run
from explorer.stats.reduce import merge_words, part_of

PARTS = {"aa": (0, 0), "ab": (0, 1), "ba": (1, 0), "bb": (1, 1)}
"""Of a sentence pair: segment of the queries, segment of the keys."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Display:
    """Pieces or whole words, with or without special tokens, all of a sentence pair or one of its four parts."""

    spans: list[tuple[int, int]]
    """Positions [start, stop) of each name: one token, or the pieces of one word."""
    names: list[str]
    padding: np.ndarray
    rows: np.ndarray
    """Numbers of the names that are shown as queries."""
    cols: np.ndarray
    masked: bool
    renormalise: bool
    key: tuple[str, str, str]
    """Units, special tokens and part of a pair: what fixes the display of a given run and sentence."""

    @classmethod
    def of(cls, run: Run, sentence: int, *, units: str, special: str, pair: str) -> "Display":
        """The display that the reader chose. Where hiding would leave nothing, nothing is hidden."""
        batch = run.batch
        n_pos = len(batch.tokens[sentence])
        words = units == "words"
        spans = batch.word_spans(sentence) if words else [(pos, pos + 1) for pos in range(n_pos)]
        starts = [start for start, _ in spans]
        padding = batch.key_padding_mask[sentence].numpy()[starts]
        names = (
            [visible(batch.as_typed(sentence, start, stop)) for start, stop in spans]
            if words
            else [visible(token) for token in batch.tokens[sentence]]
        )
        everything = np.ones(len(spans), dtype=bool)
        shown = everything.copy()
        if special != "shown":
            offsets = batch.offsets[sentence]
            shown = padding | np.array([offsets[start][0] < offsets[start][1] for start in starts])
        rows, cols = shown, shown
        pair = pair if batch.is_pair(sentence) else "all"
        if pair in PARTS:
            segments = batch.segments[sentence].numpy()[starts]
            rows, cols = (shown & ~padding & (segments == part) for part in PARTS[pair])
        if not rows.any() or not cols.any() or padding[rows].all():
            rows, cols, special, pair = everything, everything, "shown", "all"
        return cls(
            spans=spans,
            names=names,
            padding=padding,
            rows=np.flatnonzero(rows),
            cols=np.flatnonzero(cols),
            masked=run.use_mask,
            renormalise=special == "renormalised",
            key=(units, special, pair),
        )

    @property
    def suffix(self) -> str:
        """What a title adds where not all tokens are shown as they are: ` · A looks at B · words`."""
        units, special, pair = self.key
        parts = [
            "" if pair == "all" else f"{pair[0].upper()} looks at {pair[1].upper()}",
            "words" if units == "words" else "",
            {"shown": "", "hidden": "special tokens hidden", "renormalised": "without special tokens"}[special],
        ]
        return "".join(f" · {part}" for part in parts if part)

    @property
    def whole(self) -> bool:
        """Whether a pattern is shown as it is."""
        return len(self.rows) == len(self.cols) == self.spans[-1][1]

    def apply(self, pattern: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A pattern `[*axes, query, key]` as `[*axes, row, col]`, and the weight `[*axes, row]` on keys left out."""
        if self.whole:
            return pattern, np.zeros(pattern.shape[:-1], dtype=np.float32)
        merged = merge_words(pattern, self.spans) if len(self.spans) < self.spans[-1][1] else pattern
        return part_of(merged, self.rows, self.cols, renormalise=self.renormalise)

    @property
    def row_names(self) -> list[str]:
        return [self.names[i] for i in self.rows]

    @property
    def col_names(self) -> list[str]:
        return [self.names[i] for i in self.cols]

    @property
    def row_padding(self) -> np.ndarray:
        """Queries that are padding: their rows mean nothing."""
        return self.padding[self.rows]

    @property
    def col_padding(self) -> np.ndarray:
        """Keys that padding took out. Without a mask they have weight, and are shown like any key."""
        return self.padding[self.cols] & self.masked

    @property
    def after(self) -> np.ndarray:
        """Which keys stand after the query, `[row, col]`: a causal mask hides them."""
        return self.cols > self.rows[:, None]

    def row_of(self, pos: int) -> int | None:
        """The row in which a token is shown, if it is."""
        return self._place(self.rows, pos)

    def col_of(self, pos: int) -> int | None:
        """The column in which a token is shown, if it is."""
        return self._place(self.cols, pos)

    def nearest(self, pos: int) -> int:
        """The token itself where it is shown on either side, else the nearest one that is a query."""
        if self.row_of(pos) is not None or self.col_of(pos) is not None:
            return pos
        starts = [self.spans[name][0] for name in self.rows if not self.padding[name]]
        return min(starts, key=lambda start: abs(start - pos))

    def position(self, row: int | None, col: int | None) -> int:
        """The first token of a row; of a column, where no row is meant."""
        name = self.rows[row] if row is not None else self.cols[col or 0]
        return self.spans[name][0]

    def _place(self, shown: np.ndarray, pos: int) -> int | None:
        found = [i for i, name in enumerate(shown) if self.spans[name][0] <= pos < self.spans[name][1]]
        return found[0] if found else None
