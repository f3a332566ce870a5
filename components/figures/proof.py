"""How far a run is from what its equations say, as a share of what is allowed."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import empty_figure
from components.labels import plotly_escape
from components.theme import Palette, format_number

FLOOR = 1e-6


def residue_bars(
    claims: Sequence[str],
    differences: np.ndarray,
    tolerances: np.ndarray,
    *,
    palette: Palette,
    height: int = 430,
) -> go.Figure:
    """One bar a claim, from far below its tolerance to the line that it must not pass, on a log axis.

    Bars that pass the line, or have no number, are of another colour and say "does not hold" at their end.
    """
    differences, tolerances = np.asarray(differences, dtype=np.float64), np.asarray(tolerances, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(differences == 0, 0.0, differences / tolerances)
    holds = shares <= 1  # false for NaN
    drawn = np.nan_to_num(np.clip(shares, FLOOR, 1e3), nan=1e3)
    figure = empty_figure("residue_bars", palette, title="Difference as a share of its tolerance", height=height)
    figure.add_bar(
        x=drawn / FLOOR,
        base=0,
        y=np.arange(len(claims)),
        orientation="h",
        marker={"color": [palette.series[0] if good else palette.series[1] for good in holds]},
        text=[
            "exactly 0" if share == 0 else "" if good else "does not hold"
            for share, good in zip(shares, holds, strict=True)
        ],
        textposition=["outside" if share == 0 else "inside" for share in shares],
        hovertext=[
            f"{plotly_escape(claim)}<br>difference {format_number(difference)}, tolerance {format_number(tolerance)}"
            for claim, difference, tolerance in zip(claims, differences, tolerances, strict=True)
        ],
        hoverinfo="text",
        name="difference",
    )
    powers = [-6, -4, -2, 0, 2]
    figure.add_vline(x=1 / FLOOR, line={"color": palette.accent, "width": 2})
    figure.update_layout(
        xaxis={
            "type": "log",
            "range": [0, 8],
            "tickvals": [10.0**power / FLOOR for power in powers],
            "ticktext": [format_number(10.0**power) if power else "1: tolerance" for power in powers],
        },
        yaxis={
            "tickvals": list(range(len(claims))),
            "ticktext": [str(number) for number in range(1, len(claims) + 1)],
            "autorange": "reversed",
            "title": {"text": "claim"},
            "showgrid": False,
        },
        bargap=0.35,
    )
    return figure
