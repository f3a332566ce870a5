"""Ways to keep softmax from looking at a key, right and wrong ones, and what each fill value becomes in a precision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float64

Scores = Float[np.ndarray, "query key"]
Hidden = Bool[np.ndarray, "query key"]
Weights = Float64[np.ndarray, "query key"]


def softmax(scores: Scores) -> Weights:
    """Each row as weights that sum to 1, in float64. A row of minus infinity alone has none: it is NaN.

    Scores 0 and ln 3 become 1/4 and 3/4.
    """
    wide = scores.astype(np.float64)
    largest = wide.max(axis=-1, keepdims=True)
    powers = np.exp(wide - np.where(np.isfinite(largest), largest, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.full_like(powers, np.nan), where=total > 0)


def minus_infinity(scores: Scores, hidden: Hidden) -> Weights:
    """Right: exp(−∞) is 0, so the other weights share all of the 1. A row without any key is NaN: it has no weights."""
    return softmax(np.where(hidden, -np.inf, scores))


def zero_after(scores: Scores, hidden: Hidden) -> Weights:
    """Wrong: softmax gave hidden keys their share, and it is thrown away. Rows sum to less than 1."""
    return np.where(hidden, 0.0, softmax(scores))


def zero_before(scores: Scores, hidden: Hidden) -> Weights:
    """Wrong: exp(0) is 1, so a hidden key weighs what any key of score 0 weighs."""
    return softmax(np.where(hidden, 0.0, scores))


def nothing(scores: Scores, hidden: Hidden) -> Weights:
    """Nothing is hidden: padding is a key like any other."""
    return softmax(scores)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to hide a key: its name for people, its formula, and what it makes of scores [query, key]."""

    label: str
    formula: str
    weights: Callable[[Scores, Hidden], Weights]
    before: float | None
    """The score that a hidden key gets before softmax; None where it keeps its own."""

    @property
    def right(self) -> bool:
        """Whether hidden keys get exactly 0 and the others all of the 1."""
        return self.before == -np.inf

    def scores(self, scores: Scores, hidden: Hidden) -> Scores:
        """What softmax is given."""
        return scores if self.before is None else np.where(hidden, np.float32(self.before), scores)


WAYS: Final[dict[str, Way]] = {
    "minus_infinity": Way("−∞ before softmax", "softmax(where(hidden, −∞, scores))", minus_infinity, -np.inf),
    "zero_after": Way("0 after softmax", "where(hidden, 0, softmax(scores))", zero_after, None),
    "zero_before": Way("Score 0 before softmax", "softmax(where(hidden, 0, scores))", zero_before, 0.0),
    "nothing": Way("Nothing hidden", "softmax(scores)", nothing, None),
}
"""The right way, and what is done instead, in the order shown."""


def rows_without_a_key(hidden: Hidden) -> Bool[np.ndarray, " query"]:
    """The queries from which every key is hidden: softmax has nothing to share out there."""
    return np.asarray(hidden.all(axis=-1))


FILLS: Final = (-np.inf, -1e9, -1e4)
"""What is written in place of the score of a hidden key."""
PRECISIONS: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def fills(scores: Scores, hidden: Hidden) -> pd.DataFrame:
    """One row a fill value and precision: what torch makes of it when scores and softmax are of that precision.

    The value stands in place of the score, as with `masked_fill`; it is not added to it. `stored` is what a tensor of
    that precision keeps of it: −1e9 becomes −∞ in float16, which ends at 65,504. `masked_fill` is what
    `Tensor.masked_fill` does with it: `fills`, or its refusal in torch's own words. Then, over the rows that have a
    key left: `largest_hidden`, the largest weight on a hidden key, and the smallest and largest sum of a row. Last
    `no_key`: what a row becomes in which all keys are hidden. It is `NaN`, or a weight for every key, which looks like
    an answer and is none.
    """
    rows = []
    kept = ~rows_without_a_key(hidden)
    where = torch.from_numpy(hidden)
    for fill in FILLS:
        for name, dtype in PRECISIONS.items():
            narrow = torch.tensor(scores).to(dtype)
            stored = torch.tensor(fill, dtype=dtype)
            weights = torch.where(where, stored, narrow).softmax(dim=-1).double().numpy()[kept]
            empty = stored.expand(scores.shape[-1]).softmax(dim=-1).double().numpy()
            sums = weights.sum(axis=-1)
            rows.append(
                {
                    "fill": fill,
                    "precision": name,
                    "stored": stored.item(),
                    "masked_fill": _masked_fill(narrow, where, fill),
                    "largest_hidden": weights[hidden[kept]].max(initial=0.0),
                    "smallest_sum": sums.min(initial=np.inf) if len(sums) else np.nan,
                    "largest_sum": sums.max(initial=-np.inf) if len(sums) else np.nan,
                    "no_key": "NaN" if np.isnan(empty).any() else f"{empty.max():.4g} on each of {len(empty)} keys",
                }
            )
    return pd.DataFrame(rows)


def _masked_fill(scores: torch.Tensor, hidden: torch.Tensor, fill: float) -> str:
    try:
        scores.masked_fill(hidden, fill)
    except RuntimeError as error:
        return f"refuses: {error}"
    return "fills"
