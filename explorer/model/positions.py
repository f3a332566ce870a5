"""Positions: which place a token has, and the vectors that say so."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def position_ids(key_padding_mask: Bool[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """The position of each token, counted over real tokens, so that padding on either side shifts nobody.

    `pad pad the cat` gives the real tokens 0 and 1, as `the cat pad pad` does. Padding takes its own index, which
    matters only where the mask is switched off.
    """
    real = ~key_padding_mask
    index = torch.arange(key_padding_mask.shape[1], device=key_padding_mask.device).expand(key_padding_mask.shape)
    return torch.where(real, real.long().cumsum(dim=1) - 1, index)


def sinusoidal_positions(n_positions: int, d_model: int) -> Float[Tensor, "{n_positions} {d_model}"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same angle. In float64.

    Row 0 is 0 1 0 1 ...: sine of 0, cosine of 0. An odd width has one sine more than cosines.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """
    pos = torch.arange(n_positions, dtype=torch.float64)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = pos / 10_000 ** (even / d_model)  # [pos, sine]
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]
