"""Attention, by hand."""

import math

import torch
from torch.testing import assert_close

from explorer import SILENT
from explorer.model.attention import attention_mask, attention_pattern, masked_scores, merge_heads, split_heads
from tests.helpers import padding, record, rough, tiny, token_ids


def hidden_by(mask, *, causal=False):
    return attention_mask(mask, causal=causal, n_pos=mask.shape[1])


def test_scores_of_0_and_ln_3_give_a_quarter_and_three_quarters():
    k = torch.tensor([[[[0.0], [math.log(3.0)]]]])
    assert_close(attention_pattern(torch.ones(1, 1, 1, 1), k), torch.tensor([[[[0.25, 0.75]]]]))


def test_scores_are_divided_by_the_root_of_d_head():
    """A21: q . k = 12 with d_head 4 is a score of 6; the root of any other width gives another number."""
    q = torch.tensor([[[[1.0, 2.0, 3.0, 0.0]]]])
    k = torch.tensor([[[[2.0, 2.0, 2.0, 9.0]]]])
    assert_close(masked_scores(q, k, None), torch.tensor([[[[6.0]]]]))


def test_rows_are_queries_and_columns_are_keys():
    """Catches a transposed pattern: only query 1 looks at key 0."""
    q = torch.tensor([[[[0.0], [100.0]]]])
    k = torch.tensor([[[[1.0], [-1.0]]]])
    assert_close(attention_pattern(q, k), torch.tensor([[[[0.5, 0.5], [1.0, 0.0]]]]))


def test_a_padded_key_gets_exactly_0_and_the_rest_shares_1():
    """A6: with the inverted sense, all weight would stand on the padding."""
    mask = torch.tensor([[False, False, True, True], [False, False, False, False]])
    pattern = attention_pattern(torch.zeros(2, 1, 4, 3), torch.zeros(2, 1, 4, 3), hidden_by(mask))
    assert pattern[0, 0].tolist() == [[0.5, 0.5, 0.0, 0.0]] * 4
    assert pattern[1, 0].tolist() == [[0.25] * 4] * 4


def test_masked_scores_are_minus_infinity_at_padded_keys_only():
    scores = masked_scores(torch.ones(1, 1, 2, 1), torch.ones(1, 1, 2, 1), hidden_by(torch.tensor([[False, True]])))
    assert scores.tolist() == [[[[1.0, -math.inf], [1.0, -math.inf]]]]


def test_head_h_has_the_features_from_h_times_d_head():
    """A4: head == length == batch, where an axis mixed up with another keeps the shape."""
    x = torch.arange(2 * 2 * 6.0).reshape(2, 2, 6)  # batch, pos, d_model; 2 heads
    heads = split_heads(x, 2)
    for batch in range(2):
        for head in range(2):
            for pos in range(2):
                assert heads[batch, head, pos].tolist() == x[batch, pos, 3 * head : 3 * head + 3].tolist()


def test_merge_undoes_split():
    x = torch.randn(3, 4, 12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(merge_heads(split_heads(x, 3)), x)


def test_the_module_is_the_equation_head_by_head():
    """A21: q, k, v from in_proj with bias; softmax(q k / sqrt(d_head)) v; out_proj with bias; for each head in turn."""
    model = rough(tiny(n_layers=1, n_heads=3, d_model=12))
    attn = model.encoder.layers[0].attn
    x = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = attn(x, None, tape=SILENT)
        q, k, v = (x @ attn.in_proj.weight.T + attn.in_proj.bias).split(12, dim=-1)
        heads = []
        for h in range(3):
            part = slice(4 * h, 4 * h + 4)
            weights = torch.softmax(q[..., part] @ k[..., part].mT / 2.0, dim=-1)  # sqrt(4) = 2
            heads.append(weights @ v[..., part])
        expected = torch.cat(heads, dim=-1) @ attn.out_proj.weight.T + attn.out_proj.bias
    assert_close(found, expected)


def test_recorded_pattern_times_v_through_out_proj_is_attn_out():
    """A21, in both placements: catches weights recorded before the mask or from another head than the one used."""
    for placement in ("pre", "post"):
        model = rough(tiny(norm_placement=placement))
        _, values = record(model, token_ids(2, 5), padding([5, 3], 5))
        for layer in range(2):
            out_proj = model.encoder.layers[layer].attn.out_proj
            z = values[f"layers.{layer}.attn.pattern"] @ values[f"layers.{layer}.attn.v"]
            assert_close(z, values[f"layers.{layer}.attn.z"])
            mixed = out_proj(z.transpose(1, 2).flatten(2))
            assert_close(mixed, values[f"layers.{layer}.attn_out"], rtol=0, atol=1e-5)
