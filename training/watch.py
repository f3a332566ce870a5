"""What teacher and student have to compare: attention patterns, what the sublayers read, and the output."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

import explorer
from explorer.model import Encoder
from explorer.tape import Recorder
from explorer.text import Batch

CLS_WEIGHT = 2.0
"""How often `[CLS]` counts: its statistics are extreme, and there is one in each text."""


class LiveRecorder(Recorder):
    """Keeps the values themselves, so that gradients flow through what was recorded."""

    def __call__(self, site: str, value: Tensor) -> Tensor:
        name = self._prefix + site
        if self._keep(name):
            self.values[name] = value
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """One pass. `reads` are what attention and feed-forward read, in order, and the output: 2 n_layers + 1."""

    patterns: list[Float[Tensor, "batch head query key"]]
    reads: list[Float[Tensor, "batch pos d_model"]]


def watch_teacher(teacher: Encoder, batch: Batch) -> Watched:
    """The Post-LN encoder: its sublayers read the stream as it is. No gradients."""
    with torch.no_grad():
        values, output = _values(teacher, batch, ("pattern", "resid_pre", "resid_mid"))
    return _watched(values, ("resid_pre", "resid_mid"), output)


def watch_student(student: Encoder, batch: Batch) -> Watched:
    """The Pre-LN encoder: its sublayers read what LN1 and LN2 give. Gradients flow where they are on."""
    values, output = _values(student, batch, ("pattern", "norm1.out", "norm2.out"))
    return _watched(values, ("norm1.out", "norm2.out"), output)


def _values(encoder: Encoder, batch: Batch, sites: tuple[str, ...]) -> tuple[dict[str, Tensor], Tensor]:
    tape = LiveRecorder(lambda site: site.startswith("layers.") and site.endswith(sites))
    mask = batch.key_padding_mask if batch.n_padding else None
    output = encoder(batch.token_ids, mask, segment_ids=batch.segments, tape=tape)
    return tape.values, output


def _watched(values: dict[str, Tensor], reads: tuple[str, str], output: Tensor) -> Watched:
    layers = range(explorer.MINILM.n_layers)
    return Watched(
        patterns=[values[f"layers.{layer}.attn.pattern"] for layer in layers],
        reads=[*(values[f"layers.{layer}.{site}"] for layer in layers for site in reads), output],
    )


def token_weights(key_padding_mask: Bool[Tensor, "batch pos"], cls_weight: float) -> Float[Tensor, "batch pos"]:
    """How much each token counts: padding nothing, `[CLS]` (which stands first) its weight, others 1. They sum to 1."""
    weights = (~key_padding_mask).float()
    weights = torch.cat([weights[:, :1] * cls_weight, weights[:, 1:]], dim=1)
    return weights / weights.sum()


def sentence_vectors(
    output: Float[Tensor, "batch pos d_model"], key_padding_mask: Bool[Tensor, "batch pos"]
) -> Float[Tensor, "batch d_model"]:
    """The mean over real tokens: what the encoder says of a whole sentence."""
    real = (~key_padding_mask).to(output.dtype)[..., None]
    return (output * real).sum(dim=1) / real.sum(dim=1)
