"""The parameters of two models, name by name."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from explorer.comparison.sides import union
from explorer.loading import Model

PART = 2**20
"""How many numbers are compared at a time: a table of words in float64 is 100 MB."""


def compare_parameters(model_a: Model, model_b: Model) -> pd.DataFrame:
    """One row a parameter of either: its shapes and sizes, whether it is the same, and by how much it differs.

    `status` is `equal`, `changed`, `other shape`, `only in A` or `only in B`; `largest_difference` is the largest
    |b - a|, in float64, and NaN where the shapes differ. `n_a` and `n_b` are numbers of parameters, <NA> where there is
    none of this name; they sum to those of the models. The seed and the std that stand for an open vocabulary are
    compared too: they are buffers, so they count 0.
    """
    state_a, state_b = model_a.encoder.state_dict(), model_b.encoder.state_dict()
    names = union(list(state_a), list(state_b), {name: _depth(name) for name in [*state_a, *state_b]})
    parameters_a, parameters_b = (dict(model.encoder.named_parameters()) for model in (model_a, model_b))
    rows = []
    for name in names:
        a, b = state_a.get(name), state_b.get(name)
        largest = largest_difference(a, b) if a is not None and b is not None and a.shape == b.shape else np.nan
        rows.append(
            {
                "name": name,
                "shape_a": None if a is None else tuple(a.shape),
                "shape_b": None if b is None else tuple(b.shape),
                "n_a": None if a is None else a.numel() * (name in parameters_a),
                "n_b": None if b is None else b.numel() * (name in parameters_b),
                "status": _status(a, b, largest),
                "largest_difference": largest,
            }
        )
    return pd.DataFrame(rows).astype({"n_a": "Int64", "n_b": "Int64"})


def largest_difference(a: Tensor, b: Tensor) -> float:
    """The largest |b - a| of two tensors of one shape, in float64. Exactly 0 where they are the same tensor."""
    if a.data_ptr() == b.data_ptr() and a.stride() == b.stride() and a.dtype == b.dtype:
        return 0.0
    with torch.inference_mode():
        parts = zip(a.flatten().split(PART), b.flatten().split(PART), strict=True)
        return float(np.max([float((other.double() - one.double()).abs().max()) for one, other in parts]))


def _status(a: Tensor | None, b: Tensor | None, largest: float) -> str:
    if a is None:
        return "only in B"
    if b is None:
        return "only in A"
    if a.shape != b.shape:
        return "other shape"
    return "equal" if largest == 0 else "changed"


def _depth(name: str) -> float:
    """The number of the layer; the embedding comes before all, the final norm after."""
    if name.startswith("layers."):
        return float(name.split(".")[1])
    return -1.0 if name.startswith("embed.") else np.inf
