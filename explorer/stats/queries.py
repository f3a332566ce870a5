"""How one query meets the keys, before the softmax."""

import math

import numpy as np
from jaxtyping import Float


def dot_products(
    q: Float[np.ndarray, " d_head"], k: Float[np.ndarray, "key d_head"]
) -> Float[np.ndarray, "key d_head"]:
    """What each dimension adds to the score of each key: q[d] k[key, d] / sqrt(d_head), in float64.

    The sum over d_head is the score before the softmax.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
    """
    return q.astype(np.float64) * k / math.sqrt(len(q))
