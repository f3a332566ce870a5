"""What LayerNorm measures and does, what it is mistaken for, and BatchNorm beside it. In float64."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Float64, Int


def token_moments(
    x: Float[np.ndarray, "*axes d_model"],
) -> tuple[Float[np.ndarray, "*axes"], Float[np.ndarray, "*axes"]]:
    """Mean and population standard deviation (correction 0) over d_model, in float64.

    A constant token has standard deviation 0. Right after a LayerNorm with gamma 1 and beta 0 they are 0 and 1.
    """
    wide = x.astype(np.float64)
    return wide.mean(axis=-1), wide.std(axis=-1, ddof=0)


def layer_norm(
    x: Float[np.ndarray, "*axes d_model"],
    gamma: Float[np.ndarray, " d_model"],
    beta: Float[np.ndarray, " d_model"],
    eps: float,
) -> Float64[np.ndarray, "*axes d_model"]:
    """(x - mean) / sqrt(var + eps) * gamma + beta, written out in float64: what the model's own is checked against.

    A constant token becomes beta. 1 2 3 4 with gamma 1, beta 0 and eps 0 starts with -1.5 / sqrt(1.25) = -1.342.

    Source: Ba et al. 2016, "Layer Normalization", section 3.
    """
    centred = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gamma + beta


@dataclass(frozen=True, slots=True, eq=False)
class TokenTerms:
    """Each number of the formula for one token: out = (x - mean) / scale * gamma + beta."""

    mean: float
    variance: float
    """Of the population: divided by d_model."""
    std: float
    scale: float
    """sqrt(variance + eps): sqrt(eps) for a constant token."""
    normalised: Float64[np.ndarray, " d_model"]
    """(x - mean) / scale: mean 0, and variance 1 but for eps."""
    out: Float64[np.ndarray, " d_model"]


def token_terms(
    x: Float[np.ndarray, " d_model"],
    gamma: Float[np.ndarray, " d_model"],
    beta: Float[np.ndarray, " d_model"],
    eps: float,
) -> TokenTerms:
    """The LayerNorm of one token, term by term. 1 2 3 4 has mean 2.5, variance 1.25 and, with eps 1, scale 1.5."""
    mean, variance = float(x.mean(dtype=np.float64)), float(x.var(dtype=np.float64))
    return TokenTerms(
        mean=mean,
        variance=variance,
        std=math.sqrt(variance),
        scale=math.sqrt(variance + eps),
        normalised=layer_norm(x, np.ones(len(x)), np.zeros(len(x)), eps),
        out=layer_norm(x, gamma, beta, eps),
    )


def largest_dimensions(
    x: Float[np.ndarray, "*axes d_model"], n: int
) -> tuple[Int[np.ndarray, "*axes n"], Float[np.ndarray, "*axes n"]]:
    """The n dimensions of each token that are furthest from its mean, furthest first, and their values in x.

    All of them where there are no more than n. Of equally far ones the first comes first.
    """
    distance = np.abs(x - x.mean(axis=-1, keepdims=True, dtype=np.float64))
    index = np.argsort(-distance, axis=-1, kind="stable")[..., :n]
    return index, np.take_along_axis(x, index, axis=-1)


def variance_shares(x: Float[np.ndarray, "*axes d_model"]) -> Float64[np.ndarray, "*axes d_model"]:
    """Which share of a token's variance comes from each dimension: (x - mean)^2 / sum of (x - mean)^2.

    They sum to 1. With 2 dimensions it is half each; a constant token has no variance to share, and is NaN.
    """
    squares = (x - x.mean(axis=-1, keepdims=True, dtype=np.float64)) ** 2
    total = squares.sum(axis=-1, keepdims=True)
    return np.divide(squares, total, out=np.full_like(squares, np.nan), where=total > 0)


@dataclass(frozen=True, slots=True, eq=False)
class BatchNorm:
    """The same activations, normalised the other way: each feature over tokens, not each token over features."""

    mean: Float64[np.ndarray, " d_model"]
    """Of each feature, over the real tokens of all sentences."""
    variance: Float64[np.ndarray, " d_model"]
    out: Float64[np.ndarray, "batch pos d_model"]
    """(x - mean) / sqrt(variance + eps), without gamma and beta: an encoder has none for it."""
    mean_padded: Float64[np.ndarray, " d_model"]
    """Of each feature, over all tokens: what padding does to it where there is no mask."""
    variance_padded: Float64[np.ndarray, " d_model"]
    out_padded: Float64[np.ndarray, "batch pos d_model"]


def batch_norm(
    x: Float[np.ndarray, "batch pos d_model"], padding: Bool[np.ndarray, "batch pos"], eps: float
) -> BatchNorm:
    """BatchNorm as in training, with its statistics over real tokens, and over all tokens, padding counted.

    Without padding both are equal. One real token has variance 0, and becomes 0. LayerNorm of a token is the same in
    any batch; here the neighbours change it.

    Source: Ioffe and Szegedy 2015, "Batch Normalization", algorithm 1.
    """
    wide = x.astype(np.float64)
    every = wide.reshape(-1, x.shape[-1])
    real = wide[~padding]

    def normalised(tokens: np.ndarray) -> np.ndarray:
        return (wide - tokens.mean(axis=0)) / np.sqrt(tokens.var(axis=0) + eps)

    return BatchNorm(
        mean=real.mean(axis=0),
        variance=real.var(axis=0),
        out=normalised(real),
        mean_padded=every.mean(axis=0),
        variance_padded=every.var(axis=0),
        out_padded=normalised(every),
    )


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a mistake for people, and its formula."""

    label: str
    formula: str


MISTAKES: Final[dict[str, Label]] = {
    "sample_std": Label("Sample std", "(x − mean) / √(Σ (x − mean)² / (d_model − 1) + ε) · γ + β"),
    "eps_outside": Label("ε outside the root", "(x − mean) / (std + ε) · γ + β"),
    "minus_beta": Label("Minus β", "(x − mean) / √(var + ε) · γ − β"),
    "no_mask": Label("No mask", "mean and var of each feature over all tokens, padding counted: BatchNorm unmasked"),
}
"""What is often written instead of LayerNorm, in the order shown."""


@dataclass(frozen=True, slots=True, eq=False)
class Mistake:
    """What a mistake gives."""

    out: Float64[np.ndarray, "batch pos d_model"]
    right: Float64[np.ndarray, "batch pos d_model"]
    """What it is held against: LayerNorm, or for `no_mask` BatchNorm over real tokens."""
    difference: float
    """The largest absolute difference to the right one, over real tokens."""


def mistakes(
    x: Float[np.ndarray, "batch pos d_model"],
    gamma: Float[np.ndarray, " d_model"],
    beta: Float[np.ndarray, " d_model"],
    eps: float,
    padding: Bool[np.ndarray, "batch pos"],
) -> dict[str, Mistake]:
    """Each of `MISTAKES` on these activations, held against LayerNorm; `no_mask` against BatchNorm over real tokens.

    Padding disturbs no LayerNorm, so only `no_mask` depends on it: 0 where there is none. A sample std of one feature
    is 0 / 0, and NaN.
    """
    right = layer_norm(x, gamma, beta, eps)
    centred = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)
    squares = (centred**2).sum(axis=-1, keepdims=True)
    n = x.shape[-1]
    sample_variance = squares / (n - 1) if n > 1 else np.full_like(squares, np.nan)
    features = batch_norm(x, padding, eps)
    wrong = {
        "sample_std": (centred / np.sqrt(sample_variance + eps) * gamma + beta, right),
        "eps_outside": (centred / (np.sqrt(squares / n) + eps) * gamma + beta, right),
        "minus_beta": (right - 2 * beta, right),
        "no_mask": (features.out_padded * gamma + beta, features.out * gamma + beta),
    }
    return {name: Mistake(out, fair, float(np.abs(out - fair)[~padding].max())) for name, (out, fair) in wrong.items()}
