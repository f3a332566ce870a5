"""Pure functions on recorded arrays. They take and give NumPy, and compute sums in float64."""

from explorer.stats.attention import attention_entropy
from explorer.stats.layernorm import token_moments
from explorer.stats.residual import l2_norm
from explorer.stats.shapes import parameters_and_flops

__all__ = ["attention_entropy", "l2_norm", "parameters_and_flops", "token_moments"]
