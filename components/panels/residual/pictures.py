"""The stream itself: one token at every checkpoint, or every token at one checkpoint, in all its dimensions."""

import numpy as np
import pandas as pd

from components import state
from components.labels import visible
from components.matrix import CLEAR, Matrix, clear_end, matrix_canvas, pack_matrix
from components.panels.look import Look
from components.panels.residual.checkpoints import Checkpoints
from components.theme import format_number

L2 = {"norm": "l2_norm"}
"""In a table of the page `norm` is the name of a LayerNorm."""


def token(look: Look, points: Checkpoints, stream: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The chosen token followed through the encoder: checkpoints x dimensions."""
    values = np.stack([points.stream(look, number)[look.token] for number in range(len(points.points))])
    name = visible(look.tokens[look.token])

    def make() -> bytes:
        return pack_matrix(
            dimensions(
                values,
                points.names,
                title=f"“{name}” at every checkpoint",
                row_title="checkpoint",
                phrase="at ",
                file=f"stream-token-{look.token}",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("followed", look.token), make),
        key="followed",
        height=look.height,
        marked=(points.chosen, None),
        on_pick=lambda number, _: None if number is None else points.choose(look.head, number),
    )
    table = stream[stream["pos"] == look.token].reset_index(drop=True)
    table = _with_largest(table[["norm", "turned", "added", "added_cosine"]].rename(columns=L2), values)
    table.insert(0, "checkpoint", points.names)
    return table, [f"Every dimension of {name} at each checkpoint, from the embedding at the top.", *_said(values)]


def checkpoint(look: Look, points: Checkpoints, stream: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """All tokens at the chosen checkpoint: tokens x dimensions."""
    values = points.stream(look, points.chosen)

    def make() -> bytes:
        return pack_matrix(
            dimensions(
                values,
                [visible(token) for token in look.tokens],
                title=f"The stream at {points.name}",
                row_title="token",
                phrase="in ",
                row_padding=look.padding,
                file=f"stream-{points.name}",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("picture", points.chosen), make),
        key="picture",
        height=look.height,
        marked=(look.token, None),
        on_pick=lambda pos, _: None if pos is None else state.put("token", pos),
    )
    n_real = int((~look.padding).sum())
    table = stream.iloc[points.chosen * n_real : (points.chosen + 1) * n_real].reset_index(drop=True)
    real = values[~look.padding]
    shown = ["position", "token", "norm", "turned", "added", "added_cosine"]
    table = _with_largest(table[shown].rename(columns=L2), real)
    return table, [f"Every dimension of each token at {points.name}.", *_said(real)]


def dimensions(
    values: np.ndarray,
    rows: list[str],
    *,
    title: str,
    row_title: str,
    phrase: str,
    file: str,
    col_title: str = "dimension",
    row_padding: np.ndarray | None = None,
) -> Matrix:
    """`values [row, dimension]` around 0, seen whole."""
    high = clear_end(values if row_padding is None else values[~row_padding])
    return Matrix(
        values=values,
        rows=rows,
        cols=[str(dimension) for dimension in range(values.shape[1])],
        title=title,
        row_title=row_title,
        col_title=col_title,
        phrase=(phrase, f", {col_title} ", ": "),
        unit="value",
        low=-high,
        high=high,
        row_padding=row_padding,
        square=False,
        whole=True,
        file=file,
    )


def _with_largest(table: pd.DataFrame, values: np.ndarray) -> pd.DataFrame:
    """With the dimension of each row that is furthest from 0, and its share of the squared length."""
    at = np.abs(values).argmax(axis=1)
    largest = values[np.arange(len(values)), at].astype(np.float64)
    total = (values.astype(np.float64) ** 2).sum(axis=1)
    share = np.divide(largest**2, total, out=np.full(len(values), np.nan), where=total > 0)
    return table.assign(strongest_dimension=at, strongest_value=largest, share_of_length=share)


def _said(values: np.ndarray) -> list[str]:
    size = np.abs(values)
    _, dimension = np.unravel_index(size.argmax(), size.shape)
    return [
        f"The value furthest from 0 is {format_number(float(values.flat[size.argmax()]))}, in dimension {dimension}.",
        f"Colours end at the size that {CLEAR} % of the values stay below; the pointer reads each value as it is.",
    ]
