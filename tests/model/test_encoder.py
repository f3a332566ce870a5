"""The stack, its border, and what it refuses."""

import pytest
import torch
from torch.testing import assert_close

from explorer import MaskError, TextError, build
from explorer.model import build_encoder
from tests.helpers import padding, record, rough, tiny, token_ids


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mask", [torch.ones(2, 4), torch.ones(2, 4, dtype=torch.int64)], ids=["float", "int"])
def test_a_mask_that_is_not_bool_is_refused(mask):
    """A6: a 0/1 mask of the other sense would put all weight on the padding, without any error."""
    with pytest.raises(
        MaskError, match=r"must be bool with True = padding, not torch\.(float32|int64); .*\(mask == 0\)"
    ):
        build(tiny()).encoder(token_ids(2, 4), mask)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(MaskError, match=r"key_padding_mask has shape \[2, 3\], token_ids \[2, 4\]"):
        build(tiny()).encoder(token_ids(2, 4), padding([3, 3], 3))


def test_a_sequence_of_padding_only_is_refused_by_number():
    """A10: it would give NaN, which spreads to every mean."""
    with pytest.raises(MaskError, match="sequence 1 has no real token"):
        build(tiny()).encoder(token_ids(3, 4), padding([4, 0, 2], 4))


def test_more_tokens_than_max_len_are_refused():
    """C7: with both numbers."""
    with pytest.raises(TextError, match=r"33 tokens are more than max_len \(32\)"):
        build(tiny()).encoder(token_ids(1, 33))


def test_building_draws_nothing_and_allocates_no_parameter():
    before = torch.get_rng_state()
    encoder = build_encoder(tiny(vocab_size=1_000_000, d_model=2048, n_heads=8))
    assert all(parameter.is_meta for parameter in encoder.parameters())
    assert torch.equal(before, torch.get_rng_state())
    assert not encoder.training


def test_there_is_no_dropout_even_in_training_mode():
    """A11: rows would sum to between 0 and 2, and two runs would differ."""
    model = build(tiny())
    model.encoder.train()
    ids = token_ids(2, 5)
    (first, values), (second, _) = record(model, ids), record(model, ids)
    assert torch.equal(first, second)
    assert_close(values["layers.1.attn.pattern"].sum(-1), torch.ones(2, 2, 5), rtol=0, atol=1e-5)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_mask_that_hides_nothing_changes_no_bit(placement):
    model = rough(tiny(norm_placement=placement))
    ids = token_ids(2, 5)
    assert torch.equal(model.encoder(ids), model.encoder(ids, torch.zeros(2, 5, dtype=torch.bool)))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_short_sentence_is_the_same_alone_and_beside_a_long_one(placement, side):
    """A8: without the mask the outputs differ by 0.31."""
    model = rough(tiny(norm_placement=placement))
    ids, mask = token_ids(2, 6), padding([3, 6], 6, side)
    together = model.encoder(ids, mask)[0, ~mask[0]]
    alone = model.encoder(ids[:1, ~mask[0]])[0]
    assert_close(together, alone, rtol=0, atol=1e-5)
    assert (model.encoder(ids)[0, ~mask[0]] - alone).abs().max() > 1e-2  # so the mask is what made them equal


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("lengths", [[5, 5], [3, 2]], ids=["whole", "padded"])
def test_every_stream_is_dense_and_as_wide_as_the_batch(placement, lengths):
    """A1: torch's own encoder cuts a padded batch to its longest sentence, or nests it."""
    model = rough(tiny(norm_placement=placement))
    output, values = record(model, token_ids(2, 5), padding(lengths, 5))
    for site in ("embed.sum", "layers.0.resid_mid", "layers.1.resid_post"):
        assert values[site].shape == (2, 5, 8)
        assert values[site].layout == torch.strided
        assert not values[site].is_nested
        assert values[site].isfinite().all()
    assert output.shape == (2, 5, 8)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_final_norm_is_there_for_pre_ln_and_absent_for_post_ln(placement):
    """A13."""
    output, values = record(build(tiny(norm_placement=placement)), token_ids(1, 4))
    assert ("final_norm.in" in values) == (placement == "pre")
    if placement == "pre":
        assert torch.equal(values["final_norm.in"], values["layers.1.resid_post"])
    assert_close(output.std(-1, correction=0), torch.ones(1, 4), rtol=0, atol=1e-3)


def test_the_first_layers_share_parameters_and_keep_the_final_norm():
    encoder = rough(tiny(n_layers=3, norm_placement="pre")).encoder
    first = encoder.first(2)
    assert len(first.layers) == 2
    assert first.layers[1] is encoder.layers[1]
    assert first.final_norm is encoder.final_norm
    assert not first.training
