"""Figures: arrays and a palette in, a Plotly figure out. No widget, no tensor, no cache."""

from components.figures.layernorm import difference_bars, gain_curves, norm_detail, token_strips
from components.figures.proof import residue_bars
from components.figures.residual import norm_heatmap, stream_growth
from components.figures.shapes import block_diagram, cost_bars

__all__ = [
    "block_diagram",
    "cost_bars",
    "difference_bars",
    "gain_curves",
    "norm_detail",
    "norm_heatmap",
    "residue_bars",
    "stream_growth",
    "token_strips",
]
