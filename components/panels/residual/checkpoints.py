"""The checkpoints of the stream on the page, and the one that is chosen."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from components import state
from components.panels.look import Look, token_matrix
from explorer.trace import Point

PLACES: dict[Point, int] = {"pre": 0, "mid": 1, "post": 2}


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Every point at which the stream is read, in order, and the chosen one of them."""

    points: list[tuple[Point, int | None]]
    chosen: int

    @classmethod
    def of(cls, look: Look) -> "Checkpoints":
        """The chosen checkpoint is in the layer that all views share. What enters a layer is what left the one before.

        A final norm that is not there gives way to the last checkpoint of the chosen layer.
        """
        points = look.run.trace.checkpoints()
        point = state.get("point")
        if point == "final" and points[-1][0] == "final":
            return cls(points, len(points) - 1)
        if point == "final":
            state.refuse_link("point", "post")
            point = "post"
        return cls(points, 2 * look.layer + PLACES[point])

    @property
    def names(self) -> list[str]:
        """How they are called on the page."""
        return [checkpoint_name(*point) for point in self.points]

    @property
    def name(self) -> str:
        """The name of the chosen one."""
        return self.names[self.chosen]

    def stream(self, look: Look, number: int) -> np.ndarray:
        """The stream of the sentence at one of them, `[pos, d_model]`."""
        return look.run.trace.stream(*self.points[number])[look.sentence]

    def picker(self, look: Look) -> None:
        """The list from which one is chosen."""
        state.choose_elsewhere(
            "checkpoint",
            "At",
            self.names,
            self.name,
            lambda name: self.choose(look.head, self.names.index(name)),
            width=180,
        )

    def choose(self, head: int, number: int) -> None:
        """Chooses one of them, and with it the layer that all views share. For callbacks."""
        point, layer = self.points[number]
        state.put("point", point)
        if layer is not None:
            state.put("sel", (layer, head))

    def pick(self, head: int, first: int, row: int | None, col: int | None) -> None:
        """What a click on a map of checkpoints `[first:]` x tokens means."""
        if row is not None:
            self.choose(head, row + first)
        if col is not None:
            state.put("token", col)

    def per_token(self, look: Look, stream: pd.DataFrame, value: str) -> np.ndarray:
        """A column of the table of the stream as `[checkpoint, pos]`; NaN at padding, and where there is no value."""
        of = stream.assign(checkpoint=np.repeat(np.arange(len(self.points)), int((~look.padding).sum())))
        return token_matrix(of, range(len(self.points)), "checkpoint", value, len(look.tokens))


def checkpoint_name(point: object, layer: object) -> str:
    """How a checkpoint is called on the page: `L0 pre`, `L3 mid`, `final norm`."""
    return "final norm" if point == "final" else f"L{layer} {point}"


def stream_table(look: Look) -> pd.DataFrame:
    """The stream of the sentence, one row a checkpoint and real token: see `Tables.stream`. Made once a run."""
    return state.table(look.answer, look.sentence, "stream", lambda: look.run.tables.stream(sentence=look.sentence))
