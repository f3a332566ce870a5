"""Attention of all heads and layers together. Each function takes one sentence with its padding removed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

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


def layer_mean(patterns: Float[np.ndarray, "layer head query key"]) -> Float[np.ndarray, "layer query key"]:
    """The mean over the heads of each layer. Rows sum to 1."""
    return patterns.mean(axis=1, dtype=np.float64)


def layer_max(patterns: Float[np.ndarray, "layer head query key"]) -> Float[np.ndarray, "layer query key"]:
    """The largest weight that any head of the layer gives. Rows sum to 1 or more: they are no weights."""
    return patterns.max(axis=1).astype(np.float64)


def layer_residual(patterns: Float[np.ndarray, "layer head query key"]) -> Float[np.ndarray, "layer query key"]:
    """The mean over the heads of each layer, half of it replaced by the residual path. Rows sum to 1."""
    return residual_attention(layer_mean(patterns))


def attention_rollout(
    patterns: Float[np.ndarray, "layer head query key"],
) -> Float[np.ndarray, "layer query key"]:
    """How much of each input token is in each position after each layer, if attention mixed tokens and nothing else.

    R[0] = Ã[0], R[l] = Ã[l] R[l − 1], with Ã = (A + I) / 2 and A the mean over heads. Rows sum to 1. Where every head
    looks at its own token only, R is the identity at every depth.

    Source: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
    """
    return _products(layer_residual(patterns))


def attention_product(
    patterns: Float[np.ndarray, "layer head query key"],
) -> Float[np.ndarray, "layer query key"]:
    """Rollout without the residual path: P[0] = A[0], P[l] = A[l] P[l − 1], with A the mean over heads. Rows sum to 1.

    Where every query of a layer looks alike, all rows are equal from there on.
    """
    return _products(layer_mean(patterns))


def _products(steps: Float[np.ndarray, "layer query key"]) -> Float[np.ndarray, "layer query key"]:
    """Each layer times all layers before it."""
    products = [steps[0]]
    for step in steps[1:]:
        products.append(step @ products[-1])
    return np.stack(products)


@dataclass(frozen=True, slots=True)
class Sum:
    """One way to see all heads of a layer together: its name for people, its formula, and the function."""

    label: str
    formula: str
    function: Callable[[np.ndarray], np.ndarray]
    """`[layer, head, query, key]` of one sentence, padding removed, to `[layer, query, key]`."""
    over_layers: bool = False
    """Whether a layer's matrix is of all layers up to it, so that its keys are input tokens."""

    def of(self, patterns: Iterable[Float[np.ndarray, "head query key"]]) -> Float[np.ndarray, "query key"]:
        """The matrix of the last of these layers. `over_layers` they must be all from layer 0 on."""
        return self.function(np.stack(list(patterns)))[-1]


SUMS: Final[dict[str, Sum]] = {
    "mean": Sum("Mean of the layer's heads", "A = 1/H Σₕ wₕ", layer_mean),
    "maximum": Sum("Maximum of the layer's heads", "maxₕ wₕ[q, k]; rows do not sum to 1", layer_max),
    "residual": Sum("Mean with the residual path", "Ã = (A + I) / 2", layer_residual),
    "rollout": Sum("Attention rollout", "R[l] = Ã[l] R[l − 1], R[0] = Ã[0]", attention_rollout, over_layers=True),
    "product": Sum(
        "Product without the residual path", "P[l] = A[l] P[l − 1], P[0] = A[0]", attention_product, over_layers=True
    ),
}
"""Every sum, in the order shown. wₕ is the pattern of head h, H the number of heads. All rows sum to 1 but those of
`maximum`, if padding was removed first."""
