"""Gradients at the start of training, against depth and for both norm placements: the experiment of Xiong et al."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from explorer.config import EncoderConfig, NormPlacement, check_count, check_option
from explorer.errors import ConfigError, MemoryLimitError
from explorer.lab.gradients import GradientNorms, gradient_norms
from explorer.loading import build
from explorer.run import estimate_bytes
from explorer.weights.seeded import INITIALISATIONS, MAX_SEED, Initialisation, vector_std

POST_LN_SLOPE: Final = 0.0
"""Of log norm against log depth: the bound for Post-LN, d √(ln d), does not know the depth.

Source: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", theorem 1.
"""

PRE_LN_SLOPE: Final = -0.5
"""Of log norm against log depth: the bound for Pre-LN, d √(ln d / L), falls with the root of the depth L.

Source: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", theorem 1.
"""

THEORY: Final[dict[NormPlacement, float]] = {"post": POST_LN_SLOPE, "pre": PRE_LN_SLOPE}

MAX_DEPTH: Final = 24
MAX_WIDTH: Final = 256
MAX_POS: Final = 128
MAX_TOKENS: Final = 4_096
MAX_RESULTS: Final = 60
MAX_BYTES: Final = 2**30

FLOAT_BYTES: Final = 4

VOCAB_SIZE: Final = 1_000
PAD_ID, MASK_ID, FIRST_WORD_ID = 0, 1, 2
MASKED_SHARE: Final = 0.15
"""Of the tokens of a sentence, as in BERT: Devlin et al. 2019, section 3.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSettings:
    """Everything that fixes a race. The defaults take about 1.5 CPU seconds a seed.

    Each sentence has `n_pos` positions, of which at least half are real. d_ff is 4 times d_model.

    Raises:
        ConfigError: If a value is out of bounds. The message names the value and the nearest good one.
        MemoryLimitError: If the largest step would need more than 1 GiB.
    """

    depths: tuple[int, ...] = (2, 4, 6, 8, 12)
    placements: tuple[NormPlacement, ...] = ("post", "pre")
    seeds: tuple[int, ...] = (0,)
    init: Initialisation = "xavier"
    d_model: int = 128
    n_heads: int = 4
    n_sentences: int = 16
    n_pos: int = 32

    def __post_init__(self) -> None:
        for name in ("depths", "placements", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ConfigError(f"{name} must have at least one value, and none twice; not {values!r}")
        for depth in self.depths:
            check_count("depth", depth, 1, MAX_DEPTH)
        for placement in self.placements:
            check_option("placement", placement, get_args(NormPlacement))
        for seed in self.seeds:
            check_count("seed", seed, 0, MAX_SEED)
        check_option("init", self.init, INITIALISATIONS)
        check_count("d_model", self.d_model, 1, MAX_WIDTH)
        check_count("n_pos", self.n_pos, 2, MAX_POS)
        check_count("n_sentences", self.n_sentences, 1, MAX_TOKENS)
        if (n_tokens := self.n_sentences * self.n_pos) > MAX_TOKENS:
            raise ConfigError(
                f"{n_tokens:,} tokens a step are more than {MAX_TOKENS:,}; "
                f"nearest: n_sentences {MAX_TOKENS // self.n_pos} of {self.n_pos} tokens"
            )
        if self.n_results > MAX_RESULTS:
            raise ConfigError(
                f"{self.n_results:,} encoders (placements x depths x seeds) are more than {MAX_RESULTS}; "
                "take fewer depths or seeds"
            )
        if (needed := self.estimate_bytes()) > MAX_BYTES:
            raise MemoryLimitError(
                f"The deepest encoder would need about {needed / 2**20:,.0f} MiB, and {MAX_BYTES / 2**20:,.0f} MiB are "
                "allowed. Use fewer sentences or heads, shorter sentences, or a smaller depth or d_model."
            )

    @property
    def n_results(self) -> int:
        """How many results the race has."""
        return len(self.placements) * len(self.depths) * len(self.seeds)

    def config(self, placement: NormPlacement, depth: int) -> EncoderConfig:
        """The architecture of one of its encoders."""
        return EncoderConfig(
            n_layers=depth,
            n_heads=self.n_heads,
            d_model=self.d_model,
            d_ff=4 * self.d_model,
            norm_placement=placement,
            vocab_size=VOCAB_SIZE,
            max_len=self.n_pos,
        )

    def estimate_bytes(self) -> int:
        """Memory that the largest step will hold: the values kept for the way back, parameters and their gradients."""
        deepest = self.config("pre", max(self.depths))
        values = estimate_bytes(deepest, batch=self.n_sentences, pos=self.n_pos)
        # Gradients at three checkpoints are read at the end, and the way back keeps q and k scaled and transposed.
        extra = 5 * deepest.n_layers * self.n_sentences * self.n_pos * self.d_model
        parameters = deepest.n_layers * 12 * self.d_model**2 + 2 * VOCAB_SIZE * self.d_model
        return values + FLOAT_BYTES * (extra + 2 * parameters)


@dataclass(frozen=True, slots=True, eq=False)
class RaceResult:
    """What one encoder of the race gave, and how long it took."""

    placement: NormPlacement
    depth: int
    """Its number of layers."""
    seed: int
    init: Initialisation
    norms: GradientNorms
    seconds: float

    @property
    def last_ff(self) -> float:
        """The norm that the theory speaks of: the gradient of the last layer's second feed-forward matrix, W²."""
        return float(self.norms.matrix("linear2")[-1])


@dataclass(frozen=True, slots=True, eq=False)
class MaskedTokens:
    """Random sentences with some words hidden, and the matrix through which they are guessed."""

    token_ids: Int[Tensor, "batch pos"]
    """What the encoder reads: `MASK_ID` where a word is hidden, `PAD_ID` where there is none."""
    key_padding_mask: Bool[Tensor, "batch pos"]
    hidden: Bool[Tensor, "batch pos"]
    targets: Int[Tensor, " masked"]
    """The hidden words."""
    output_matrix: Float[Tensor, "vocab d_model"]

    def loss(self, output: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, ""]:
        """Cross-entropy of the hidden words, their mean, in nats. ln 1,000 = 6.9 if all words are equally likely.

        Source: Xiong et al. 2020, section 3.3: softmax over the vocabulary at each position, averaged.
        Differs: Over hidden positions alone, as in BERT. The words are random, so there is nothing to learn. The output
        matrix is drawn like the embeddings, but beside them. If it were theirs, the shallow Pre-LN encoder would guess
        the mask itself, whose vector is still in its stream, and the slope would measure that: -0.5 to -1.0.
        """
        return F.cross_entropy(output[self.hidden] @ self.output_matrix.T, self.targets)


def masked_tokens(settings: RaceSettings, seed: int) -> MaskedTokens:
    """The task of one seed, the same for each depth and placement. Drawn from a generator of its own, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    shape = (settings.n_sentences, settings.n_pos)
    lengths = torch.randint(settings.n_pos // 2, settings.n_pos + 1, (settings.n_sentences, 1), generator=generator)
    padding = torch.arange(settings.n_pos) >= lengths
    words = torch.randint(FIRST_WORD_ID, VOCAB_SIZE, shape, generator=generator)
    order = torch.rand(shape, generator=generator).masked_fill(padding, 2.0).argsort(dim=1).argsort(dim=1)
    hidden = order < (lengths * MASKED_SHARE).round().clamp(min=1)  # at least one a sentence
    std = vector_std(settings.config("post", 1), settings.init)
    return MaskedTokens(
        token_ids=words.masked_fill(hidden, MASK_ID).masked_fill(padding, PAD_ID),
        key_padding_mask=padding,
        hidden=hidden,
        targets=words[hidden],
        output_matrix=torch.empty(VOCAB_SIZE, settings.d_model).normal_(0, std, generator=generator),
    )


def gradient_race(settings: RaceSettings) -> Iterator[RaceResult]:
    """One result an encoder, `settings.n_results` in all: seed by seed, shallow before deep, placements side by side.

    What is there after any number of results can be drawn, and it may be stopped there: between two results no encoder
    and no graph is held, and nothing outside has been changed.

    Measured with the defaults over 16 seeds. The gradient at the last W² (`last_ff`) is as large in any depth for
    Post-LN, and falls with the root of the depth for Pre-LN: slopes 0.00 and -0.45, with a standard deviation of 0.05
    each. From layer to layer of one encoder of 12, W² is almost flat in Post-LN (slope 0.03) and falls in Pre-LN
    (-0.43), to about a third. The rise towards the output that is often drawn for Post-LN is one of the stream: its
    gradient grows 4.5 times in the upper half. With `init` normal sublayers add so little to the stream that depth does
    not matter: slopes -0.01 and -0.05 over 6 seeds.

    Source: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", theorem 1 and figure 3.
    Differs: The theorem bounds the gradients from above, for one head, with W_Q = W_K = 0 and d_ff = d_model. Here
    they are those of the whole encoder as it is built.
    """
    for seed in settings.seeds:
        task = masked_tokens(settings, seed)
        for depth in sorted(settings.depths):
            for placement in settings.placements:
                yield _result(settings, task, placement, depth, seed)


def _result(settings: RaceSettings, task: MaskedTokens, placement: NormPlacement, depth: int, seed: int) -> RaceResult:
    start = time.perf_counter()
    model = build(settings.config(placement, depth), seed=seed, init=settings.init)
    norms = gradient_norms(model.encoder, task.token_ids, task.key_padding_mask, task.loss)
    return RaceResult(placement, depth, seed, settings.init, norms, time.perf_counter() - start)


def last_layer_table(results: Sequence[RaceResult]) -> pd.DataFrame:
    """One row a result: `placement`, `depth`, `seed`, `norm` (of the gradient of the last W²), `loss` in nats."""
    columns = ["placement", "depth", "seed", "norm", "loss"]
    rows = [(result.placement, result.depth, result.seed, result.last_ff, result.norms.loss) for result in results]
    return pd.DataFrame(rows, columns=columns)


def layer_table(results: Sequence[RaceResult]) -> pd.DataFrame:
    """One row a result, layer and matrix or checkpoint: `placement`, `depth`, `seed`, then as `GradientNorms.table`."""
    names = ["placement", "depth", "seed"]
    if not results:
        return pd.DataFrame(columns=[*names, "layer", "kind", "name", "norm"])
    frames = [
        result.norms.table().assign(placement=result.placement, depth=result.depth, seed=result.seed)
        for result in results
    ]
    every = pd.concat(frames, ignore_index=True)
    return every[[*names, *every.columns.drop(names)]]


def slopes(results: Sequence[RaceResult]) -> pd.DataFrame:
    """One row a placement and seed that has two depths: `placement`, `seed`, `n_depths`, `slope`, `theory`."""
    rows = [
        (placement, seed, len(group), log_log_slope(group["depth"].to_numpy(), group["norm"].to_numpy()))
        for (placement, seed), group in last_layer_table(results).groupby(["placement", "seed"], sort=False)
        if len(group) > 1
    ]
    table = pd.DataFrame(rows, columns=["placement", "seed", "n_depths", "slope"])
    return table.assign(theory=table["placement"].map(THEORY).astype(float))


def log_log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """The exponent a of y = c xᵃ: the slope of the line of least squares through (ln x, ln y). 2 for y = 7 x².

    Raises:
        ValueError: If there are not two different x, or a number is not finite and above 0.
    """
    points = np.array([x, y], dtype=np.float64)
    if not (np.isfinite(points).all() and (points > 0).all()):
        raise ValueError(f"a slope in log-log needs finite numbers above 0; x {x.tolist()}, y {y.tolist()}")
    if len(np.unique(points[0])) < 2:
        raise ValueError(f"a slope needs at least two different x; not {x.tolist()}")
    log_x, log_y = np.log(points)
    deviation = log_x - log_x.mean()
    return float(deviation @ log_y / (deviation @ deviation))
