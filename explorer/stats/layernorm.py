"""What LayerNorm measures: mean and standard deviation of one token's features."""

import numpy as np
from jaxtyping import Float, Float64


def token_moments(
    x: Float[np.ndarray, "*axes d_model"],
) -> tuple[Float[np.ndarray, "*axes"], Float[np.ndarray, "*axes"]]:
    """Mean and population standard deviation (correction 0) over d_model, in float64.

    A constant token has standard deviation 0. Right after a LayerNorm with gamma 1 and beta 0 they are 0 and 1.
    """
    wide = x.astype(np.float64)
    return wide.mean(axis=-1), wide.std(axis=-1, ddof=0)


def layer_norm(
    x: Float[np.ndarray, "*axes d_model"],
    gamma: Float[np.ndarray, " d_model"],
    beta: Float[np.ndarray, " d_model"],
    eps: float,
) -> Float64[np.ndarray, "*axes d_model"]:
    """(x - mean) / sqrt(var + eps) * gamma + beta, written out in float64: what the model's own is checked against.

    A constant token becomes beta. 1 2 3 4 with gamma 1, beta 0 and eps 0 starts with -1.5 / sqrt(1.25) = -1.342.

    Source: Ba et al. 2016, "Layer Normalization", section 3.
    """
    centred = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gamma + beta
