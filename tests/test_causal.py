"""Causal attention: each token sees itself and what stands before it. What it leaves alone, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import explorer
from explorer import MaskError, Recorder
from explorer.model import attention
from explorer.model.attention import attention_mask
from explorer.stats import attention_entropy
from explorer.stats.heads import head_scores
from explorer.stats.rollout import attention_product, attention_rollout, real_part
from tests.helpers import configs, padding, record, rough, tiny, token_ids
from tests.inputs import ARCHITECTURES

SENTENCES = ["one two three", "four"]
PLACEMENTS = pytest.mark.parametrize("placement", ["pre", "post"])
SEEDS = st.integers(0, 1_000)
LENGTHS = st.lists(st.integers(1, 8), min_size=1, max_size=3)


def test_the_mask_by_hand():
    """[batch, 1, query, key], True = hidden; axes along which it is the same have size 1."""
    mask = padding([3, 2], 3)
    assert attention_mask(mask, causal=False, n_pos=3).tolist() == [[[[False] * 3]], [[[False, False, True]]]]
    triangle = [[False, True, True], [False, False, True], [False, False, False]]
    assert attention_mask(None, causal=True, n_pos=3).tolist() == [[triangle]]
    both = [[False, True, True], [False, False, True], [False, False, True]]
    assert attention_mask(mask, causal=True, n_pos=3).tolist() == [[triangle], [both]]


def test_there_is_no_mask_where_nothing_is_hidden():
    """A mask costs a pass over query x key in every layer."""
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    assert attention_mask(None, causal=False, n_pos=3) is None
    assert attention_mask(nothing, causal=False, n_pos=3) is None
    assert attention_mask(None, causal=True, n_pos=1) is None
    assert attention_mask(nothing, causal=True, n_pos=3).shape == (1, 1, 3, 3)
    assert attention_mask(None, causal=True, n_pos=3, device=torch.device("meta")).is_meta


@pytest.mark.parametrize(("causal", "lengths"), [(False, [5, 5]), (False, [5, 3]), (True, [5, 5]), (True, [5, 3])])
def test_the_mask_is_built_once_a_pass_and_not_applied_where_it_hides_nothing(monkeypatch, causal, lengths):
    given_masks = []
    scores = attention.masked_scores
    monkeypatch.setattr(
        attention, "masked_scores", lambda q, k, hidden: given_masks.append(hidden) or scores(q, k, hidden)
    )
    rough(tiny(n_layers=3)).encoder(token_ids(2, 5), padding(lengths, 5), causal=causal)
    assert len(given_masks) == 3
    assert len({id(hidden) for hidden in given_masks}) == 1
    assert (given_masks[0] is None) == (not causal and lengths == [5, 5])


@given(configs(), st.integers(2, 9), SEEDS, st.data())
def test_a_later_token_changes_no_earlier_one(config, n_pos, seed, data):
    """Bit for bit, at every site: nothing of it reaches them, not even through a sum."""
    at = data.draw(st.integers(1, n_pos - 1))
    model = rough(config, seed)
    ids = token_ids(2, n_pos, seed=seed)
    other = torch.cat([ids[:, :at], token_ids(2, n_pos - at, seed=seed + 1)], dim=1)
    (_, before), (_, after) = (record(model, x, causal=True) for x in (ids, other))
    for site, value in before.items():
        axis = 2 if ".attn." in site else 1
        assert torch.equal(value.narrow(axis, 0, at), after[site].narrow(axis, 0, at)), site


def test_without_causal_it_does():
    """So that the property above is about the triangle."""
    model = rough(tiny())
    ids = token_ids(1, 5)
    other = torch.cat([ids[:, :4], ids[:, :1]], dim=1)
    assert (model.encoder(ids)[:, :4] - model.encoder(other)[:, :4]).abs().max() > 1e-3


@given(configs(vocab_size=None), LENGTHS, SEEDS)
def test_the_triangle_is_exactly_0_and_the_first_token_sees_itself_alone(config, lengths, seed):
    mask = padding(lengths, max(lengths) + 1)
    _, values = record(rough(config, seed), token_ids(*mask.shape, seed=seed), mask, causal=True)
    for layer in range(config.n_layers):
        pattern = values[f"layers.{layer}.attn.pattern"]
        assert not pattern.triu(1).any()
        assert not pattern.permute(0, 3, 1, 2)[mask].any()
        assert_allclose(pattern.sum(dim=-1), 1, rtol=0, atol=1e-5)
        assert (pattern[:, :, 0, 0] == 1).all()
        entropy = attention_entropy(pattern.numpy(), mask.numpy(), causal=True)
        assert (entropy[:, :, 0] == 0).all()
        n_keys = 1 + np.arange(mask.shape[1])
        assert (
            entropy[~np.isnan(entropy)] <= np.broadcast_to(np.log(n_keys), entropy.shape)[~np.isnan(entropy)] + 1e-6
        ).all()


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("extra", [0, 3])
def test_padding_on_the_right_is_invisible(name, extra):
    """A8: it comes later than every word, so it is hidden twice."""
    model = rough(ARCHITECTURES[name])
    ids = token_ids(1, 4, high=50)
    alone = model.encoder(ids, causal=True)
    padded = torch.cat([ids, torch.full((1, extra), 7)], dim=1)
    for mask in (padding([4], 4 + extra), None):
        assert_allclose(model.encoder(padded, mask, causal=True)[:, :4], alone, rtol=0, atol=1e-5)


@PLACEMENTS
def test_left_padding_and_the_mask_leave_queries_without_a_key(placement, monkeypatch):
    """A10: NaN in two rows of layer 0 would be in every row of layer 1."""
    model = rough(tiny(norm_placement=placement))
    batch = model.batch(SENTENCES, padding_side="left")
    embedded = []
    monkeypatch.setattr(type(model.encoder.embed), "forward", lambda *args, **kwargs: embedded.append(1))
    with pytest.raises(
        MaskError, match=r"sequence 1 has 2 queries without a key: .*; pad on the right, leave padding out"
    ):
        model.encoder(batch.token_ids, batch.key_padding_mask, causal=True)
    with pytest.raises(MaskError, match=r"the sentence 'four' has 2 queries without a key: .*bidirectional attention$"):
        explorer.run(model, batch, causal=True)
    assert embedded == []


def test_one_query_without_a_key_is_not_two():
    with pytest.raises(MaskError, match="sequence 0 has 1 query without a key"):
        rough(tiny()).encoder(token_ids(2, 4), padding([3, 4], 4, "left"), causal=True)


@PLACEMENTS
def test_left_padding_without_the_mask_is_allowed_and_the_pads_are_keys(placement):
    model = rough(tiny(norm_placement=placement))
    run = explorer.run(model, model.batch(SENTENCES, padding_side="left"), causal=True, use_mask=False)
    assert np.isfinite(run.output).all()
    assert (run.trace.pattern(0)[1][:, 2, :3] > 0).all()
    assert set(run.tables.attention(0, head=0, sentence=1)["n_keys"]) == {3, 4, 5}
    assert np.isfinite(explorer.run(model, model.batch(SENTENCES), causal=True).output).all()


@PLACEMENTS
@pytest.mark.parametrize("sentences", [SENTENCES, SENTENCES[:1]], ids=["padded", "whole"])
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
def test_scores_before_and_after_the_mask(placement, sentences, causal):
    model = rough(tiny(norm_placement=placement))
    batch = model.batch(sentences)
    trace = explorer.run(model, batch, causal=causal).trace
    recorder = Recorder()
    with torch.inference_mode():
        model.encoder(batch.token_ids, batch.key_padding_mask, causal=causal, tape=recorder)
    expected = np.zeros((len(sentences), 5, 5), dtype=bool) | (np.arange(5) > np.arange(5)[:, None]) & causal
    expected |= batch.key_padding_mask.numpy()[:, None, :]
    assert trace.causal == causal
    assert np.array_equal(trace.hidden_keys(), expected)
    for layer in range(2):
        scores, raw = trace.scores(layer), trace.raw_scores(layer)
        assert np.array_equal(scores, recorder.values[f"layers.{layer}.attn.scores"].numpy())
        hidden = np.broadcast_to(expected[:, None], scores.shape)
        assert np.isneginf(scores[hidden]).all()
        assert np.array_equal(scores[~hidden], raw[~hidden])
        by_hand = trace.q(layer) @ trace.k(layer).swapaxes(-2, -1) / math.sqrt(model.config.d_head)
        assert_allclose(raw, by_hand, rtol=0, atol=1e-5)


def test_where_scores_are_kept_those_before_the_mask_agree_with_them():
    """Another device rounds in its own way; the scores that it kept are the ones to show."""
    model = rough(tiny())
    batch = model.batch(SENTENCES)
    plain = explorer.run(model, batch, causal=True).trace
    kept = {f"layers.{layer}.attn.scores": torch.tensor(plain.scores(layer) + 0.25) for layer in range(2)}
    trace = explorer.Trace(plain._values | kept, model.config, batch.key_padding_mask, causal=True)
    shown = ~np.broadcast_to(trace.hidden_keys()[:, None], trace.scores(1).shape)
    assert np.array_equal(trace.raw_scores(1)[shown], trace.scores(1)[shown])
    assert np.array_equal(trace.raw_scores(1)[~shown], plain.raw_scores(1)[~shown])
    with pytest.raises(IndexError, match="layer 2 does not exist"):
        trace.raw_scores(2)


@PLACEMENTS
def test_the_attention_table_counts_the_keys_of_each_query(placement):
    model = rough(tiny(norm_placement=placement))
    run = explorer.run(model, model.batch(SENTENCES), causal=True)
    table = run.tables.attention()
    assert run.causal
    assert len(table) == 2 * 2 * (5 + 3)
    assert (table["n_keys"] == table["pos"] + 1).all()
    assert_allclose(table["max_entropy"], np.log(table["n_keys"]))
    assert (table["entropy"] <= table["max_entropy"] + 1e-6).all()
    first = table[table["pos"] == 0]
    assert (first["entropy"] == 0).all()
    assert (first["strongest_weight"] == 1).all()
    assert (first["strongest_key"] == "[CLS]").all()
    assert (table["strongest_position"] <= table["position"]).all()


def test_no_query_has_a_next_token_and_the_other_scores_are_of_the_pattern():
    """0 would read as if the head had learned not to look there."""
    model = rough(tiny())
    run = explorer.run(model, model.batch(SENTENCES), causal=True)
    heads = run.tables.heads()
    assert heads["next"].isna().all()
    assert not heads.drop(columns="next").isna().any(axis=None)
    for row in heads.itertuples():
        n = (5, 3)[row.sentence]
        pattern = run.trace.pattern(row.layer)[row.sentence, row.head, :n, :n]
        assert row.previous == pytest.approx(np.diagonal(pattern, -1).mean(), abs=1e-6)
        assert row.cls == pytest.approx(pattern[:, 0].mean(), abs=1e-6)
    none = {name: np.zeros((1, 2), dtype=bool) for name in ("cls", "sep", "punctuation")}
    pattern = np.array([[[[1.0, 0.0], [0.25, 0.75]]]], dtype=np.float32)
    assert head_scores(pattern, np.zeros((1, 2), dtype=bool), none)["next"].tolist() == [[0.0]]
    assert np.isnan(head_scores(pattern, np.zeros((1, 2), dtype=bool), none, causal=True)["next"]).all()


def test_entropy_refuses_weight_on_a_later_key():
    pattern = np.full((1, 1, 2, 2), 0.5, dtype=np.float32)
    with pytest.raises(ValueError, match="a key after its query has weight"):
        attention_entropy(pattern, np.zeros((1, 2), dtype=bool), causal=True)


@PLACEMENTS
def test_rollout_of_a_causal_run_looks_back_only(placement):
    model = rough(tiny(n_layers=3, norm_placement=placement))
    run = explorer.run(model, model.batch(SENTENCES), causal=True)
    patterns = real_part(run.trace.pattern()[:, 1], run.batch.key_padding_mask[1].numpy())
    for product in (attention_rollout(patterns), attention_product(patterns)):
        assert_allclose(product.sum(axis=-1), 1, rtol=0, atol=1e-6)
        assert not np.triu(product, k=1).any()
        assert (product[:, 0, 0] == 1).all()


def test_a_causal_run_of_the_trained_encoder(minilm):
    """[CLS] sees itself alone, so it is the same before every sentence."""
    one, other = (
        explorer.run(minilm, minilm.batch([text]), causal=True) for text in ("The cat.", "Nobody came today.")
    )
    assert np.array_equal(one.output[0, 0], other.output[0, 0])
    plain = explorer.run(minilm, minilm.batch(["The cat."]))
    assert np.abs(plain.output[0, 0] - one.output[0, 0]).max() > 0.1


@PLACEMENTS
def test_heads_off_and_causal_together(placement):
    model = rough(tiny(norm_placement=placement))
    run = explorer.run(model, model.batch(SENTENCES), causal=True, heads_off={(0, 1)})
    assert not run.trace.z(0)[:, 1].any()
    assert all(claim.holds for claim in explorer.proof(run, model))
