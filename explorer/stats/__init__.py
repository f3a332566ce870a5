"""Pure functions on recorded arrays. They take and give NumPy, and compute sums in float64."""

from explorer.stats.attention import attention_entropy
from explorer.stats.layernorm import layer_norm, token_moments
from explorer.stats.residual import l2_norm
from explorer.stats.shapes import cost_by_part, count_parameters, parameters_and_flops

__all__ = [
    "attention_entropy",
    "cost_by_part",
    "count_parameters",
    "l2_norm",
    "layer_norm",
    "parameters_and_flops",
    "token_moments",
]
