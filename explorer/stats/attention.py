"""Statistics of attention patterns."""

import numpy as np
from jaxtyping import Bool, Float


def attention_entropy(
    pattern: Float[np.ndarray, "batch head query key"],
    key_padding_mask: Bool[np.ndarray, "batch key"],
    *,
    causal: bool = False,
) -> Float[np.ndarray, "batch head query"]:
    """Shannon entropy of each attention row, in nats.

    0 when a query looks at a single key; log(n) when it spreads evenly over the n real
    keys of its sequence, if `causal` over the n at or before it: always 0 for the first.
    Rows of padded queries are NaN: they are not part of the text.

    Raises:
        ValueError: If a hidden key has weight, i.e. the mask is not the one of this run.

    Source: Clark et al. 2019, "What Does BERT Look At?", section 3.3.
    """
    if key_padding_mask.any() and (pattern * key_padding_mask[:, None, None, :]).any():
        raise ValueError("a padded key has weight: the mask is not the one of this run, or the run had its mask off")
    if causal and np.triu(pattern, k=1).any():
        raise ValueError("a key after its query has weight: the run was not causal")
    return np.where(key_padding_mask[:, None, :], np.nan, row_entropy(pattern))


def row_entropy(pattern: Float[np.ndarray, "*axes key"]) -> Float[np.ndarray, "*axes"]:
    """Entropy of each row over all its keys, in nats, with 0 log 0 = 0."""
    weights = pattern.astype(np.float64)
    return -np.sum(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0), axis=-1)


def total_variation(p: Float[np.ndarray, "*axes key"], q: Float[np.ndarray, "*axes key"]) -> Float[np.ndarray, "*axes"]:
    """Half the sum of absolute differences of two rows of weights, in float64: the weight that would have to move."""
    return np.abs(q.astype(np.float64) - p).sum(axis=-1) / 2
