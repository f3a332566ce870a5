"""Multi-head self-attention."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from explorer.tape import Tape


def split_heads(x: Float[Tensor, "batch pos d_model"], n_heads: int) -> Float[Tensor, "batch head pos d_head"]:
    """The same numbers, cut into heads: head h has features h * d_head to (h + 1) * d_head - 1."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(z: Float[Tensor, "batch head pos d_head"]) -> Float[Tensor, "batch pos d_model"]:
    """The heads side by side again: the inverse of `split_heads`."""
    return z.transpose(1, 2).flatten(2)


def attention_mask(
    key_padding_mask: Bool[Tensor, "batch key"] | None,
    *,
    causal: bool,
    n_pos: int,
    device: torch.device | None = None,
) -> Bool[Tensor, "#batch 1 #query key"] | None:
    """Which keys are hidden from which queries, for all heads alike: padding, and where `causal` all later keys.

    None where nothing is hidden. Axes along which it is the same have size 1. It is on the device of the padding mask,
    without one on `device`.
    """
    padding = None
    if key_padding_mask is not None and key_padding_mask.any():
        padding = key_padding_mask[:, None, None, :]
        device = padding.device
    if not causal or n_pos == 1:
        return padding
    later = torch.ones(1, 1, n_pos, n_pos, dtype=torch.bool, device=device).triu(diagonal=1)
    return later if padding is None else padding | later


def scaled_scores(
    q: Float[Tensor, "batch head query d_head"], k: Float[Tensor, "batch head key d_head"]
) -> Float[Tensor, "batch head query key"]:
    """q . k / sqrt(d_head), of every key, whether it is hidden or not.

    The queries are scaled, not the scores: query x d_head products instead of query x key.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
    """
    return (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)


def masked_scores(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    hidden: Bool[Tensor, "#batch 1 #query key"] | None,
) -> Float[Tensor, "batch head query key"]:
    """q . k / sqrt(d_head), and minus infinity where the key is hidden: see `attention_mask`."""
    scores = scaled_scores(q, k)
    return scores if hidden is None else torch.where(hidden, -torch.inf, scores)


def attention_pattern(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    hidden: Bool[Tensor, "#batch 1 #query key"] | None = None,
) -> Float[Tensor, "batch head query key"]:
    """How much each query attends to each key. Each row sums to 1; a hidden key gets exactly 0."""
    return masked_scores(q, k, hidden).softmax(dim=-1)


class SelfAttention(nn.Module):
    """Owns the projections. `in_proj` holds those of q, k and v one above the other, so that one product makes all."""

    def __init__(self, *, d_model: int, n_heads: int, bias: bool) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=bias, device="meta")
        self.out_proj = nn.Linear(d_model, d_model, bias=bias, device="meta")

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        hidden: Bool[Tensor, "#batch 1 #pos pos"] | None,
        *,
        tape: Tape,
    ) -> Float[Tensor, "batch pos d_model"]:
        q, k, v = (split_heads(part, self.n_heads) for part in self.in_proj(x).chunk(3, dim=-1))
        q, k, v = tape("q", q), tape("k", k), tape("v", v)
        scores = tape("scores", masked_scores(q, k, hidden))
        pattern = tape("pattern", scores.softmax(dim=-1))
        z = tape("z", pattern @ v)
        return self.out_proj(merge_heads(z))
