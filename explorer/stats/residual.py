"""The size of the residual stream and of what is added to it."""

import numpy as np
from jaxtyping import Float


def l2_norm(x: Float[np.ndarray, "*axes d_model"]) -> Float[np.ndarray, "*axes"]:
    """Euclidean length of each token's vector, in float64. sqrt(d_model) right after a fresh LayerNorm."""
    return np.linalg.norm(x.astype(np.float64), axis=-1)
