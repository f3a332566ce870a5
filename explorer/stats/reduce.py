"""What is left of a pattern when tokens are merged to words, or some are hidden. Sums are in float64."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32, Int


def merge_words(
    pattern: Float[np.ndarray, "*axes query key"], spans: Sequence[tuple[int, int]]
) -> Float32[np.ndarray, "*axes word word"]:
    """Attention between words: the sum over the pieces of a key, the mean over the pieces of a query.

    Rows that sum to 1 still do. `spans` are the positions [start, stop) of each word, as of `Batch.word_spans`.

    Raises:
        ValueError: If the spans do not tile the row.

    Source: Clark et al. 2019, "What Does BERT Look At?", section 4.1.
    """
    starts, stops = np.array(spans).T
    if (starts[1:] != stops[:-1]).any() or (starts >= stops).any() or (starts[0], stops[-1]) != (0, pattern.shape[-1]):
        raise ValueError(f"the words must tile the {pattern.shape[-1]} positions of a row; they are {list(spans)}")
    to_words = np.add.reduceat(pattern.astype(np.float64), starts, axis=-1)
    summed = np.add.reduceat(to_words, starts, axis=-2)
    return (summed / (stops - starts)[:, None]).astype(np.float32)


def part_of(
    pattern: Float[np.ndarray, "*axes query key"],
    rows: Int[np.ndarray, " row"],
    cols: Int[np.ndarray, " col"],
    *,
    renormalise: bool = False,
) -> tuple[Float32[np.ndarray, "*axes row col"], Float32[np.ndarray, "*axes row"]]:
    """The named queries and keys of a pattern, and how much weight of each query is on keys that are left out.

    With `renormalise` what is kept of each row sums to 1; a row of which nothing is kept is NaN: it has no direction.
    The weight left out is that of the pattern, either way: 0 where every key is named.
    """
    weights = pattern[..., rows, :].astype(np.float64)
    part, left_out = weights[..., cols], np.delete(weights, cols, axis=-1).sum(axis=-1)
    if renormalise:
        kept = part.sum(axis=-1, keepdims=True)
        part = np.divide(part, kept, out=np.full_like(part, np.nan), where=kept > 0)
    return part.astype(np.float32), left_out.astype(np.float32)
