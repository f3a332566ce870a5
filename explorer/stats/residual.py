"""The residual stream: how long its vectors are, where they point, and how alike they are. Sums are in float64."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64


def l2_norm(x: Float[np.ndarray, "*axes d_model"]) -> Float[np.ndarray, "*axes"]:
    """Euclidean length of each token's vector, in float64. sqrt(d_model) right after a fresh LayerNorm."""
    return np.linalg.norm(x.astype(np.float64), axis=-1)


def distance(
    x: Float[np.ndarray, "*axes d_model"], y: Float[np.ndarray, "*axes d_model"]
) -> Float[np.ndarray, "*axes"]:
    """L2 norm of y - x, in float64: how far a vector is from where it was. The same for (y, x), bit for bit."""
    return l2_norm(y.astype(np.float64) - x)


def relative_distance(
    x: Float[np.ndarray, "*axes d_model"], y: Float[np.ndarray, "*axes d_model"]
) -> Float[np.ndarray, "*axes"]:
    """The distance from x to y as a share of the length of x: 1 from x to 0, 2 from x to -x. NaN where x is zero."""
    length = l2_norm(x)
    return np.divide(distance(x, y), length, out=np.full_like(length, np.nan), where=length > 0)


def cosine(x: Float[np.ndarray, "*axes d_model"], y: Float[np.ndarray, "*axes d_model"]) -> Float[np.ndarray, "*axes"]:
    """Cosine of the angle between vectors, in float64. Exactly 1 where they are equal, NaN where one is zero."""
    norms = l2_norm(x) * l2_norm(y)
    dot = (x.astype(np.float64) * y).sum(axis=-1)
    angle = np.divide(dot, norms, out=np.full_like(norms, np.nan), where=norms > 0)
    return np.where((x == y).all(axis=-1) & (norms > 0), 1.0, angle.clip(-1, 1))


def unit(x: Float[np.ndarray, "*axes d_model"]) -> Float64[np.ndarray, "*axes d_model"]:
    """Each vector divided by its length. A zero vector has no direction, and is NaN."""
    norms = l2_norm(x)[..., None]
    return np.divide(x, norms, out=np.full(x.shape, np.nan), where=norms > 0)


def mean_cosine(
    x: Float[np.ndarray, "batch pos d_model"], padding: Bool[np.ndarray, "batch pos"]
) -> Float64[np.ndarray, " batch"]:
    """Mean cosine between two different tokens of a sentence, padding left out: how alike they have become.

    1 where all point the same way, 0 where all are at right angles, never below -1 / (n - 1) with n tokens. NaN for
    one token: it has no other.

    Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", section 3.
    """
    real = ~padding
    directions = np.where(real[..., None], unit(x), 0.0)
    n = real.sum(axis=1)
    pairs = (directions.sum(axis=1) ** 2).sum(axis=-1) - (directions**2).sum(axis=(1, 2))  # (sum u)^2 - sum u^2
    return np.divide(pairs, n * (n - 1), out=np.full(len(n), np.nan), where=n > 1).clip(-1, 1)


def cosine_matrix(vectors: Float[np.ndarray, "n d_model"]) -> Float64[np.ndarray, "n n"]:
    """Cosine between every two vectors: 1 on the diagonal, NaN in the row and column of a zero vector."""
    directions = unit(vectors)
    cosines = (directions @ directions.T).clip(-1, 1)
    return np.where(np.eye(len(vectors), dtype=bool) & ~np.isnan(cosines), 1.0, cosines)


def principal_axes(
    vectors: Float[np.ndarray, "n d_model"],
) -> tuple[Float64[np.ndarray, "n 2"], Float64[np.ndarray, " 2"]]:
    """Coordinates of the vectors on the two axes along which they spread most, and the share of variance on each.

    Points on a line have shares 1 and 0. The largest loading of each axis is positive, so that a picture is never
    mirrored by chance. Where there is no variance all coordinates are 0, and the shares NaN.

    Source: Pearson 1901, "On Lines and Planes of Closest Fit to Systems of Points in Space".
    """
    n, d_model = vectors.shape
    wide = vectors.astype(np.float64)
    centred = wide - wide.mean(axis=0)
    # What is longer than wide has the axes of its triangle R, which is square.
    _, spread, axes = np.linalg.svd(np.linalg.qr(centred, mode="r") if n > d_model else centred, full_matrices=False)
    spread[spread <= max(n, d_model) * np.finfo(np.float64).eps * np.linalg.norm(wide)] = 0  # rounding is no spread
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    coordinates, shares = np.zeros((n, 2)), np.zeros(2)
    found = min(2, int(np.count_nonzero(spread)))
    coordinates[:, :found] = centred @ (axes * np.sign(largest))[:found].T
    if found == 0:
        return coordinates, np.full(2, np.nan)
    shares[:found] = spread[:found] ** 2 / (spread**2).sum()
    return coordinates, shares


@dataclass(frozen=True, slots=True, eq=False)
class SentenceVectors:
    """One vector a sentence, made in two ways, and in a wrong one."""

    mean: Float64[np.ndarray, "batch d_model"]
    """The mean of its real tokens."""
    cls: Float64[np.ndarray, "batch d_model"]
    """Its first real token, which is `[CLS]`."""
    mean_with_pads: Float64[np.ndarray, "batch d_model"]
    """The mean of all its tokens, padding counted: a common mistake."""

    @property
    def mean_unit(self) -> Float64[np.ndarray, "batch d_model"]:
        """`mean` with length 1: what the published encoder gives for a sentence."""
        return unit(self.mean)

    @property
    def cls_unit(self) -> Float64[np.ndarray, "batch d_model"]:
        """`cls` with length 1."""
        return unit(self.cls)


def sentence_vectors(
    output: Float[np.ndarray, "batch pos d_model"], padding: Bool[np.ndarray, "batch pos"]
) -> SentenceVectors:
    """The mean over real tokens, and `[CLS]`, wherever padding stands. Equal for a sentence of one token.

    The mean with pads is that of real tokens only where there is no padding: one token of 2 beside a pad of 4 gives 3.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", section 3.
    """
    real = ~padding
    total = np.where(real[..., None], output, 0).sum(axis=1, dtype=np.float64)
    first = real.argmax(axis=1)
    return SentenceVectors(
        mean=total / real.sum(axis=1, keepdims=True),
        cls=output[np.arange(len(output)), first].astype(np.float64),
        mean_with_pads=output.mean(axis=1, dtype=np.float64),
    )
