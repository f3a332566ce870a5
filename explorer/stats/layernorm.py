"""What LayerNorm measures: mean and standard deviation of one token's features."""

import numpy as np
from jaxtyping import Float


def token_moments(
    x: Float[np.ndarray, "*axes d_model"],
) -> tuple[Float[np.ndarray, "*axes"], Float[np.ndarray, "*axes"]]:
    """Mean and population standard deviation (correction 0) over d_model, in float64.

    A constant token has standard deviation 0. Right after a LayerNorm with gamma 1 and beta 0 they are 0 and 1.
    """
    wide = x.astype(np.float64)
    return wide.mean(axis=-1), wide.std(axis=-1, ddof=0)
