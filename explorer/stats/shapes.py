"""Parameters and floating-point operations, site by site."""

from collections.abc import Mapping
from typing import Final

import pandas as pd

from explorer.config import EncoderConfig
from explorer.tape import SITES

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "embeddings": ("embed.tokens", "embed.positions", "embed.segments"),
    "attention projections": ("attn.q", "attn.k", "attn.v", "attn_out"),
    "scores and weighted sum": ("attn.scores", "attn.z"),
    "feed-forward": ("ff.hidden", "ff_out"),
    "norms": ("embed.norm.out", "norm1.out", "norm2.out", "final_norm.out"),
}
"""Where the cost of an encoder lies: part -> sites, without their layer."""


def parameters_and_flops(config: EncoderConfig, *, batch: int, pos: int) -> Mapping[str, tuple[int, int]]:
    """The parameters that make each site, and the FLOPs of its matrix products: `{"attn.q": (72, 128), ...}`.

    Layer sites are named without their layer: all layers cost the same. A multiply-add counts 2; looking up, adding,
    normalising, softmax and activation are not counted, as in `torch.utils.flop_counter`. Sites that need neither are
    left out. One layer of d_model 8 and d_ff 16 has 600 parameters, for any number of heads.
    """
    d_model, d_ff = config.d_model, config.d_ff
    tokens = batch * pos
    bias = int(config.bias)

    def linear(n_in: int, n_out: int) -> tuple[int, int]:
        return n_in * n_out + bias * n_out, 2 * tokens * n_in * n_out

    norm = (d_model * (1 + bias), 0)
    query_key = (0, 2 * tokens * pos * d_model)  # n_heads * d_head = d_model, so heads cancel out
    costs = {
        "embed.tokens": ((config.vocab_size or 0) * d_model, 0),
        "embed.positions": (config.max_len * d_model if config.positions == "learned" else 0, 0),
        "embed.segments": (config.n_segments * d_model, 0),
        "norm1.out": norm,
        "attn.q": linear(d_model, d_model),
        "attn.k": linear(d_model, d_model),
        "attn.v": linear(d_model, d_model),
        "attn.scores": query_key,
        "attn.z": query_key,
        "attn_out": linear(d_model, d_model),
        "norm2.out": norm,
        "ff.hidden": linear(d_model, d_ff),
        "ff_out": linear(d_ff, d_model),
    }
    if config.embedding_norm:
        costs["embed.norm.out"] = norm
    if config.final_norm:
        costs["final_norm.out"] = norm
    return costs


def count_parameters(config: EncoderConfig) -> int:
    """The number of parameters of an encoder, without building it. Equal to the sum of `numel` once it is built."""
    costs = parameters_and_flops(config, batch=1, pos=1)
    return sum(n * (config.n_layers if f"layers.*.{site}" in SITES else 1) for site, (n, _) in costs.items())


def cost_by_part(shapes: pd.DataFrame) -> pd.DataFrame:
    """Parameters and FLOPs of each part of the encoder, from the table of `Trace.shapes`: part, parameters, flops."""
    part_of = {site: part for part, sites in PARTS.items() for site in sites}
    part = shapes["site"].str.replace(r"^layers\.\d+\.", "", regex=True).map(part_of)
    costs = shapes.groupby(part)[["parameters", "flops"]].sum()
    return costs.reindex(list(PARTS)).rename_axis("part").reset_index()
