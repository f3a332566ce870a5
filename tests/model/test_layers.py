"""One layer, in either placement."""

import pytest
import torch
from torch.testing import assert_close

from explorer import Recorder
from explorer.model.attention import attention_mask
from tests.helpers import padding, record, rough, tiny, token_ids


def hidden(mask):
    return attention_mask(mask, causal=False, n_pos=5)


@pytest.mark.parametrize("mask", [None, padding([5, 3], 5), padding([5, 3], 5, "left")], ids=["none", "right", "left"])
def test_post_ln_replays_from_its_record(mask):
    """A15: x1 = LN1(x + A(x)), out = LN2(x1 + F(x1)), each term taken from the record."""
    model = rough(tiny(n_layers=1, norm_placement="post"))
    layer = model.encoder.layers[0]
    _, values = record(model, token_ids(2, 5), mask)
    v = {site.removeprefix("layers.0."): value for site, value in values.items()}
    tape = Recorder()
    with torch.no_grad():
        assert_close(v["attn_out"], layer.attn(v["resid_pre"], hidden(mask), tape=tape), rtol=0, atol=1e-5)
        assert_close(v["norm1.in"], v["resid_pre"] + v["attn_out"], rtol=0, atol=1e-5)
        assert_close(v["resid_mid"], layer.norm1(v["norm1.in"], tape=tape), rtol=0, atol=1e-5)
        assert torch.equal(v["resid_mid"], v["norm1.out"])
        assert_close(v["ff_out"], layer.ff(v["resid_mid"], tape=tape), rtol=0, atol=1e-5)
        assert_close(v["norm2.in"], v["resid_mid"] + v["ff_out"], rtol=0, atol=1e-5)
        assert_close(v["resid_post"], layer.norm2(v["norm2.in"], tape=tape), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mask", [None, padding([5, 3], 5), padding([5, 3], 5, "left")], ids=["none", "right", "left"])
def test_pre_ln_replays_from_its_record(mask):
    """A15: x1 = x + A(LN1 x), out = x1 + F(LN2 x1), each term taken from the record."""
    model = rough(tiny(n_layers=1, norm_placement="pre"))
    layer = model.encoder.layers[0]
    _, values = record(model, token_ids(2, 5), mask)
    v = {site.removeprefix("layers.0."): value for site, value in values.items()}
    tape = Recorder()
    with torch.no_grad():
        assert torch.equal(v["norm1.in"], v["resid_pre"])
        assert_close(v["norm1.out"], layer.norm1(v["resid_pre"], tape=tape), rtol=0, atol=1e-5)
        assert_close(v["attn_out"], layer.attn(v["norm1.out"], hidden(mask), tape=tape), rtol=0, atol=1e-5)
        assert_close(v["resid_mid"], v["resid_pre"] + v["attn_out"], rtol=0, atol=1e-5)
        assert torch.equal(v["norm2.in"], v["resid_mid"])
        assert_close(v["ff_out"], layer.ff(layer.norm2(v["resid_mid"], tape=tape), tape=tape), rtol=0, atol=1e-5)
        assert_close(v["resid_post"], v["resid_mid"] + v["ff_out"], rtol=0, atol=1e-5)


def silence_sublayers(model):
    """Attention and feed-forward add nothing: out_proj and linear2 are 0. In place, on a model of its own."""
    for layer in model.encoder.layers:
        for linear in (layer.attn.out_proj, layer.ff.linear2):
            linear.weight.zero_()
            linear.bias.zero_()


def test_a_pre_ln_layer_that_adds_nothing_is_the_identity():
    """Catches a normalised stream: only the final norm may change it, and it is a stage of its own."""
    model = rough(tiny(norm_placement="pre"))
    silence_sublayers(model)
    output, values = record(model, token_ids(1, 4))
    assert torch.equal(values["layers.1.resid_post"], values["embed.sum"])
    assert torch.equal(values["final_norm.in"], values["embed.sum"])
    assert torch.equal(values["final_norm.out"], output)


def test_a_post_ln_layer_that_adds_nothing_normalises_twice():
    """Catches a forgotten norm: with gamma 1 and beta 0 the stream has mean 0 and std 1 after each sublayer."""
    model = rough(tiny(norm_placement="post"))
    silence_sublayers(model)
    for layer in model.encoder.layers:
        for norm in (layer.norm1, layer.norm2):
            norm.weight.fill_(1)
            norm.bias.zero_()
    output, values = record(model, token_ids(1, 4))
    for site in ("resid_mid", "resid_post"):
        stream = values[f"layers.0.{site}"]
        assert_close(stream.mean(-1), torch.zeros(1, 4), rtol=0, atol=1e-5)
        assert_close(stream.std(-1, correction=0), torch.ones(1, 4), rtol=0, atol=1e-4)
    assert torch.equal(output, values["layers.1.resid_post"])
