"""Where parameters and arithmetic go, by kind of step."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from components.figures.canvas import empty_figure, name_axis
from components.theme import Palette, format_number

_COSTS = {"parameters": "parameters", "flops": "FLOPs"}


def cost_bars(costs: pd.DataFrame, *, palette: Palette, title: str = "", height: int = 360) -> go.Figure:
    """The share of each step in all parameters and in all FLOPs of one run, in percent.

    `costs` has the columns step, parameters and flops, one row a step; the shares of a column add up to 100 %, and
    the counts themselves are in the hover.

    Raises:
        ValueError: If a column is missing.
    """
    missing = {"step", *_COSTS} - set(costs.columns)
    if missing:
        raise ValueError(f"costs lacks the columns {sorted(missing)}; it has {list(costs.columns)}")
    figure = empty_figure("cost_bars", palette, title=title, height=height)
    at = np.arange(len(costs))
    for colour, (column, name), offset in zip(palette.series, _COSTS.items(), (-0.4, 0.0), strict=False):
        counts = costs[column].to_numpy(dtype=float)
        shares = 100 * counts / total if (total := counts.sum()) else np.zeros_like(counts)
        figure.add_bar(
            x=shares,
            y=at,
            orientation="h",
            offset=offset,
            width=0.38,
            marker={"color": colour, "line": {"width": 0}},
            name=f"{name} ({format_number(int(total))} in all)",
            text=[_percent(share) for share in shares],
            textposition="outside",
            cliponaxis=False,
            customdata=[format_number(int(count)) for count in counts],
            hovertemplate=f"%{{y}}: %{{customdata}} {name} (%{{text}})<extra></extra>",
        )
    figure.update_layout(
        showlegend=True,
        xaxis={"title": {"text": "share of the total, in %"}, "range": (0, 112), "tickvals": [0, 25, 50, 75, 100]},
        yaxis=name_axis(
            costs["step"].astype(str).tolist(), title="", what="step", room=height - 120, columns=32, reverse=True
        )
        | {"ticklabelstandoff": 6},
    )
    return figure


def _percent(share: float) -> str:
    if 0 < share < 0.1:
        return "&lt; 0.1 %"
    return f"{share:.1f} %" if share else "0 %"
