"""How far apart two runs are: pure functions on what was recorded. Swapping the two changes no bit but where said."""

from typing import Final

import numpy as np
from jaxtyping import Float, Float64

from explorer.comparison.alignment import ABSENT, Alignment
from explorer.stats.attention import total_variation
from explorer.stats.residual import cosine, distance, l2_norm, relative_distance

TOLERANCE: Final = 1e-5
"""Two runs part where a token's vector differs by more than this share of its length."""


def vectors_apart(
    a: Float[np.ndarray, "slot d_a"] | None, b: Float[np.ndarray, "slot d_b"] | None, n: int
) -> dict[str, Float64[np.ndarray, " slot"]]:
    """How long n vectors are in A and in B, and how far apart: `norm_a`, `norm_b`, `distance`, `relative`, `cosine`.

    `relative` is to `norm_a`: the one of the last three that a swap changes. What a run does not have is None here and
    NaN in the answer. Of vectors of different widths only the norms are there.
    """
    nothing = np.full(n, np.nan)
    measured = {
        "norm_a": nothing if a is None else l2_norm(a),
        "norm_b": nothing if b is None else l2_norm(b),
        "distance": nothing,
        "relative": nothing,
        "cosine": nothing,
    }
    if a is not None and b is not None and a.shape == b.shape:
        measured |= {"distance": distance(a, b), "relative": relative_distance(a, b), "cosine": cosine(a, b)}
    return measured


def attention_moved(
    a: Float[np.ndarray, "head pos_a pos_a"], b: Float[np.ndarray, "head pos_b pos_b"], alignment: Alignment
) -> Float64[np.ndarray, " head"]:
    """Mean over aligned real queries of the total variation of their rows over the keys of both. NaN without a query.

    A key that only one has counts with all its weight: there is none of it in the other. Keys that both have are summed
    apart from the others, so that the order of the others does not matter.
    """
    queries = alignment.shared
    if not queries.any():
        return np.full(len(a), np.nan)
    a, b = a[:, alignment.a[queries]], b[:, alignment.b[queries]]
    both = (alignment.a != ABSENT) & (alignment.b != ABSENT)
    only_a, only_b = alignment.a[alignment.b == ABSENT], alignment.b[alignment.a == ABSENT]
    on_both = total_variation(np.take(a, alignment.a[both], axis=-1), np.take(b, alignment.b[both], axis=-1))
    on_a, on_b = (
        np.take(weights, places, axis=-1).sum(axis=-1, dtype=np.float64)
        for weights, places in ((a, only_a), (b, only_b))
    )
    return (on_both + (on_a + on_b) / 2).mean(axis=-1)
