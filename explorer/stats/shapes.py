"""Shapes, parameters and floating-point operations: site by site, step by step, and how they grow."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

import pandas as pd

from explorer.config import LIMITS, EncoderConfig, nearest_divisor
from explorer.precision import Precision, dtype_of
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


Step = tuple[str, str, str | None]
"""What is done, the axes of what it gives, and the site that records it where there is one (without its layer)."""

STREAM: Final = "batch pos d_model"
SQUARE: Final = "batch head query key"

SCORES: Final[Step] = ("scores q · k / √d_head", SQUARE, "attn.scores")
ROW_MASK: Final[Step] = ("mask, one row a sentence", "batch 1 1 key", None)
TRIANGLE_MASK: Final[Step] = ("mask, one triangle for all sentences", "1 1 query key", None)
SQUARE_MASK: Final[Step] = ("mask, padding and triangle of each sentence", "batch 1 query key", None)
ATTENTION: Final[tuple[Step, ...]] = (
    ("project to q, k and v", "batch pos 3·d_model", None),
    ("split q into heads", "batch head query d_head", "attn.q"),
    ("split k into heads", "batch head key d_head", "attn.k"),
    ("split v into heads", "batch head key d_head", "attn.v"),
    SCORES,
    ROW_MASK,
    ("mask broadcast onto the scores", SQUARE, "attn.scores"),
    ("softmax over keys", SQUARE, "attn.pattern"),
    ("weighted sum of v", "batch head query d_head", "attn.z"),
    ("concatenate heads", STREAM, None),
    ("project through out_proj", STREAM, "attn_out"),
)
FEED_FORWARD: Final[tuple[Step, ...]] = (
    ("widen to d_ff", "batch pos d_ff", None),
    ("activation", "batch pos d_ff", "ff.hidden"),
    ("narrow to d_model", STREAM, "ff_out"),
)
LAYER_STEPS: Final[dict[str, tuple[Step, ...]]] = {
    "post": (
        *ATTENTION,
        ("add to the stream, attention", STREAM, "norm1.in"),
        ("LayerNorm 1", STREAM, "norm1.out"),
        *FEED_FORWARD,
        ("add to the stream, feed-forward", STREAM, "norm2.in"),
        ("LayerNorm 2", STREAM, "norm2.out"),
    ),
    "pre": (
        ("LayerNorm 1", STREAM, "norm1.out"),
        *ATTENTION,
        ("add to the stream, attention", STREAM, "resid_mid"),
        ("LayerNorm 2", STREAM, "norm2.out"),
        *FEED_FORWARD,
        ("add to the stream, feed-forward", STREAM, "resid_post"),
    ),
}
"""The steps of one layer of each placement, in order."""

PAID_AT: Final[dict[str, tuple[str, ...]]] = {
    "project to q, k and v": ("attn.q", "attn.k", "attn.v"),
    "scores q · k / √d_head": ("attn.scores",),
    "weighted sum of v": ("attn.z",),
    "project through out_proj": ("attn_out",),
    "LayerNorm 1": ("norm1.out",),
    "LayerNorm 2": ("norm2.out",),
    "widen to d_ff": ("ff.hidden",),
    "narrow to d_model": ("ff_out",),
    "token vectors": ("embed.tokens",),
    "position vectors": ("embed.positions",),
    "segment vectors": ("embed.segments",),
    "LayerNorm of the embeddings": ("embed.norm.out",),
    "final LayerNorm": ("final_norm.out",),
}
"""Which steps have parameters or matrix products: those of these sites. The others only move, add or look up."""

N_BYTES: Final = {"token ids": 8, ROW_MASK[0]: 1, TRIANGLE_MASK[0]: 1, SQUARE_MASK[0]: 1}
"""Bytes of one number: an int64, a bool. All others are in the precision of the run."""


def steps(
    config: EncoderConfig,
    *,
    batch: int,
    pos: int,
    masked: bool = True,
    causal: bool = False,
    precision: Precision = "float32",
) -> pd.DataFrame:
    """Every step from token ids to the output, also those that no site records: splitting, broadcasting, adding.

    Columns: step, layer (<NA> outside the stack), site (missing where nothing is recorded), axes, shape, bytes of what
    the step gives, parameters, flops (a multiply-add counts 2), and the share of each in all. `masked` is whether
    there is padding that the mask hides, `causal` whether later tokens are hidden: where nothing is to hide an encoder
    skips the mask. Splitting, concatenating and broadcasting copy nothing or little, so the bytes are those of the
    shape, not of new memory.

    The parameters add up to those of the encoder, the FLOPs to what `torch.utils.flop_counter` counts.
    """
    costs = parameters_and_flops(config, batch=batch, pos=pos)
    sizes = {
        **{"batch": batch, "head": config.n_heads, "1": 1, "d_head": config.d_head},
        **dict.fromkeys(("pos", "query", "key"), pos),
        **{"d_model": config.d_model, "3·d_model": 3 * config.d_model, "d_ff": config.d_ff},
    }
    n_bytes = dtype_of(precision).itemsize
    rows = []
    for layer, (step, axes, site) in _walk(config, masked, causal and pos > 1):
        shape = tuple(sizes[axis] for axis in axes.split())
        paid = [costs[name] for name in PAID_AT.get(step, ())]
        rows.append(
            {
                "step": step,
                "layer": layer,
                "site": site if layer is None or site is None else f"layers.{layer}.{site}",
                "axes": axes,
                "shape": shape,
                "bytes": math.prod(shape) * N_BYTES.get(step, n_bytes),
                "parameters": sum(parameters for parameters, _ in paid),
                "flops": sum(flops for _, flops in paid),
            }
        )
    table = pd.DataFrame(rows).astype({"layer": "Int64"})
    for name in ("parameters", "flops"):
        table[f"{name}_share"] = table[name] / table[name].sum()
    return table


def _walk(config: EncoderConfig, masked: bool, causal: bool) -> Iterator[tuple[int | None, Step]]:
    """The steps with their layer, in the order of the forward pass. A last step gives the output."""
    before: list[tuple[bool, Step]] = [
        (True, ("token ids", "batch pos", None)),
        (True, ("token vectors", STREAM, None if config.scale_embeddings else "embed.tokens")),
        (config.scale_embeddings, ("times √d_model", STREAM, "embed.tokens")),
        (config.positions != "none", ("position vectors", STREAM, "embed.positions")),
        (config.n_segments > 0, ("segment vectors", STREAM, "embed.segments")),
        (True, ("sum of the embeddings", STREAM, "embed.sum")),
        (config.embedding_norm, ("LayerNorm of the embeddings", STREAM, "embed.norm.out")),
    ]
    yield from ((None, step) for there, step in before if there)
    for layer in range(config.n_layers):
        for step in LAYER_STEPS[config.norm_placement]:
            if (masked or causal) and step == SCORES:
                step = (*step[:2], None)  # what is recorded has the mask on it
            if causal and step == ROW_MASK:
                step = SQUARE_MASK if masked else TRIANGLE_MASK
            if masked or causal or not step[0].startswith("mask"):
                yield layer, step
    if config.final_norm:
        yield None, ("final LayerNorm", STREAM, "final_norm.out")


Size = Literal["length", "width", "depth"]


def growth(
    config: EncoderConfig,
    over: Size,
    values: Sequence[int],
    *,
    batch: int,
    pos: int,
    precision: Precision = "float32",
) -> pd.DataFrame:
    """What an encoder costs as one size grows and all else is held: one row a value.

    Over `length` pos is the value; over `depth` n_layers; over `width` d_model, where d_ff keeps its ratio to d_model
    and n_heads its number, or the nearest that divides d_model. Columns: value; parameters of all, of attention
    (4 D^2 a layer, and biases), of feed-forward (2 D D_ff, and biases); flops of the projections, of scores and
    weighted sum, of attention (both), of feed-forward; bytes of all attention weights. Twice the length is four times
    the bytes; twice the width is four times the weights of a layer.

    Raises:
        ConfigError: If a value makes an encoder that cannot be built.
    """
    rows = []
    for value in values:
        grown = _grown(config, over, value)
        n_pos = value if over == "length" else pos
        costs = parameters_and_flops(grown, batch=batch, pos=n_pos)
        of = {part: [costs[site] for site in sites if site in costs] for part, sites in PARTS.items()}
        parameters, flops = ({part: grown.n_layers * sum(cost[i] for cost in of[part]) for part in of} for i in (0, 1))
        rows.append(
            {
                "value": value,
                "parameters": count_parameters(grown),
                "attention_parameters": parameters["attention projections"],
                "feed_forward_parameters": parameters["feed-forward"],
                "projection_flops": flops["attention projections"],
                "score_flops": flops["scores and weighted sum"],
                "attention_flops": flops["attention projections"] + flops["scores and weighted sum"],
                "feed_forward_flops": flops["feed-forward"],
                "attention_bytes": dtype_of(precision).itemsize * grown.n_layers * batch * grown.n_heads * n_pos**2,
            }
        )
    return pd.DataFrame(rows)


def _grown(config: EncoderConfig, over: Size, value: int) -> EncoderConfig:
    if over == "depth":
        return replace(config, n_layers=value)
    if over == "width":
        return replace(
            config, d_model=value, d_ff=_scaled_d_ff(config, value), n_heads=nearest_divisor(value, config.n_heads)
        )
    return config


def crossover_length(config: EncoderConfig) -> int:
    """The number of tokens from which attention, projections included, costs more FLOPs than feed-forward.

    A layer of T tokens costs 8 T D^2 + 4 T^2 D in attention and 4 T D D_ff in feed-forward, so attention is above
    from T = D_ff - 2 D + 1 on: 769 for MiniLM, with D 384 and D_ff 1536. From the first token where D_ff is at most
    2 D. Scores and weighted sum alone (4 T^2 D) pass feed-forward from D_ff + 1 tokens on.
    """
    return max(1, config.d_ff - 2 * config.d_model + 1)


def crossover_width(config: EncoderConfig, pos: int) -> int | None:
    """The largest d_model up to which attention costs more FLOPs than feed-forward, at this length and ratio of d_ff.

    With T tokens that is where D_ff - 2 D is still below T: up to 7 with 16 tokens and D_ff = 4 D. None where there is
    no such width, or attention costs more at every width.
    """
    widths = range(1, LIMITS["d_model"][1] + 1)
    above = [width for width in widths if _scaled_d_ff(config, width) - 2 * width < pos]
    return above[-1] if above and above[-1] < widths[-1] else None


def _scaled_d_ff(config: EncoderConfig, d_model: int) -> int:
    """The feed-forward width of the same ratio to another d_model."""
    return max(1, round(d_model * config.d_ff / config.d_model))
