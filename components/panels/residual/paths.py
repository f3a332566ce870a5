"""All tokens on their way through the encoder, seen from the side on which they spread most."""

import numpy as np
import pandas as pd

from components import state
from components.figures.paths import token_paths
from components.panels.look import Look, chart
from components.panels.residual.checkpoints import Checkpoints
from components.theme import format_number
from explorer.stats.residual import principal_axes


def show(look: Look, points: Checkpoints, stream: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The two principal axes of all real tokens at the ends of all layers together."""
    table = state.table(look.answer, look.sentence, "paths", lambda: _axes(look, points))
    shares = np.array(table.attrs["shares"])
    real = np.flatnonzero(~look.padding)
    names = [points.names[number] for number in _ends(points)]
    figure = token_paths(
        table[["first_axis", "second_axis"]].to_numpy().reshape(len(names), len(real), 2),
        shares,
        names,
        [look.tokens[pos] for pos in real],
        chosen=int(np.searchsorted(real, look.token)),
        palette=look.palette,
        height=look.height,
    )
    chart(figure, key="paths", alt="Paths of all tokens over depth on the two axes along which they spread most")
    seen = shares.sum()
    return table[table["pos"] == look.token].drop(columns="pos"), [
        "Each line is one token, from the embedding through the end of each layer.",
        f"The two axes are the principal components of all tokens at all these points. They hold "
        f"{format_number(100 * seen)} % of the variance; what lies across them is not seen."
        if np.isfinite(seen)
        else "All vectors are equal, so there is nothing to spread.",
        "Distances in the picture are never larger than in the stream.",
    ]


def _ends(points: Checkpoints) -> list[int]:
    """The embedding and the end of each layer. Between them, and after a final norm, lengths are of another scale."""
    return [number for number, (point, _) in enumerate(points.points) if point in ("pre", "post")]


def _axes(look: Look, points: Checkpoints) -> pd.DataFrame:
    """One row a point and real token: its coordinates. The shares of variance go with the table."""
    real = np.flatnonzero(~look.padding)
    ends = _ends(points)
    coordinates, shares = principal_axes(np.concatenate([points.stream(look, number)[real] for number in ends]))
    table = pd.DataFrame(
        {
            "checkpoint": np.repeat([points.names[number] for number in ends], len(real)),
            "pos": np.tile(real, len(ends)),
            "token": [look.tokens[pos] for pos in real] * len(ends),
            "first_axis": coordinates[:, 0],
            "second_axis": coordinates[:, 1],
        }
    )
    table.attrs["shares"] = shares.tolist()
    return table
