"""The start: a Pre-LN encoder that already does most of the teacher's work, without one step of training.

LayerNorm ignores scale, so LN1 and LN2 can be fitted to give what the teacher's sublayers read; then the teacher's
own matrices do the teacher's work, and what they add is brought to the scale of the stream.
"""

from collections.abc import Sequence
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from explorer.config import MINILM_PRELN
from explorer.model import Encoder, build_encoder
from explorer.model.attention import attention_mask
from explorer.model.layers import EncoderLayer
from explorer.model.norms import LayerNorm, layer_norm
from explorer.tape import SILENT
from explorer.text import Batch
from explorer.weights import fill
from training.watch import token_weights, watch_teacher

CLS_WEIGHT: Final = 0.3
CLAMP: Final = 4.0
"""No dimension is rescaled by more than this factor of the median, nor by less than its inverse."""

Scales = dict[str, float]
"""The scale of what each sublayer adds, by the name of its last matrix."""


def algebraic_start(teacher: Encoder, batches: Sequence[Batch]) -> tuple[Encoder, Scales]:
    """The student, on the CPU, and the scale of what each of its sublayers adds to the stream."""
    student = _copy_without_norms(teacher)
    scales: Scales = {}
    with torch.no_grad():
        targets = [watch_teacher(teacher, batch).reads for batch in batches]
        weights = [token_weights(batch.key_padding_mask, CLS_WEIGHT) for batch in batches]
        streams = [_embed(student, batch) for batch in batches]
        masks = [attention_mask(b.key_padding_mask, causal=False, n_pos=b.token_ids.shape[1]) for b in batches]
        for number, layer in enumerate(student.layers):
            assert isinstance(layer, EncoderLayer)
            _fit_norm(layer.norm1, streams, [reads[2 * number] for reads in targets], weights)
            name = f"layers.{number}.attn.out_proj"
            scales[name] = _rescale(layer.attn.out_proj, layer.norm1, streams, weights)
            for index, hidden in enumerate(masks):
                x = streams[index]
                x = x + layer.attn(layer.norm1(x, tape=SILENT), hidden, tape=SILENT)
                streams[index] = x
            _fit_norm(layer.norm2, streams, [reads[2 * number + 1] for reads in targets], weights)
            name = f"layers.{number}.ff.linear2"
            scales[name] = _rescale(layer.ff.linear2, layer.norm2, streams, weights)
            streams = [x + layer.ff(layer.norm2(x, tape=SILENT), tape=SILENT) for x in streams]
        assert student.final_norm is not None
        _fit_norm(student.final_norm, streams, [reads[-1] for reads in targets], weights)
    return student, scales


def _copy_without_norms(teacher: Encoder) -> Encoder:
    """The teacher's embeddings and matrices in Pre-LN order; gamma and beta are still those of Post-LN."""
    state = {name: value.clone() for name, value in teacher.state_dict().items() if not name.startswith("embed.norm")}
    last = f"layers.{MINILM_PRELN.n_layers - 1}.norm2"
    state |= {f"final_norm.{kind}": state[f"{last}.{kind}"].clone() for kind in ("weight", "bias")}
    student = build_encoder(MINILM_PRELN)
    fill(student, state)
    return student


def _embed(student: Encoder, batch: Batch) -> Tensor:
    positions = torch.arange(batch.token_ids.shape[1]).expand(batch.token_ids.shape)  # padding stands on the right
    return student.embed(batch.token_ids, positions, batch.segments, tape=SILENT)


def _fit_norm(norm: LayerNorm, streams: Sequence[Tensor], targets: Sequence[Tensor], weights: Sequence[Tensor]) -> None:
    """gamma and beta by weighted least squares, each dimension on its own: normalised stream to target."""
    x = torch.cat([_normalised(stream, norm.eps).flatten(0, 1) for stream in streams]).double()
    y = torch.cat([target.flatten(0, 1) for target in targets]).double()
    w = torch.cat([weight.flatten() for weight in weights]).double()[:, None]
    w = w / w.sum()
    x_mean, y_mean = (w * x).sum(0), (w * y).sum(0)
    gamma = (w * (x - x_mean) * (y - y_mean)).sum(0) / (w * (x - x_mean) ** 2).sum(0)
    norm.weight.data = gamma.float()
    assert norm.bias is not None
    norm.bias.data = (y_mean - gamma * x_mean).float()


def _normalised(x: Float[Tensor, "batch pos d_model"], eps: float) -> Float[Tensor, "batch pos d_model"]:
    return layer_norm(x, torch.ones(x.shape[-1]), None, eps)


def _rescale(linear: torch.nn.Linear, norm: LayerNorm, streams: Sequence[Tensor], weights: Sequence[Tensor]) -> float:
    """Brings what a sublayer adds to the units of the stream, and adds the beta that the teacher's stream has.

    With h = gamma (x - mean) / sigma + beta, the teacher's h + a is x + (sigma / gamma) (a + beta) in the stream's
    units, but for a mean and a factor, which the next norm takes away. Returns the median of sigma / gamma.
    """
    assert norm.bias is not None
    real = torch.cat([weight.flatten() > 0 for weight in weights])
    sigma = torch.cat([stream.std(dim=-1, correction=0).flatten() for stream in streams])[real].median()
    e = (sigma / norm.weight).detach()
    median = e.median()
    e = e.clamp(median / CLAMP, median * CLAMP)
    linear.weight.data = linear.weight.detach() * e[:, None]
    linear.bias.data = (linear.bias + norm.bias).detach() * e
    return float(median)
