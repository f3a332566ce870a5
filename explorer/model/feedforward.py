"""The position-wise feed-forward network."""

from collections.abc import Callable
from typing import Final

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from explorer.tape import Tape

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
"""`gelu` is the exact one (with erf), as in BERT."""


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2, with the same weights at every position: no token sees another here.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.3.
    """

    def __init__(self, *, d_model: int, d_ff: int, activation: str, bias: bool) -> None:
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff, bias=bias, device="meta")
        self.linear2 = nn.Linear(d_ff, d_model, bias=bias, device="meta")
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Float[Tensor, "batch pos d_model"], *, tape: Tape) -> Float[Tensor, "batch pos d_model"]:
        hidden = tape("hidden", self.activation(self.linear1(x)))
        return self.linear2(hidden)
