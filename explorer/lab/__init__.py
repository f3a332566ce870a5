"""Laboratories: what the architecture does to gradients, measured on encoders of their own.

Each experiment is bounded in time and memory, draws from generators of its own and writes to nothing that is shared.
"""

from explorer.lab.gradients import CHECKPOINTS, MATRICES, GradientNorms, GradientTape, gradient_norms

__all__ = ["CHECKPOINTS", "MATRICES", "GradientNorms", "GradientTape", "gradient_norms"]
