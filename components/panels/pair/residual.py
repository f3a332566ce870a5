"""The stream of both runs: one number of every token at every checkpoint, how far the vectors part, and the curves."""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.figures.placements import compared_over_depth
from components.labels import visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.look import Look, chart, explain
from components.panels.overview import Scale
from components.panels.pair.tables import ONE_SCALE, about_largest, pair_numbers, tidy
from components.panels.pair.three import three_overviews
from components.panels.pair.two import Two, in_one_table
from components.panels.residual import QUANTITIES
from components.panels.residual.checkpoints import Checkpoints, checkpoint_name, stream_table
from components.panels.residual.curves import over_depth
from components.theme import format_number
from explorer.comparison import Sides

PARTS: Final = {"map": "Map", "distance": "Distance", "growth": "Growth"}
KEYS: Final = ("point", "layer")
"""The columns that name a checkpoint."""
WHAT: Final = {"norm": "L2 norm of the stream", "added": "L2 norm of what is added"}


def show(two: Two) -> None:
    """What is chosen of both streams. Rows are checkpoints: a click chooses one, and its token."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if state.now("stream_pair") == "map":
            controls.choice("stream", "Shown", QUANTITIES, label_visibility="collapsed", width=230)
        part = controls.choice(
            "stream_pair", "Show", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
    shown, said = SHOW[part](two)
    explain(*said, two.about_tokens() if part != "growth" else "")
    pair_numbers(two, shown)


def _map(two: Two) -> tuple[pd.DataFrame, list[str]]:
    quantity = state.get("stream")
    found, values = two.slots((stream_table(two.a), stream_table(two.b)), KEYS, quantity)
    if quantity != "norm":  # before the first checkpoint nothing has turned or been added
        found, values = found[1:], Sides(*(array[1:] for array in values))
    rows = [checkpoint_name(*row) for row in found]
    length = quantity in ("norm", "added")
    three_overviews(
        two,
        values,
        rows,
        key="stream",
        of=quantity,
        scale=Scale.of([values.a, values.b], limit=None if length else 1.0),
        row_title="checkpoint",
        quantity=_small(QUANTITIES[quantity]),
        unit="L2 norm" if length else "cosine",
        on_pick=partial(_pick, two, rows),
    )
    table = tidy(two, values, rows, "checkpoint")
    return table, [about_largest(two, table, "checkpoint", _small(QUANTITIES[quantity])), ONE_SCALE]


def _distance(two: Two) -> tuple[pd.DataFrame, list[str]]:
    """How far the vector of each token in B is from that in A, as a share of its length in A."""
    rows, table = distances(two)
    values = by_slot(two, table, rows, "relative")
    if not np.isfinite(values).any():
        return table, ["The two streams have different widths, so their vectors cannot be subtracted."]
    draw_distance(two, values, rows, key="distance", height=two.a.height)
    table = table.sort_values("relative", ascending=False, kind="stable", ignore_index=True)
    return table, [about_distance(two, table)]


def distances(two: Two) -> tuple[list[str], pd.DataFrame]:
    """The checkpoints of either run, and how far each aligned token has moved at each of them."""
    table = two.table("stream", two.comparison.stream)
    table = table.assign(checkpoint=[checkpoint_name(*row) for row in zip(table["point"], table["layer"], strict=True)])
    return list(dict.fromkeys(table["checkpoint"])), table


def by_slot(two: Two, table: pd.DataFrame, rows: list[str], value: str) -> np.ndarray:
    """A column of the table of `distances` as `[checkpoint, slot]`."""
    placed = table.pivot(index="checkpoint", columns="slot", values=value)
    return placed.reindex(index=rows, columns=range(len(two.tokens))).to_numpy(dtype=np.float64)


def draw_distance(two: Two, values: np.ndarray, rows: list[str], *, key: str, height: int) -> None:
    """Distances `[checkpoint, slot]`, as shares of the length in A."""
    high = float(np.nanmax(values, initial=0)) or 1.0

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=values,
                rows=rows,
                cols=two.tokens,
                col_padding=two.padding,
                title=f"How far {two.names[1]} is from {two.names[0]}",
                row_title="checkpoint",
                col_title="token",
                phrase=("at ", ", ", " has moved by this share of its length: "),
                unit="distance / length",
                high=high,
                square=False,
                file="distance",
            )
        )

    matrix_canvas(
        two.payload(key, make),
        key=key,
        height=height,
        marked=(None, two.slot),
        on_pick=partial(_pick, two, rows),
    )


def about_distance(two: Two, table: pd.DataFrame) -> str:
    """How far the furthest token is, from a table sorted by it."""
    first = table[table["relative"].notna()].iloc[0]
    if first["relative"] == 0:
        return f"{two.names[0]} and {two.names[1]} are exactly equal at every aligned token."
    return (
        f"Furthest is “{visible(first['token'])}” at {first['checkpoint']}: the vector of {two.names[1]} is "
        f"{format_number(first['relative'])} of its length in {two.names[0]} away, at a cosine of "
        f"{format_number(first['cosine'])}."
    )


def _growth(two: Two) -> tuple[pd.DataFrame, list[str]]:
    """Length of the stream and of what is added to it, over depth, on logarithmic axes."""
    rows = two.comparison.rows(stream_table(two.a), stream_table(two.b), KEYS)
    names = [checkpoint_name(*row) for row in rows]
    found = {name: _over_depth(look, names) for name, look in two.looks.items()}
    for column, (value, quantity) in zip(st.columns(2), WHAT.items(), strict=True):
        lines = {name: _line(table[value], f"mean_{value}") for name, table in found.items()}
        with column:
            figure = compared_over_depth(
                names, lines, quantity=quantity, palette=two.a.palette, log=True, title=quantity, height=two.a.height
            )
            chart(figure, key=f"both_{value}", alt=f"{quantity} over depth, {two.names[0]} and {two.names[1]}")
    tables = [of["norm"].assign(mean_added=of["added"]["mean_added"]) for of in found.values()]
    shown = in_one_table(two, [table.dropna(subset="mean_norm") for table in tables])
    return shown, [
        *(_from_to(name, look, found[name]["norm"]) for name, look in two.looks.items()),
        "Post-LN sets the length anew at each norm; in Pre-LN each addition stays, and has to outweigh what is there."
        if len({look.run.config.norm_placement for look in two.looks.values()}) == 2
        else "",
        "Lines are means over real tokens, bands hold 10 to 90 percent of them, and both axes are logarithmic.",
    ]


def _line(table: pd.DataFrame, mean: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return table[mean].to_numpy(), table["low"].to_numpy(), table["high"].to_numpy()


def _from_to(name: str, look: Look, table: pd.DataFrame) -> str:
    """From the embedding to the end of the last layer."""
    means = table.set_index("checkpoint")["mean_norm"]
    last = means[f"L{look.run.config.n_layers - 1} post"]
    return f"The stream of {name} goes from {format_number(means['L0 pre'])} to {format_number(last)}."


def _over_depth(look: Look, names: list[str]) -> dict[str, pd.DataFrame]:
    """Mean and spread of each quantity at each of these checkpoints; NaN where this run has none."""
    points, stream = Checkpoints.of(look), stream_table(look)
    found = {}
    for value in WHAT:
        table = over_depth(points, points.per_token(look, stream, value), f"mean_{value}")
        found[value] = table.set_index("checkpoint").reindex(names).rename_axis("checkpoint").reset_index()
    return found


SHOW: Final[dict[str, Callable[[Two], tuple[pd.DataFrame, list[str]]]]] = {
    "map": _map,
    "distance": _distance,
    "growth": _growth,
}


def _pick(two: Two, rows: list[str], row: int | None, col: int | None) -> None:
    if row is not None:
        where, _, point = rows[row].partition(" ")
        state.put("point", "final" if where == "final" else point)
        if where != "final":
            state.put("sel", (int(where[1:]), two.asked.head))
    two.pick(col)


def _small(name: str) -> str:
    return name.replace("L2", "l2").lower().replace("l2", "L2")
