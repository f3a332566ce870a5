"""Both blocks, any value of one beside that of the other, and every parameter that was added, removed or changed."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.matrix import clear_end
from components.panels.look import Look, explain
from components.panels.overview import Scale
from components.panels.pair.tables import ONE_SCALE, pair_numbers
from components.panels.pair.three import three
from components.panels.pair.two import Two, in_one_table
from components.panels.shapes import diagram
from components.panels.shapes.tensor import IDS, WEIGHTS, Opened, per_row, sizes
from components.theme import format_number
from explorer.comparison import compare_parameters
from explorer.stats import cost_by_part
from explorer.tape import SITES

STATUSES: Final = ("only in A", "only in B", "other shape", "changed", "equal")
"""What became of a parameter, as `compare_parameters` says it."""
PARTS: Final = {"cost": "Blocks", "tensor": "Tensor", "parameters": "Parameters"}


def show(two: Two) -> None:
    """The diagram of each; a click opens the value in both."""
    part = controls.part_elsewhere("shape_show", "shapes_of_two", PARTS)
    table = SHOW[part](two)
    pair_numbers(two, table)


def _blocks(two: Two) -> pd.DataFrame:
    for number, (column, look) in enumerate(zip(st.columns(2), (two.a, two.b), strict=True)):
        with column:
            diagram(look, key=f"block_{'ab'[number]}", height=look.height)
    costs = [cost_by_part(look.run.tables.shapes()) for look in (two.a, two.b)]
    explain(
        f"Left {two.names[0]}, right {two.names[1]}. Click a value to open it in both.",
        *(_totals(two, costs, quantity) for quantity in ("parameters", "flops")),
        "Post-LN adds, then normalises: the norm stands in the stream. Pre-LN normalises what a sublayer reads and "
        "leaves the stream alone; a final norm follows the stack."
        if len({look.run.config.norm_placement for look in (two.a, two.b)}) == 2
        else "",
    )
    return in_one_table(two, costs)


def _totals(two: Two, costs: list[pd.DataFrame], quantity: str) -> str:
    a, b = (int(cost[quantity].sum()) for cost in costs)
    name = {"parameters": "Parameters", "flops": "FLOPs"}[quantity]
    if a == b:
        return f"{name}: {format_number(a)} in both."
    return f"{name}: {format_number(a)} in {two.names[0]}, {format_number(b)} in {two.names[1]}."


def _parameters(two: Two) -> pd.DataFrame:
    """Which parameters only one has, which have another shape or other values; what is equal comes last."""
    found = two.table("parameters", lambda: compare_parameters(two.a.answer.model, two.b.answer.model))
    a, b = two.names
    words = {status: status for status in STATUSES} | {"only in A": f"only in {a}", "only in B": f"only in {b}"}
    counts = found["status"].value_counts()
    said = [f"{format_number(int(counts[status]))} {words[status]}" for status in STATUSES if status in counts]
    explain(
        f"Of {len(found)} parameters by name: {', '.join(said)}. Equal means bit for bit.",
        _count_of_numbers(two, found),
        "The largest difference is that of two numbers in the same place.",
    )
    return pd.DataFrame(
        {
            "name": found["name"],
            "status": found["status"].map(words),
            **{column: found[column].map(_size) for column in ("shape_a", "shape_b")},
            **{column: found[column] for column in ("n_a", "n_b", "largest_difference")},
        }
    ).iloc[np.argsort([STATUSES.index(status) for status in found["status"]], kind="stable")]


def _count_of_numbers(two: Two, found: pd.DataFrame) -> str:
    a, b = int(found["n_a"].sum()), int(found["n_b"].sum())
    if a == b:
        return f"Both have {format_number(a)} numbers in all."
    return f"{two.names[0]} has {format_number(a)} numbers in all, {two.names[1]} {format_number(b)}."


def _size(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else " × ".join(format_number(size) for size in shape) or "1"


def _tensors(two: Two) -> pd.DataFrame:
    """One value of both and the difference. What only one has is there alone."""
    site, looks = state.get("site"), (two.a, two.b)
    there = [_has(look, site) for look in looks]
    if not any(there):
        explain(f"{_named(site)} is no value of either that colours could show. Choose another in the blocks.")
        return in_one_table(two, [cost_by_part(look.run.tables.shapes()) for look in looks])
    opened = [Opened.of(look, site) if has else None for look, has in zip(looks, there, strict=True)]
    one = next(part for part in opened if part is not None)
    square = one.axes[-1] == "key"
    values = two.spread(
        [_values(look, part, one, square=square) for look, part in zip(looks, opened, strict=True)], square=square
    )
    hidden = [two.alignment.padding_a & two.a.run.use_mask, two.alignment.padding_b & two.b.run.use_mask]
    three(
        two,
        values,
        key="tensor",
        of=(site, one.layer, two.asked.head),
        titles=[
            f"{name} · {one.name}" if has else f"{name} has no {one.name}"
            for name, has in zip(two.names, there, strict=True)
        ]
        + [two.difference],
        scale=Scale(_end(looks, opened), signed=site != WEIGHTS, log=False, floor=0.5),
        height=two.a.height,
        end=None if square else clear_end(values.difference[two.alignment.shared]),
        marked=(two.slot, None),
        row_paddings=[two.alignment.padding_a, two.alignment.padding_b, two.padding],
        col_paddings=[*hidden, hidden[0] & hidden[1]] if square else None,
        rows=two.tokens,
        cols=two.tokens if square else [str(number) for number in range(values.a.shape[1])],
        row_title=one.axes[-2],
        col_title=one.axes[-1],
        phrase=("in ", f", {'key' if square else one.axes[-1]} ", ": "),
        unit="weight" if site == WEIGHTS else "score" if square else "value",
        square=square,
        whole=True,
        on_pick=lambda row, _: two.pick(row),
    )
    widths = {part.values.shape[1] for part in opened if part is not None}
    explain(
        f"{one.name} of {two.names[0]}, of {two.names[1]}, and the difference at tokens that stand beside each other.",
        "They have different widths, so they cannot be subtracted." if len(widths) > 1 and not square else "",
        two.about_tokens(),
        ONE_SCALE,
        "Click a row to choose its token.",
    )
    tables = [
        pd.DataFrame() if part is None else per_row(look, part.values) for look, part in zip(looks, opened, strict=True)
    ]
    return in_one_table(two, tables)


def _values(look: Look, part: Opened | None, other: Opened, *, square: bool) -> np.ndarray:
    """What was opened, or as much of nothing as there is of the other."""
    n_pos = len(look.tokens)
    width = n_pos if square else other.values.shape[1]
    return np.full((n_pos, width), np.nan) if part is None else part.values


def _end(looks: Sequence[Look], opened: Sequence[Opened | None]) -> float:
    """Where the colours of both end."""
    return max(part.end(look.padding) for look, part in zip(looks, opened, strict=True) if part is not None)


def _has(look: Look, site: str) -> bool:
    """Whether this run has such a value, in the chosen layer and head where it has one for each."""
    found = sizes(look.run).get(site)
    if found is None or site == IDS:
        return False
    config, inside = look.run.config, f"layers.*.{site}" in SITES
    return (not inside or look.layer < config.n_layers) and ("head" not in found or look.head < config.n_heads)


def _named(site: str) -> str:
    return "The list of token ids" if site == IDS else site


SHOW: Final[dict[str, Callable[[Two], pd.DataFrame]]] = {
    "cost": _blocks,
    "tensor": _tensors,
    "parameters": _parameters,
}
