"""The stream of both placements over depth: how long it is, and how much is added to it."""

import numpy as np
import pandas as pd
import streamlit as st

from components.figures.placements import compared_over_depth
from components.panels.beside.tables import with_placement
from components.panels.look import Look, chart, explain, numbers
from components.panels.residual.checkpoints import Checkpoints, stream_table
from components.panels.residual.curves import over_depth
from components.theme import format_number

WHAT = {"norm": "L2 norm of the stream", "added": "L2 norm of what is added"}


def show(post: Look, pre: Look) -> None:
    """Length of the stream on the left, of the additions on the right, each of both placements on a log axis."""
    names = max((Checkpoints.of(look).names for look in (post, pre)), key=len)
    found = {"Post-LN": _over_depth(post), "Pre-LN": _over_depth(pre)}
    for column, (value, quantity) in zip(st.columns(2), WHAT.items(), strict=True):
        lines = {name: _line(tables[value], f"mean_{value}", len(names)) for name, tables in found.items()}
        with column:
            figure = compared_over_depth(
                names, lines, quantity=quantity, palette=post.palette, log=True, title=quantity, height=post.height
            )
            chart(figure, key=f"both_{value}", alt=f"{quantity} over depth, Post-LN and Pre-LN")
    last = 2 * post.run.config.n_layers
    ends = {
        name: f"{format_number(tables['norm']['mean_norm'][0])} to {format_number(tables['norm']['mean_norm'][last])}"
        for name, tables in found.items()
    }
    explain(
        f"From the embedding to the end of the last layer the stream of Post-LN goes from {ends['Post-LN']}, that of "
        f"Pre-LN from {ends['Pre-LN']}.",
        "Post-LN sets the length anew at each norm; in Pre-LN each addition stays, and has to outweigh what is there.",
        "Lines are means over real tokens, bands hold 10 to 90 percent of them, and both axes are logarithmic.",
    )
    shown = with_placement(
        {name: tables["norm"].assign(mean_added=tables["added"]["mean_added"]) for name, tables in found.items()}
    )
    numbers(shown, name="placements", downloads={"This table as CSV": lambda: shown})


def _over_depth(look: Look) -> dict[str, pd.DataFrame]:
    stream = stream_table(look)
    points = Checkpoints.of(look)
    return {value: over_depth(points, points.per_token(look, stream, value), f"mean_{value}") for value in WHAT}


def _line(table: pd.DataFrame, mean: str, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and spread at each checkpoint; NaN at the final norm of an encoder that has none."""

    def padded(name: str) -> np.ndarray:
        return np.pad(table[name].to_numpy(), (0, length - len(table)), constant_values=np.nan)

    return padded(mean), padded("low"), padded("high")
