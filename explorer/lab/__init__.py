"""Laboratories: what the architecture does to gradients and to training, measured on encoders of their own.

Each experiment is bounded in time and memory, draws from generators of its own and writes to nothing that is shared.
"""

from explorer.lab.gradient_race import (
    POST_LN_SLOPE,
    PRE_LN_SLOPE,
    THEORY,
    RaceResult,
    RaceSettings,
    gradient_race,
    last_layer_table,
    layer_table,
    log_log_slope,
    slopes,
)
from explorer.lab.gradients import CHECKPOINTS, MATRICES, GradientNorms, GradientTape, gradient_norms

__all__ = [
    "CHECKPOINTS",
    "MATRICES",
    "POST_LN_SLOPE",
    "PRE_LN_SLOPE",
    "THEORY",
    "GradientNorms",
    "GradientTape",
    "RaceResult",
    "RaceSettings",
    "gradient_norms",
    "gradient_race",
    "last_layer_table",
    "layer_table",
    "log_log_slope",
    "slopes",
]
