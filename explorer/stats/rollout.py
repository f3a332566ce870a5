"""Attention of all heads and layers together. Each function takes one sentence with its padding removed."""

import numpy as np
from jaxtyping import Bool, Float


def real_part(
    pattern: Float[np.ndarray, "*axes query key"], padding: Bool[np.ndarray, " key"]
) -> Float[np.ndarray, "*axes real real"]:
    """The rows and columns of real tokens. With the mask on, rows still sum to 1: padded keys had weight 0."""
    real = np.flatnonzero(~padding)
    return pattern[..., real[:, None], real[None, :]]


def residual_attention(mean: Float[np.ndarray, "*axes query key"]) -> Float[np.ndarray, "*axes query key"]:
    """(A + I) / 2 with rows made to sum to 1: the residual path counts as attention to oneself.

    Source: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
    """
    mixed = mean.astype(np.float64) / 2 + np.eye(mean.shape[-1]) / 2
    return mixed / mixed.sum(axis=-1, keepdims=True)


def attention_rollout(
    patterns: Float[np.ndarray, "layer head query key"],
) -> Float[np.ndarray, "layer query key"]:
    """How much of each input token is in each position after each layer, if attention mixed tokens and nothing else.

    R[0] = Ã[0], R[l] = Ã[l] R[l − 1], with Ã = (A + I) / 2 and A the mean over heads. Rows sum to 1. Where every head
    looks at its own token only, R is the identity at every depth.

    Source: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
    """
    steps = residual_attention(patterns.mean(axis=1, dtype=np.float64))
    rollout = [steps[0]]
    for step in steps[1:]:
        rollout.append(step @ rollout[-1])
    return np.stack(rollout)
