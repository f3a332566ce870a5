"""LayerNorm."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from explorer.tape import Tape


def layer_norm(
    x: Float[Tensor, "*axes d_model"],
    gamma: Float[Tensor, " d_model"],
    beta: Float[Tensor, " d_model"] | None,
    eps: float,
) -> Float[Tensor, "*axes d_model"]:
    """(x - mean) / sqrt(var + eps) * gamma + beta, over the features of one token.

    A token whose features are all equal becomes beta. The variance is that of the population (divided by d_model).

    Source: Ba et al. 2016, "Layer Normalization", section 3.
    """
    return F.layer_norm(x, gamma.shape, gamma, beta, eps)


class LayerNorm(nn.Module):
    """Owns gamma (`weight`), beta (`bias`) and eps of one LayerNorm, and records what goes in and comes out."""

    def __init__(self, d_model: int, *, eps: float, bias: bool) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(d_model, device="meta"))
        self.bias = nn.Parameter(torch.empty(d_model, device="meta")) if bias else None

    def forward(self, x: Float[Tensor, "batch pos d_model"], *, tape: Tape) -> Float[Tensor, "batch pos d_model"]:
        x = tape("in", x)
        return tape("out", layer_norm(x, self.weight, self.bias, self.eps))
