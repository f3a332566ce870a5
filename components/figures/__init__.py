"""Figures: arrays and a palette in, a Plotly figure out. No widget, no tensor, no cache."""

from components.figures.layernorm import norm_detail, norm_overview
from components.figures.residual import norm_heatmap, stream_growth
from components.figures.shapes import block_diagram, cost_bars

__all__ = [
    "block_diagram",
    "cost_bars",
    "norm_detail",
    "norm_heatmap",
    "norm_overview",
    "stream_growth",
]
