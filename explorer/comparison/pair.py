"""Any two runs beside each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from explorer.comparison.alignment import Alignment, Side, align
from explorer.comparison.apart import TOLERANCE, attention_moved, vectors_apart
from explorer.comparison.sides import Row, Sides, aligned, beside, rows_of, union
from explorer.run import Run
from explorer.trace import Point

SIZES: Final = ("n_layers", "n_heads", "d_model")
"""What two encoders must have alike to be the same."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first checkpoint at which two runs are no longer alike, and why."""

    point: Point
    layer: int | None
    """None after the stack."""
    reason: Literal["moved", "d_model", "only_a", "only_b"]
    """A token has moved; the streams have different widths; only A, or only B, has this checkpoint."""
    slot: int | None = None
    """Where a token has moved: the one that moved most here, as a share of its length."""
    token: str | None = None
    relative: float | None = None
    """The distance as a share of the length in A. NaN where that is 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One sentence of run A beside one of run B: of any two texts, architectures, seeds, masks or devices.

    Layers and heads are counted over both runs; what only one has is NaN in the other and in every difference, never 0.
    Padding is no query, and is left out of every mean and table.
    """

    a: Run
    b: Run
    sentence_a: int
    sentence_b: int
    alignment: Alignment

    @property
    def n_layers(self) -> int:
        """Of the deeper encoder."""
        return max(self.a.config.n_layers, self.b.config.n_layers)

    @property
    def n_heads(self) -> int:
        """Of the encoder that has more."""
        return max(self.a.config.n_heads, self.b.config.n_heads)

    def pattern(self, layer: int, head: int | None = None) -> Sides:
        """The attention of one head of both, `[slot, slot]`; of all heads, `[head, slot, slot]`, where none is named.

        Rows and columns of padding are as they were recorded.

        Raises:
            IndexError: If neither has such a layer or head.
        """
        if not 0 <= layer < self.n_layers:
            raise IndexError(f"layer {layer} does not exist; these runs have layers 0 to {self.n_layers - 1}")
        if head is not None and not 0 <= head < self.n_heads:
            raise IndexError(f"head {head} does not exist; these runs have heads 0 to {self.n_heads - 1}")
        return Sides.of(self._pattern("a", layer, head), self._pattern("b", layer, head))

    def heads(self) -> pd.DataFrame:
        """One row a layer and head: how much of its attention is elsewhere, and in which runs it is, and is off.

        `moved` is the mean over aligned real queries of the total variation of their rows over the keys of both,
        ½ Σₖ |w_B[q, k] − w_A[q, k]|, from 0 to 1. A key that only one text has counts with all its weight: there is
        none of it in the other. NaN where no query is aligned or only one run has the head. A head that is off keeps
        the pattern it computed.
        """
        moved = np.full((self.n_layers, self.n_heads), np.nan)
        for layer in range(min(self.a.config.n_layers, self.b.config.n_layers)):
            n_heads = min(self.a.config.n_heads, self.b.config.n_heads)
            a, b = (run.trace.pattern(layer)[self._sentence(side), :n_heads] for side, run in self._runs())
            moved[layer, :n_heads] = attention_moved(a, b, self.alignment)
        layers, heads = np.indices(moved.shape).reshape(2, -1)
        columns: dict[str, object] = {"layer": layers, "head": heads, "moved": moved[layers, heads]}
        for side, run in self._runs():
            columns[f"in_{side}"] = (layers < run.config.n_layers) & (heads < run.config.n_heads)
        for side, run in self._runs():
            columns[f"off_{side}"] = [pair in run.heads_off for pair in zip(layers, heads, strict=True)]
        return pd.DataFrame(columns)

    def stream(self) -> pd.DataFrame:
        """One row a checkpoint of either and aligned real token: how long its vectors are, and how far apart.

        Checkpoints are those of `Trace.checkpoints`. `distance` is the L2 norm of b - a, `relative` its share of
        `norm_a`, `cosine` that of the angle between the two: exactly 1 where they are equal, NaN where one is zero. NaN
        where only one run has the checkpoint; where the widths differ, only the norms are there.
        """
        frames = [
            pd.DataFrame({"point": point, "layer": layer, **self._labels(), **measured}).astype({"layer": "Int64"})
            for point, layer, measured in self._measured()
        ]
        return pd.concat(frames, ignore_index=True)

    def outputs(self) -> pd.DataFrame:
        """One row an aligned real token: how far apart its outputs are. As `stream`, but `change` is the distance."""
        a, b = (run.output[self._at(side)] for side, run in self._runs())
        return pd.DataFrame(self._labels() | vectors_apart(a, b, len(a))).rename(columns={"distance": "change"})

    def layernorm(self) -> pd.DataFrame:
        """One row a norm and real token of either: each column of `Tables.layernorm` as `_a`, `_b` and `_difference`.

        What only one has is NaN in the other.
        """
        a, b = (run.tables.layernorm(sentence=self._sentence(side)) for side, run in self._runs())
        return beside(a, b, self.alignment, ("norm", "layer"))

    def residual(self) -> pd.DataFrame:
        """One row a checkpoint and real token of either: each column of `Tables.stream`, as in `layernorm`.

        These are differences of lengths and of cosines; `stream` has the length of the difference.
        """
        a, b = (run.tables.stream(sentence=self._sentence(side)) for side, run in self._runs())
        return beside(a, b, self.alignment, ("point", "layer"))

    def rows(self, table_a: pd.DataFrame, table_b: pd.DataFrame, keys: Sequence[str]) -> list[Row]:
        """The names of the rows of `aligned`: see `explorer.comparison.sides.rows_of`."""
        return rows_of(self._of(table_a, "a"), self._of(table_b, "b"), keys)

    def aligned(self, table_a: pd.DataFrame, table_b: pd.DataFrame, keys: Sequence[str], value: str) -> Sides:
        """One column of a table of A and one of B as `[row, slot]`: see `explorer.comparison.sides.aligned`."""
        return aligned(self._of(table_a, "a"), self._of(table_b, "b"), self.alignment, keys, value)

    def parting(self) -> Parting | None:
        """The first checkpoint where an aligned real token has moved by more than `TOLERANCE` of its length in A.

        Streams of different widths part at the embedding, and a run that goes on alone parts there. None where the runs
        never part: they then agree up to rounding, and `equal` says whether exactly.
        """
        for point, layer, measured in self._measured():
            here = {side: (point, layer) in run.trace.checkpoints() for side, run in self._runs()}
            if not all(here.values()):
                return Parting(point, layer, "only_a" if here["a"] else "only_b")
            if self.a.config.d_model != self.b.config.d_model:
                return Parting(point, layer, "d_model")
            moved = measured["distance"] > TOLERANCE * measured["norm_a"]
            if moved.any():
                number = int(np.where(moved, np.nan_to_num(measured["relative"], nan=np.inf), -1).argmax())
                slot = int(np.flatnonzero(self.alignment.shared)[number])
                token, relative = self.alignment.tokens[slot], float(measured["relative"][number])
                return Parting(point, layer, "moved", slot, token, relative)
        return None

    @property
    def equal(self) -> bool:
        """Whether the runs are the same, exactly: tokens, layers, heads, every attention weight and every vector."""
        if any(getattr(self.a.config, name) != getattr(self.b.config, name) for name in SIZES):
            return False
        return (
            not self.alignment.only_a()
            and not self.alignment.only_b()
            and bool((self.outputs()["change"] == 0).all())
            and all((measured["distance"] == 0).all() for _, _, measured in self._measured())
            and bool((self.heads()["moved"] == 0).all())
        )

    def _measured(self) -> Iterator[tuple[Point, int | None, dict[str, np.ndarray]]]:
        """Each checkpoint of either, and how far apart the aligned real tokens are there."""
        points = {side: run.trace.checkpoints() for side, run in self._runs()}
        depth = {key: np.inf if key[1] is None else float(key[1]) for key in [*points["a"], *points["b"]]}
        for point, layer in union(points["a"], points["b"], depth):
            a, b = (
                run.trace.stream(point, layer)[self._at(side)] if (point, layer) in points[side] else None
                for side, run in self._runs()
            )
            yield point, layer, vectors_apart(a, b, int(self.alignment.shared.sum()))

    def _pattern(self, side: Side, layer: int, head: int | None) -> Float[np.ndarray, "*head slot slot"]:
        run, n_slots = self._run(side), len(self.alignment.tokens)
        heads = range(self.n_heads) if head is None else [head]
        patterns = np.full((len(heads), n_slots, n_slots), np.nan, dtype=np.float32)
        for index, number in enumerate(heads):
            if layer < run.config.n_layers and number < run.config.n_heads:
                recorded = run.trace.pattern(layer)[self._sentence(side), number]
                queries = self.alignment.spread(recorded, side, axis=0)
                patterns[index] = self.alignment.spread(queries, side, axis=1)
        return patterns if head is None else patterns[0]

    def _labels(self) -> dict[str, object]:
        slots = np.flatnonzero(self.alignment.shared)
        return {"slot": slots, "token": [self.alignment.tokens[slot] for slot in slots]}

    def _runs(self) -> list[tuple[Side, Run]]:
        return [("a", self.a), ("b", self.b)]

    def _run(self, side: Side) -> Run:
        return self.a if side == "a" else self.b

    def _sentence(self, side: Side) -> int:
        return self.sentence_a if side == "a" else self.sentence_b

    def _at(self, side: Side) -> tuple[int, np.ndarray]:
        """Where the aligned real tokens are in a recorded `[batch, pos, ...]`."""
        place = self.alignment.a if side == "a" else self.alignment.b
        return self._sentence(side), place[self.alignment.shared]

    def _of(self, table: pd.DataFrame, side: Side) -> pd.DataFrame:
        return table[table["sentence"] == self._sentence(side)]


def compare(a: Run, b: Run, *, sentence_a: int = 0, sentence_b: int = 0) -> Comparison:
    """Sentence `sentence_a` of run A beside sentence `sentence_b` of run B. Nothing is computed until it is asked for.

    Raises:
        IndexError: If there is no such sentence.
        MaskError: If a sentence has no real token, or padding between its real tokens.
    """
    return Comparison(
        a, b, sentence_a, sentence_b, align(a.batch, b.batch, sentence_a=sentence_a, sentence_b=sentence_b)
    )
