"""Token ids to the vectors that enter the first layer."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from explorer.model.norms import LayerNorm
from explorer.tape import Tape


class OpenVocabulary(nn.Module):
    """A normal vector for any token id, drawn from the seed and the id: a table without end, no row of it stored.

    A word has the same vector in every text, and two words share one only if they share an id. It has no parameters;
    `seed` and `std` (the standard deviation) are buffers, so that they travel with the other weights.
    """

    seed: Tensor
    std: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("seed", torch.tensor(0))
        self.register_buffer("std", torch.tensor(1.0))

    def forward(self, token_ids: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        ids, row = token_ids.unique(return_inverse=True)
        seed = int(self.seed)
        table = np.stack([draw_vector(seed, token_id, self.d_model) for token_id in ids.tolist()])
        return (torch.from_numpy(table).to(self.std) * self.std)[row]


def draw_vector(seed: int, token_id: int, d_model: int) -> np.ndarray:
    """The standard normal vector of one token id, `[d_model]`. The generator is keyed by the pair (seed, id) alone."""
    generator = np.random.Generator(np.random.Philox(key=np.array([seed, token_id], dtype=np.uint64)))
    return generator.standard_normal(d_model, dtype=np.float32)


class Embeddings(nn.Module):
    """Token vectors (times sqrt(d_model) where asked) + positions + segments, and a LayerNorm where there is one."""

    def __init__(
        self,
        *,
        tokens: nn.Module,
        positions: nn.Module | None,
        segments: nn.Module | None,
        norm: LayerNorm | None,
        scale: float,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = norm
        self.scale = scale

    def forward(
        self,
        token_ids: Int[Tensor, "batch pos"],
        position_ids: Int[Tensor, "batch pos"],
        segment_ids: Int[Tensor, "batch pos"],
        *,
        tape: Tape,
    ) -> Float[Tensor, "batch pos d_model"]:
        x = self.tokens(token_ids)
        x = tape("tokens", x if self.scale == 1 else x * self.scale)
        if self.positions is not None:
            x = x + tape("positions", self.positions(position_ids))
        if self.segments is not None:
            x = x + tape("segments", self.segments(segment_ids))
        x = tape("sum", x)
        return x if self.norm is None else self.norm(x, tape=tape.scope("norm"))


class FixedPositions(nn.Module):
    """A table of positions that is computed, not learned."""

    table: Tensor

    def __init__(self, table: Float[Tensor, "pos d_model"]) -> None:
        super().__init__()
        self.register_buffer("table", table, persistent=False)

    def forward(self, position_ids: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return self.table[position_ids]


def embedding_scale(d_model: int, scaled: bool) -> float:
    """sqrt(d_model) where embeddings are scaled (Vaswani et al. 2017, section 3.4), else 1."""
    return math.sqrt(d_model) if scaled else 1.0
