"""What is written down while an encoder is trained, and the same as tidy tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float32


@dataclass(frozen=True, slots=True)
class Record:
    """One step. Loss, accuracy and gradients are of its batch and of the parameters before they were changed."""

    step: int
    """Counted from 1."""
    loss: float
    """Mean cross-entropy of what is asked, in nats: log(30) = 3.4 for an even guess over the vocabulary."""
    accuracy: float
    """Share of what is asked that is answered right, from 0 to 1."""
    learning_rate: float
    gradient_norms: tuple[float, ...]
    """L2 norm of the gradient of all parameters of a layer, one number a layer."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """How good the encoder is after some steps, on sentences that are the same for every training of a task."""

    step: int
    """Steps made before; 0 for a fresh encoder."""
    loss: float
    accuracy: float
    n_asked: int
    """Number of tokens that were asked something: the denominator of the accuracy and of the weights."""
    weight_on_right: Float32[np.ndarray, "layer head"]
    """Mean attention weight of each head on the key where the answer stands. Read-only."""

    @property
    def best_head(self) -> tuple[int, int]:
        """Layer and head with the largest weight on the right token."""
        layer, head = np.unravel_index(self.weight_on_right.argmax(), self.weight_on_right.shape)
        return int(layer), int(head)


def curves(records: Sequence[Record]) -> pd.DataFrame:
    """One row a step: step, loss, accuracy, learning_rate."""
    names = ["step", "loss", "accuracy", "learning_rate"]
    return pd.DataFrame([[getattr(record, name) for name in names] for record in records], columns=names)


def gradients(records: Sequence[Record]) -> pd.DataFrame:
    """One row a step and layer: step, layer, gradient_norm."""
    rows = [(record.step, layer, norm) for record in records for layer, norm in enumerate(record.gradient_norms)]
    return pd.DataFrame(rows, columns=["step", "layer", "gradient_norm"])
