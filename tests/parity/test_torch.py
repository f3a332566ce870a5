"""Float64 parity with `torch.nn.TransformerEncoder`, an implementation that shares no line with ours.

Weights go from our encoder to theirs, and both read the same embedded tokens. 1e-10 leaves room for the order of
sums and for nothing else.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from explorer import EncoderConfig, Model
from tests.helpers import padding, record, rough, tiny, token_ids

SHAPES: dict[str, tuple[dict[str, Any], list[int], int]] = {
    "2 heads": ({"n_heads": 2, "d_model": 8, "d_ff": 16}, [5, 3], 6),
    "H == length == batch": ({"n_heads": 3, "d_model": 12, "d_ff": 7}, [3, 2, 1], 3),
}
THEIRS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def close(found: Tensor, expected: Tensor) -> None:
    assert_close(found, expected, rtol=0, atol=1e-10)


def torch_layer(layer: nn.Module, config: EncoderConfig) -> nn.TransformerEncoderLayer:
    """torch's layer with the weights of ours."""
    twin = nn.TransformerEncoderLayer(
        config.d_model,
        config.n_heads,
        config.d_ff,
        dropout=0.0,
        activation=THEIRS[config.activation],
        layer_norm_eps=config.norm_eps,
        batch_first=True,
        norm_first=config.norm_placement == "pre",
        bias=config.bias,
        dtype=torch.float64,
    )
    names = {
        "self_attn.in_proj_weight": "attn.in_proj.weight",
        "self_attn.in_proj_bias": "attn.in_proj.bias",
        "self_attn.out_proj": "attn.out_proj",
        "linear1": "ff.linear1",
        "linear2": "ff.linear2",
        "norm1": "norm1",
        "norm2": "norm2",
    }
    ours = layer.state_dict()
    state = {}
    for their_name in twin.state_dict():
        module, _, kind = their_name.rpartition(".")
        state[their_name] = ours[names.get(their_name) or f"{names[module]}.{kind}"]
    assert len(state) == len(ours)  # every parameter of ours has gone over
    twin.load_state_dict(state)
    return twin.eval()


def torch_encoder(model: Model) -> nn.TransformerEncoder:
    """torch's stack with the weights of ours."""
    config = model.config
    norm = None
    if config.final_norm:
        norm = nn.LayerNorm(config.d_model, eps=config.norm_eps, bias=config.bias, dtype=torch.float64)
        norm.load_state_dict(model.encoder.final_norm.state_dict())
    layers = [torch_layer(layer, config) for layer in model.encoder.layers]
    twin = nn.TransformerEncoder(layers[0], len(layers), norm=norm, enable_nested_tensor=False)
    twin.layers = nn.ModuleList(layers)
    return twin.eval()


def prepared(shape: str, pad: str, **changes: Any) -> tuple[Model, Tensor, Tensor | None]:
    sizes, lengths, pos = SHAPES[shape]
    model = rough(tiny(n_layers=3, **sizes, **changes), seed=1)
    model.encoder.double()
    mask = None if pad == "none" else padding(lengths, pos, pad)
    return model, token_ids(len(lengths), pos), mask


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pad", ["right", "left", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_the_whole_stack(shape, pad, placement, activation, final_norm):
    """Catches a wrong order of residual and norm, a wrong scale, a bias left out, a mask of the wrong sense or side."""
    agree(*prepared(shape, pad, norm_placement=placement, activation=activation, final_norm=final_norm))


@pytest.mark.parametrize("pad", ["right", "left", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_whole_stack_without_bias(pad, placement):
    agree(*prepared("2 heads", pad, norm_placement=placement, activation="silu", final_norm=True, bias=False))


def triangle(n_pos: int) -> Tensor:
    """torch's own causal mask, which is added to the scores: minus infinity at later keys."""
    return nn.Transformer.generate_square_subsequent_mask(n_pos, dtype=torch.float64)


def agree(model: Model, ids: Tensor, mask: Tensor | None, *, causal: bool = False) -> None:
    """Ours and theirs, on the tokens that are real."""
    output, values = record(model, ids, mask, causal=causal)
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else ~mask
    later = triangle(ids.shape[1]) if causal else None
    added = None if mask is None else torch.zeros(mask.shape, dtype=torch.float64).masked_fill(mask, -torch.inf)
    with torch.no_grad():
        expected = torch_encoder(model)(values["embed.sum"], mask=later, src_key_padding_mask=added)
    close(output[real], expected[real])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pad", ["right", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_the_whole_causal_stack(shape, pad, placement, activation, final_norm):
    """Catches a triangle of the other side, without its diagonal, or one row off."""
    inputs = prepared(shape, pad, norm_placement=placement, activation=activation, final_norm=final_norm)
    agree(*inputs, causal=True)
    with pytest.raises(AssertionError):
        close(inputs[0].encoder(*inputs[1:], causal=True), inputs[0].encoder(*inputs[1:]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pad", ["right", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_causal_attention_head_by_head(shape, pad, placement):
    model, ids, mask = prepared(shape, pad, norm_placement=placement)
    _, values = record(model, ids, mask, causal=True)
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else ~mask
    later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
    for number, layer in enumerate(model.encoder.layers):
        reads = values[f"layers.{number}." + ("norm1.out" if placement == "pre" else "resid_pre")]
        theirs = torch_layer(layer, model.config).self_attn
        with torch.no_grad():
            added, weights = theirs(
                reads, reads, reads, attn_mask=later, key_padding_mask=mask, average_attn_weights=False
            )
        pattern = values[f"layers.{number}.attn.pattern"]
        close(pattern.transpose(1, 2)[real], weights.transpose(1, 2)[real])
        close(values[f"layers.{number}.attn_out"][real], added[real])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pad", ["right", "left", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_layer_by_layer(shape, pad, placement, activation):
    """The recorded stream is that of torch's layers run one after another; with a norm after the embeddings."""
    model, ids, mask = prepared(shape, pad, norm_placement=placement, activation=activation, embedding_norm=True)
    _, values = record(model, ids, mask)
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else ~mask
    stream = values["embed.norm.out"]
    with torch.no_grad():
        for number, layer in enumerate(model.encoder.layers):
            stream = torch_layer(layer, model.config)(stream, src_key_padding_mask=mask)
            close(values[f"layers.{number}.resid_post"][real], stream[real])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pad", ["right", "left", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("bias", [True, False])
def test_attention_head_by_head(shape, pad, placement, bias):
    """A3, A4: per-head weights `[batch, head, query, key]` by value; averaged or exchanged heads cannot pass."""
    model, ids, mask = prepared(shape, pad, norm_placement=placement, bias=bias)
    _, values = record(model, ids, mask)
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else ~mask
    for number, layer in enumerate(model.encoder.layers):
        reads = values[f"layers.{number}." + ("norm1.out" if placement == "pre" else "resid_pre")]
        theirs = torch_layer(layer, model.config).self_attn
        with torch.no_grad():
            added, weights = theirs(
                reads, reads, reads, key_padding_mask=mask, need_weights=True, average_attn_weights=False
            )
        pattern = values[f"layers.{number}.attn.pattern"]
        assert pattern.shape == weights.shape
        assert not torch.allclose(pattern, pattern.flip(1))  # heads differ, so that their order is tested
        close(pattern.transpose(1, 2)[real], weights.transpose(1, 2)[real])
        close(values[f"layers.{number}.attn_out"][real], added[real])


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_float32_is_as_near_as_float32_allows(placement):
    """A1: what the page shows is float32; it is within 1e-5 of torch's own float32."""
    sizes, lengths, pos = SHAPES["2 heads"]
    model = rough(tiny(n_layers=3, **sizes, norm_placement=placement), seed=1)
    ids, mask = token_ids(len(lengths), pos), padding(lengths, pos)
    output, values = record(model, ids, mask)
    model.encoder.double()
    twin = torch_encoder(model).float()
    with torch.no_grad():
        expected = twin(values["embed.sum"], src_key_padding_mask=mask)
    assert_close(output[~mask], expected[~mask], rtol=0, atol=1e-5)
