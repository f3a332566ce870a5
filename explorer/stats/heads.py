"""What each head does, as one number a head: where its real queries look, on average."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from explorer.stats.attention import row_entropy


@dataclass(frozen=True, slots=True)
class Score:
    """A score of a head: its name for people, and its formula. w[q, k] is the weight of key k in the row of query q."""

    label: str
    formula: str


SCORES: Final[dict[str, Score]] = {
    "entropy": Score("Entropy", "mean over queries q of −Σₖ w[q, k] ln w[q, k], in nats"),
    "distance": Score("Mean distance", "mean over queries q of Σₖ w[q, k] |q − k|, in tokens"),
    "self": Score("On itself", "mean over queries q of w[q, q]"),
    "previous": Score("On the previous token", "mean over queries q that have one of w[q, q − 1]"),
    "next": Score("On the next token", "mean over queries q that have one of w[q, q + 1]"),
    "cls": Score("On [CLS]", "mean over queries q of w[q, CLS]"),
    "sep": Score("On [SEP]", "mean over queries q of Σₖ w[q, k] over all k that are [SEP]"),
    "punctuation": Score("On punctuation", "mean over queries q of Σₖ w[q, k] over all k that are punctuation"),
}
"""Every score, in the order shown. Queries are the real ones; padding is no query and no neighbour."""


def head_scores(
    pattern: Float[np.ndarray, "batch head query key"],
    key_padding_mask: Bool[np.ndarray, "batch key"],
    roles: Mapping[str, Bool[np.ndarray, "batch key"]],
    *,
    causal: bool = False,
) -> dict[str, Float[np.ndarray, "batch head"]]:
    """Each of `SCORES` for each sentence and head. `roles` says which keys are `cls`, `sep` and `punctuation`.

    A head that only looks one token back has 1 on the previous token, 0 on itself, distance 1 (but for the first
    query, which has none before it). NaN where no query has what a score asks for, as in a text of one token; if
    `causal` no query has a next token, as it is hidden.

    Source: Clark et al. 2019, "What Does BERT Look At?", sections 3.1 to 3.3.
    """
    real = ~key_padding_mask
    weights = pattern.astype(np.float64)
    position = np.arange(weights.shape[-1])
    distance = np.abs(position[:, None] - position[None, :])

    def mean_over(queries: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Mean of `[batch, head, query]` over the queries that count, `[batch, query]`."""
        counted = queries[:, None, :]
        total = np.where(counted, values, 0.0).sum(axis=-1)
        number = np.broadcast_to(counted, values.shape).sum(axis=-1)
        return np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)

    def neighbour(step: int) -> np.ndarray:
        """Mean weight on the key `step` places away, over queries where that key is real."""
        there = np.zeros_like(real)
        values = np.zeros(weights.shape[:-1])
        inside = position[(position + step >= 0) & (position + step < len(position))]
        there[:, inside] = real[:, inside] & real[:, inside + step]
        values[..., inside] = weights[..., inside, inside + step]
        return mean_over(there, values)

    scores = {
        "entropy": mean_over(real, row_entropy(pattern)),
        "distance": mean_over(real, (weights * distance).sum(axis=-1)),
        "self": mean_over(real, np.diagonal(weights, axis1=-2, axis2=-1)),
        "previous": neighbour(-1),
        "next": np.full(weights.shape[:2], np.nan) if causal else neighbour(+1),
    }
    for role in ("cls", "sep", "punctuation"):
        scores[role] = mean_over(real, (weights * roles[role][:, None, None, :]).sum(axis=-1))
    return scores
