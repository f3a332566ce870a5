"""One sentence three ways: how far padding moves each real token, with the mask and without it."""

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import state
from components.labels import visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.look import Look
from components.panels.padding.chosen import (
    Shown,
    names_of,
    number_of,
    padding_of,
    real_places,
    ways_of,
)
from components.panels.residual.checkpoints import Checkpoints
from components.theme import format_number
from explorer.padding import padding_difference
from explorer.precision import Precision

ROUNDING: Final[dict[Precision, float]] = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 0.25, "float16": 0.03}
"""Up to here a difference is rounding: two sums of the same numbers in another order."""
TITLES: Final = {"masked": "Padded and masked", "unmasked": "Padded, not masked"}


def show(look: Look) -> Shown:
    """The difference from the sentence alone, checkpoints x real tokens: masked on the left, unmasked on the right."""
    ways, points = ways_of(look), Checkpoints.of(look)
    tables = {"masked": difference_table(ways, ways.masked), "unmasked": difference_table(ways, ways.unmasked)}
    maps = {name: table["difference"].to_numpy().reshape(len(points.points), -1) for name, table in tables.items()}
    high, floor = log_range(np.concatenate([*maps.values()]))
    for column, (name, values) in zip(st.columns(2), maps.items(), strict=True):
        with column:
            _difference_map(look, ways, points, name, values, high, floor)
    shown = pd.DataFrame(
        {
            "checkpoint": np.repeat(points.names, len(real_places(look.padding))),
            "token": tables["masked"]["token"],
            **{f"{name}_difference": table["difference"] for name, table in tables.items()},
            **{f"{name}_relative": table["relative"] for name, table in tables.items()},
        }
    )
    return Shown(shown, _said(look, ways, points, maps))


def difference_table(ways: state.Ways, padded: state.Answer) -> pd.DataFrame:
    """The difference of one padded run from the sentence alone: see `padding_difference`. Made once a run."""
    return state.table(padded, 0, "padding difference", lambda: padding_difference(ways.alone.run, padded.run))


def log_range(values: np.ndarray) -> tuple[float, float]:
    """The largest value, and the share of it at which logarithmic colours begin: a tenth of the smallest above 0.

    So exactly 0 has the first colour to itself.
    """
    above = values[values > 0]
    high = float(above.max()) if above.size else 1.0
    return high, float(above.min()) / (10 * high) if above.size else 0.1


def _difference_map(
    look: Look, ways: state.Ways, points: Checkpoints, name: str, values: np.ndarray, high: float, floor: float
) -> None:
    padded = getattr(ways, name)

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=values,
                rows=points.names,
                cols=names_of(ways.alone.run.batch),
                title=f"{TITLES[name]}: {_at_most(values)}",
                row_title="checkpoint",
                col_title="real token",
                phrase=("at ", ", ", ": differs from the sentence alone by "),
                unit="difference",
                high=high,
                floor=floor,
                square=False,
                chosen_row=points.chosen,
                file=f"padding-{name}",
            )
        )

    key = ("padding ways", name, high, floor, points.chosen)
    matrix_canvas(
        state.payload(padded, 0, key, make),
        key=f"ways_{name}",
        height=look.height,
        scale="log",
        marked=(None, number_of(look)),
        on_pick=lambda row, col: _pick(look, points, row, col),
    )


def _pick(look: Look, points: Checkpoints, row: int | None, col: int | None) -> None:
    """A row chooses its checkpoint and so the layer, a column its token."""
    if row is not None:
        points.choose(look.head, row)
    if col is not None:
        state.put("token", int(real_places(look.padding)[col]))


def _said(look: Look, ways: state.Ways, points: Checkpoints, maps: dict[str, np.ndarray]) -> list[str]:
    padding = padding_of(ways.masked)
    if not padding.any():
        return [f"This sentence fills all {len(padding)} places that the encoder has: nothing is left to pad."]
    masked, unmasked, same = maps["masked"], maps["unmasked"], ROUNDING[look.run.precision]
    at, number = points.chosen, number_of(look)
    token = visible(look.tokens[look.token])
    return [
        f"The sentence has {int((~padding).sum())} real tokens. Beside {int(padding.sum())} padding tokens that are "
        f"masked, its vectors stay what they are alone: {_how_much(masked, same)}.",
        f"Without the mask they differ by up to {format_number(float(unmasked.max()))}.",
        *_entry(points, unmasked, same, causal=look.run.causal),
        f"“{token}” at {points.names[at]}: {format_number(float(masked[at, number]))} masked, "
        f"{format_number(float(unmasked[at, number]))} not masked.",
        "A number is the largest absolute difference of all dimensions. Both maps have one logarithmic scale; "
        "exactly 0 has the first colour. Click a cell to choose its checkpoint and token.",
    ]


def _at_most(values: np.ndarray) -> str:
    return f"at most {format_number(float(values.max()))}" if values.any() else "exactly the same"


def _how_much(masked: np.ndarray, same: float) -> str:
    """How far masked padding moves a vector at most, and what that is."""
    largest = float(masked.max())
    if largest == 0:
        return "the difference is exactly 0"
    return f"they differ by at most {format_number(largest)}{', which is rounding' if largest <= same else ''}"


def _entry(points: Checkpoints, unmasked: np.ndarray, same: float, *, causal: bool) -> list[str]:
    """Where the difference first appears, and how it goes on from there."""
    wrong = unmasked > same
    if not wrong.any() and causal:
        return ["Attention is causal: what stands after a token is hidden from it, and padding stands after them all."]
    if not wrong.any():
        return ["No more than rounding enters."]
    first = int(wrong.any(axis=1).argmax())
    point, layer = points.points[first]
    place = {"mid": f"the attention of layer {layer}", "post": f"the feed-forward network of layer {layer}"}.get(
        point, points.names[first]
    )
    before = "exactly 0" if not unmasked[:first].any() else "rounding"
    start, end = (format_number(float(median)) for median in np.median(unmasked, axis=1)[[first, -1]])
    return [
        f"It enters with {place}: before that it is {before}, after it {int(wrong[first].sum())} of {wrong.shape[1]} "
        f"real tokens are beyond {format_number(same)}.",
        f"Then it spreads: the median over tokens is {start} at {points.names[first]} and {end} at {points.names[-1]}.",
    ]
