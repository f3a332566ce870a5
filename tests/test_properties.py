"""What holds for every architecture and every text, on examples that hypothesis looks for."""

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

import explorer
from explorer import SITES, Recorder
from explorer.tape import site_names
from tests.helpers import configs, padding, record, rough, token_ids

SEEDS = st.integers(0, 1_000)
SIDES = st.sampled_from(["right", "left"])
LENGTHS = st.lists(st.integers(1, 8), min_size=1, max_size=3)


def same(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> bool:
    """Whether the largest difference is below the tolerance, on the scale of the values where they exceed 1."""
    scale = max(1.0, expected.abs().max().item())
    return found.shape == expected.shape and (found - expected).abs().max().item() <= tolerance * scale


@given(configs(), LENGTHS, SIDES, SEEDS)
def test_what_stands_in_padding_changes_no_real_output(config, lengths, side, seed):
    model = rough(config, seed)
    mask = padding(lengths, max(lengths) + 2, side)
    ids = token_ids(*mask.shape, seed=seed)
    other = torch.where(mask, token_ids(*mask.shape, seed=seed + 1), ids)
    first, second = model.encoder(ids, mask), model.encoder(other, mask)
    assert torch.equal(first[~mask], second[~mask])
    assert not torch.equal(ids, other)


@given(configs(), LENGTHS, SIDES, st.integers(0, 3), st.integers(4, 9), SEEDS)
def test_longer_padding_is_invisible_on_either_side(config, lengths, side, less, more, seed):
    model = rough(config, seed)
    real = [token_ids(1, length, seed=seed + row)[0] for row, length in enumerate(lengths)]
    outputs = []
    for extra, at in ((less, "right"), (more, side)):
        mask = padding(lengths, max(lengths) + extra, at)
        ids = torch.full(mask.shape, 5)
        ids[~mask] = torch.cat(real)
        outputs.append(model.encoder(ids, mask)[~mask])
    assert same(*outputs)


@given(configs(positions="none"), st.permutations(range(6)), SEEDS)
def test_without_positions_permuting_tokens_permutes_outputs(config, order, seed):
    model = rough(config, seed)
    ids = token_ids(2, 6, seed=seed)
    assert same(model.encoder(ids[:, order]), model.encoder(ids)[:, order])


@given(configs(), st.permutations(range(6)), SEEDS)
def test_with_positions_it_does_not(config, order, seed):
    """So that the property above is about positions, and not about an encoder that ignores order altogether."""
    assume(config.positions != "none")
    assume(order != sorted(order))
    model = rough(config, seed)
    ids = token_ids(2, 6, seed=seed)
    assert not same(model.encoder(ids[:, order]), model.encoder(ids)[:, order], tolerance=1e-4)


@given(configs(), LENGTHS, SIDES, SEEDS)
def test_rows_sum_to_1_and_padded_columns_are_0(config, lengths, side, seed):
    mask = padding(lengths, max(lengths) + 1, side)
    _, values = record(rough(config, seed), token_ids(*mask.shape, seed=seed), mask)
    for layer in range(config.n_layers):
        pattern = values[f"layers.{layer}.attn.pattern"]
        assert_allclose(pattern.sum(dim=-1), 1, rtol=0, atol=1e-5)
        assert (pattern >= 0).all()
        assert (pattern.permute(0, 3, 1, 2)[mask] == 0).all()


@given(configs(), LENGTHS, SIDES, SEEDS)
def test_the_record_has_every_site_with_its_axes(config, lengths, side, seed):
    mask = padding(lengths, max(lengths) + 1, side)
    batch, pos = mask.shape
    _, values = record(rough(config, seed), token_ids(batch, pos, seed=seed), mask)
    assert sorted(values) == sorted(site_names(config))
    sizes = {"batch": batch, "pos": pos, "query": pos, "key": pos, "head": config.n_heads}
    sizes |= {"d_model": config.d_model, "d_head": config.d_head, "d_ff": config.d_ff}
    for site, value in values.items():
        kind = ".".join("*" if part.isdigit() else part for part in site.split("."))
        axes = SITES[kind].split()
        assert value.ndim == len(axes)
        assert [sizes[axis] for axis in axes] == list(value.shape)


@given(configs(), LENGTHS, SIDES, SEEDS)
def test_recording_changes_no_bit(config, lengths, side, seed):
    model = rough(config, seed)
    mask = padding(lengths, max(lengths), side)
    ids = token_ids(*mask.shape, seed=seed)
    for chosen in (Recorder(), Recorder(lambda site: site.endswith("attn.q"))):
        assert torch.equal(model.encoder(ids, mask, tape=chosen), model.encoder(ids, mask))


@given(configs(), LENGTHS, SIDES, SEEDS)
def test_the_stream_is_one_stream(config, lengths, side, seed):
    """resid_post of a layer is resid_pre of the next, and the residual equations hold, in both placements (A15)."""
    mask = padding(lengths, max(lengths) + 1, side)
    output, values = record(rough(config, seed), token_ids(*mask.shape, seed=seed), mask)
    for layer in range(config.n_layers):
        v = {site: values[f"layers.{layer}.{site}"] for site in ("resid_pre", "resid_mid", "resid_post", "norm1.in")}
        v |= {site: values[f"layers.{layer}.{site}"] for site in ("norm1.out", "norm2.in", "norm2.out")}
        attn_out, ff_out = values[f"layers.{layer}.attn_out"], values[f"layers.{layer}.ff_out"]
        if layer:
            assert torch.equal(v["resid_pre"], values[f"layers.{layer - 1}.resid_post"])
        if config.norm_placement == "pre":
            assert torch.equal(v["norm1.in"], v["resid_pre"])
            assert torch.equal(v["norm2.in"], v["resid_mid"])
            assert torch.equal(v["resid_mid"], v["resid_pre"] + attn_out)
            assert torch.equal(v["resid_post"], v["resid_mid"] + ff_out)
        else:
            assert torch.equal(v["norm1.in"], v["resid_pre"] + attn_out)
            assert torch.equal(v["norm2.in"], v["resid_mid"] + ff_out)
            assert torch.equal(v["resid_mid"], v["norm1.out"])
            assert torch.equal(v["resid_post"], v["norm2.out"])
    last = values[f"layers.{config.n_layers - 1}.resid_post"]
    assert torch.equal(output, values["final_norm.out"] if config.final_norm else last)
    assert not config.final_norm or torch.equal(values["final_norm.in"], last)


WORDS = st.lists(st.sampled_from(["cat", "dog", "the", "中", "😀", "café", "."]), max_size=6).map(" ".join)


@given(configs(vocab_size=None), st.lists(WORDS, min_size=1, max_size=3), SIDES, SEEDS)
def test_a_run_is_the_encoder_and_its_scores_are_the_recorded_ones(config, sentences, side, seed):
    model = rough(config, seed)
    batch = model.batch(sentences, padding_side=side)
    run = explorer.run(model, batch)
    tape = Recorder()
    with torch.inference_mode():
        alone = model.encoder(batch.token_ids, batch.key_padding_mask, tape=tape)
    assert np.array_equal(run.output, alone.numpy())
    for layer in range(config.n_layers):
        assert np.array_equal(run.trace.scores(layer), tape.values[f"layers.{layer}.attn.scores"].numpy())
        assert np.array_equal(run.trace.pattern(layer), tape.values[f"layers.{layer}.attn.pattern"].numpy())
