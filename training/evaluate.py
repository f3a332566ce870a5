"""How close the twin is to its teacher, on texts that it was not trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float

import explorer
from explorer.loading import Model
from explorer.text import Batch

TOKENS_AT_ONCE: Final = 2048
DIGITS: Final = 5
"""After the point, in figures: enough that no target is reached by rounding."""
TIRED: Final = "The animal didn't cross the street because it was too tired."
WIDE: Final = "The animal didn't cross the street because it was too wide."
ANIMAL, IT, CLS_DIMENSION = 2, 10, 99
"""Positions of two words in the sentences above, and the dimension in which the teacher's `[CLS]` is extreme."""

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Teacher and twin on one list of texts. Padding is left out of everything."""

    sentence_cosine: Float[Array, " text"]
    """Of the mean over a text's tokens."""
    variation: Float[Array, "layer head"]
    """Total variation between two rows of attention, 0 to 1, mean over all real queries."""
    top_key: Float[Array, " layer"]
    """Share of rows whose strongest key is the same."""
    reads: Float[Array, " read"]
    """Cosine of what each sublayer reads, in order, and of the output; mean over tokens."""

    @property
    def layer_variation(self) -> Float[Array, " layer"]:
        """The mean over heads."""
        return self.variation.mean(axis=1)

    def summary(self) -> dict[str, Any]:
        """The figures as plain numbers."""
        return {
            "texts": len(self.sentence_cosine),
            "sentence_cosine": round(float(self.sentence_cosine.mean()), DIGITS),
            "sentence_cosine_worst": round(float(self.sentence_cosine.min()), DIGITS),
            "output_cosine": round(float(self.reads[-1]), DIGITS),
            "attention_variation": _rounded(self.layer_variation),
            "worst_head": _worst_head(self.variation),
            "same_top_key": _rounded(self.top_key),
            "norm1_cosine": _rounded(self.reads[:-1:2]),
            "norm2_cosine": _rounded(self.reads[1:-1:2]),
        }


def compare(teacher: Model, twin: Model, texts: Sequence[str]) -> Comparison:
    """Both encoders on the same texts."""
    sentences, variations, top_keys, reads = [], [], [], []
    for batch in batches(teacher, texts):
        theirs, ours = explorer.run(teacher, batch), explorer.run(twin, batch)
        real = ~batch.key_padding_mask.numpy()
        p, q = theirs.trace.pattern(), ours.trace.pattern()
        rows = np.abs(p - q).sum(axis=-1) / 2  # [layer, batch, head, query]
        variations.append(np.moveaxis(rows, 2, -1)[:, real])  # [layer, token, head]
        same = p.argmax(axis=-1) == q.argmax(axis=-1)
        top_keys.append(np.moveaxis(same, 2, -1)[:, real])
        pairs = zip(_reads(theirs), _reads(ours), strict=True)
        reads.append(np.stack([cosine(x[real], y[real]) for x, y in pairs]))  # [read, token]
        sentences.append(cosine(_mean_pool(theirs.output, real), _mean_pool(ours.output, real)))
    return Comparison(
        sentence_cosine=np.concatenate(sentences),
        variation=np.concatenate(variations, axis=1).mean(axis=1, dtype=np.float64),
        top_key=np.concatenate(top_keys, axis=1).mean(axis=(1, 2)),
        reads=np.concatenate(reads, axis=1).mean(axis=1, dtype=np.float64),
    )


def known_heads(model: Model, texts: Sequence[str]) -> dict[str, float]:
    """What three heads are known for, as mean attention weights."""
    previous, following = [], []
    for batch in batches(model, texts):
        trace = explorer.run(model, batch).trace
        inner = (~batch.key_padding_mask.numpy()).sum(axis=1)
        for row, n in enumerate(inner):
            previous.append(np.diagonal(trace.pattern(0)[row, 2, :n, :n], offset=-1))
            following.append(np.diagonal(trace.pattern(1)[row, 8, :n, :n], offset=1))
    found = {
        "L0 H2 to the previous token": float(np.concatenate(previous).mean()),
        "L1 H8 to the next token": float(np.concatenate(following).mean()),
    }
    for word, text in (("tired", TIRED), ("wide", WIDE)):
        pattern = explorer.run(model, model.batch([text])).trace.pattern(3)
        found[f"L3 H1 it to animal, {word}"] = float(pattern[0, 1, IT, ANIMAL])
    return {name: round(value, DIGITS) for name, value in found.items()}


def stream_norms(twin: Model, texts: Sequence[str]) -> list[float]:
    """The length of the median token's vector: at the start, and after each sublayer."""
    found = []
    for batch in batches(twin, texts):
        trace = explorer.run(twin, batch).trace
        real = ~batch.key_padding_mask.numpy()
        points = [trace.embedding("sum")]
        points += [trace.resid(point, layer) for layer in range(twin.config.n_layers) for point in ("mid", "post")]
        found.append(np.stack([np.linalg.norm(point[real], axis=-1) for point in points]))
    return _rounded(np.median(np.concatenate(found, axis=1), axis=1))


def residual_sums(teacher: Model, texts: Sequence[str]) -> list[float]:
    """The same of what the teacher's norms get: a sum of stream and sublayer."""
    return _norm_inputs(teacher, texts, lambda x, real: np.linalg.norm(x[real], axis=-1))


def cls_variances(model: Model, texts: Sequence[str]) -> list[float]:
    """The variance of `[CLS]` before each of the layers' norms; the median text."""
    return _norm_inputs(model, texts, lambda x, real: x[:, 0].var(axis=-1))


def evaluate(teacher: Model, twin: Model, lists: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Every figure, as plain numbers: by list of texts, and of the lines what is known of heads and stream."""
    comparisons = {name: compare(teacher, twin, texts) for name, texts in lists.items()}
    lines, variation = lists["lines"], comparisons["lines"].variation
    return {
        "lists": {name: comparison.summary() for name, comparison in comparisons.items()},
        "heads": {"twin": known_heads(twin, lines), "teacher": known_heads(teacher, lines)},
        "head_variation": {
            f"L{layer} H{head}": round(float(variation[layer, head]), DIGITS)
            for layer, head in ((0, 2), (1, 8), (3, 1))
        },
        "stream_norm": {"twin": stream_norms(twin, lines), "teacher": residual_sums(teacher, lines)},
        "cls_variance": {"twin": cls_variances(twin, lines), "teacher": cls_variances(teacher, lines)},
    }


def batches(model: Model, texts: Sequence[str]) -> list[Batch]:
    """The texts in their order, in batches of a bounded number of tokens."""
    groups: list[list[str]] = []
    longest = 0
    for text in texts:
        n_tokens = model.batch([text]).n_real
        longest = max(longest, n_tokens)
        if not groups or longest * (len(groups[-1]) + 1) > TOKENS_AT_ONCE:
            groups.append([])
            longest = n_tokens
        groups[-1].append(text)
    return [model.batch(group) for group in groups]


def cosine(x: Float[Array, "n d_model"], y: Float[Array, "n d_model"]) -> Float[Array, " n"]:
    """The cosine of each pair of vectors."""
    return (x * y).sum(axis=-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))


def _reads(run: explorer.Run) -> list[Array]:
    """What attention and feed-forward of each layer read, and the output."""
    trace, pre = run.trace, run.config.norm_placement == "pre"
    found = []
    for layer in range(run.config.n_layers):
        found.append(trace.norm("norm1", "out", layer) if pre else trace.resid("pre", layer))
        found.append(trace.norm("norm2", "out", layer) if pre else trace.resid("mid", layer))
    return [*found, run.output]


def _mean_pool(output: Array, real: Array) -> Array:
    return (output * real[..., None]).sum(axis=1) / real.sum(axis=1, keepdims=True)


def _norm_inputs(model: Model, texts: Sequence[str], measure: Any) -> list[float]:
    found = []
    for batch in batches(model, texts):
        trace = explorer.run(model, batch).trace
        real = ~batch.key_padding_mask.numpy()
        norms = [trace.norm(name, "in", layer) for layer in range(model.config.n_layers) for name in ("norm1", "norm2")]
        found.append(np.stack([measure(x, real) for x in norms]))
    return _rounded(np.median(np.concatenate(found, axis=1), axis=1))


def _rounded(values: Array) -> list[float]:
    return [round(float(value), DIGITS) for value in values]


def _worst_head(variation: Array) -> str:
    layer, head = np.unravel_index(variation.argmax(), variation.shape)
    return f"L{layer} H{head}: {variation[layer, head]:.3f}"
