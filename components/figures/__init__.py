"""Figures: arrays and a palette in, a Plotly figure out. No widget, no tensor, no cache."""

from components.figures.directions import cosine_curves
from components.figures.distribution import distribution
from components.figures.gradients import gradients_against_depth, gradients_by_layer
from components.figures.growth import growth_curves
from components.figures.layernorm import difference_bars, gain_curves, norm_detail, token_strips
from components.figures.paths import token_paths
from components.figures.placements import compared_over_depth
from components.figures.proof import residue_bars
from components.figures.residual import stream_growth
from components.figures.shapes import cost_bars
from components.figures.training import Curves, training_curves

__all__ = [
    "Curves",
    "compared_over_depth",
    "cosine_curves",
    "cost_bars",
    "difference_bars",
    "distribution",
    "gain_curves",
    "gradients_against_depth",
    "gradients_by_layer",
    "growth_curves",
    "norm_detail",
    "residue_bars",
    "stream_growth",
    "token_paths",
    "token_strips",
    "training_curves",
]
