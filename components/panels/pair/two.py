"""What is looked at in two runs at once, token by token where their texts agree."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from components import state
from components.labels import visible
from components.panels.look import Look
from components.request import RUNS, Pair
from explorer.comparison import ABSENT, Alignment, Comparison, Sides, compare, match_sentence
from explorer.comparison.alignment import Side
from explorer.comparison.sides import Row

BothTables = tuple[pd.DataFrame, pd.DataFrame]
WHOSE: Final[tuple[Side, Side]] = ("a", "b")
STATUS_LINE: Final = 32
"""Height of a line of the status, in CSS pixels."""
MOST_NAMED: Final = 6
"""Tokens that a sentence names one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    """Two runs, the sentence of each, and how their tokens stand beside each other."""

    names: tuple[str, str]
    a: Look
    b: Look
    asked: Look
    """The one of them that the controls ask for. A click chooses its tokens."""
    comparison: Comparison

    @classmethod
    def of(cls, look: Look, pair: Pair) -> "Two":
        """`look` is at what the controls ask for. The other run shows the sentence and the token that belong to it."""
        if pair.names == RUNS:  # there is one line of status more
            look = replace(look, height=look.height - STATUS_LINE)
        first = pair.asked == pair.a
        answer = state.answer(pair.b if first else pair.a, paired=True)
        sentence = match_sentence(answer.run.batch, look.run.batch, look.sentence)
        other = replace(look, answer=answer, sentence=sentence)
        a, b = (look, other) if first else (other, look)
        both = compare(a.run, b.run, sentence_a=a.sentence, sentence_b=b.sentence)
        here, there = (both.alignment.a, both.alignment.b) if first else (both.alignment.b, both.alignment.a)
        beside = int(there[np.flatnonzero(here == look.token)[0]])
        other = replace(other, token=beside if beside != ABSENT else state.token(answer.run, sentence))
        a, b = (look, other) if first else (other, look)
        return cls(names=pair.names, a=a, b=b, asked=look, comparison=both)

    @property
    def looks(self) -> dict[str, Look]:
        """Both by name."""
        return dict(zip(self.names, (self.a, self.b), strict=True))

    @property
    def difference(self) -> str:
        """What a difference is called: `B − A`."""
        return f"{self.names[1]} − {self.names[0]}"

    @property
    def alignment(self) -> Alignment:
        return self.comparison.alignment

    @property
    def tokens(self) -> list[str]:
        """A name for each slot; what only one text has says whose it is."""
        a, b = self.names
        owners = np.select([self.alignment.b == ABSENT, self.alignment.a == ABSENT], [f" ({a})", f" ({b})"], "")
        owners[self.padding] = ""
        return [visible(token) + owner for token, owner in zip(self.alignment.tokens, owners.tolist(), strict=True)]

    @property
    def padding(self) -> np.ndarray:
        """Slots that are no part of either text."""
        return self.alignment.padding_a | self.alignment.padding_b

    @property
    def slot(self) -> int:
        """Where the chosen token stands."""
        places = self.alignment.a if self.asked is self.a else self.alignment.b
        return int(np.flatnonzero(places == self.asked.token)[0])

    def pick(self, slot: int | None) -> None:
        """Chooses a token, if the run that the controls ask for has it. For callbacks."""
        places = self.alignment.a if self.asked is self.a else self.alignment.b
        if slot is not None and places[slot] != ABSENT:
            state.put("token", int(places[slot]))

    def slots(self, tables: BothTables, keys: Sequence[str], value: str) -> tuple[list[Row], Sides]:
        """A column of a tidy table of each run as `[row, slot]`, and the names of the rows. NaN where there is none."""
        return self.comparison.rows(*tables, keys), self.comparison.aligned(*tables, keys, value)

    def spread(self, values: Sequence[np.ndarray], *, square: bool = False) -> Sides:
        """What was measured along the row of each run, `[pos, column]`, as `[slot, column]`, and the difference.

        `square`: columns are tokens too, and become slots. Else they are dimensions. Those that only one has are NaN in
        the other; and then none is subtracted, for dimensions of streams of different widths are no counterparts.
        """
        a, b = (self.alignment.spread(part, side, axis=0) for part, side in zip(values, WHOSE, strict=True))
        if square:
            a, b = (self.alignment.spread(part, side, axis=1) for part, side in zip((a, b), WHOSE, strict=True))
        if a.shape == b.shape:
            return Sides.of(a, b)
        width = max(a.shape[1], b.shape[1])
        a, b = (np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=np.nan) for part in (a, b))
        return Sides(a, b, np.full_like(a, np.nan))

    def payload(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """A packed picture of both."""
        other = self.b.answer.key, self.b.sentence, self.names
        return state.payload(self.a.answer, self.a.sentence, (key, other), make)

    def table(self, key: Hashable, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """A table of both that is too dear to make at every click."""
        return state.table(self.a.answer, self.a.sentence, (key, self.b.answer.key, self.b.sentence), make)

    def about_tokens(self) -> str:
        """What does not stand beside anything, if texts differ."""
        alone = {
            name: found
            for name, found in zip(self.names, (self.alignment.only_a(), self.alignment.only_b()), strict=True)
            if found
        }
        if not alone:
            return ""
        said = "; ".join(f"only {name} has {_listed(found)}" for name, found in alone.items())
        return f"Tokens stand beside each other where the texts agree. Not aligned: {said}."


def in_one_table(two: Two, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The tables below each other; the first column says whose a row is."""
    named = zip(two.names, tables, strict=True)
    table = pd.concat([part.assign(run=name) for name, part in named], ignore_index=True)
    return table[["run", *[column for column in table if column != "run"]]]


def _listed(tokens: list[str]) -> str:
    named = ", ".join(visible(token) for token in tokens[:MOST_NAMED])
    return named if len(tokens) <= MOST_NAMED else f"{named} and {len(tokens) - MOST_NAMED} more"
