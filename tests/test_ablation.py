"""Two runs compared: by hand, padded, and where batch, heads and length are equal."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import explorer
from explorer import ConfigError, Trace, attention_change, output_change
from explorer.ablation import stream_change
from explorer.stats.attention import total_variation
from explorer.stats.residual import cosine
from tests.helpers import rough, tiny

SIDES = pytest.mark.parametrize("side", ["right", "left"])
LENGTHS = {0: 5, 1: 3}


def run_of(side="right", sentences=("one two three", "four"), heads_off=(), **changes):
    model = rough(tiny(**changes))
    return explorer.run(model, model.batch(list(sentences), padding_side=side), heads_off=heads_off)


def with_output(run, output):
    return replace(run, output=np.array(output, dtype=np.float32))


def with_patterns(run, patterns, **changes):
    """The run with these patterns, `[layer, batch, head, query, key]`."""
    values = {f"layers.{i}.attn.pattern": torch.tensor(layer).float() for i, layer in enumerate(patterns)}
    return replace(run, trace=Trace(values, run.config, None), **changes)


def test_three_four_five():
    """[CLS] goes from (3, 0) to (3, 4), [SEP] from (1, 0) to (0, 2)."""
    run = run_of(sentences=[""], d_model=2, n_heads=1)
    table = output_change(with_output(run, [[[3, 0], [1, 0]]]), with_output(run, [[[3, 4], [0, 2]]]))
    assert list(table.columns) == [
        *("sentence", "pos", "position", "token"),
        *("norm_before", "norm_after", "change", "cosine"),
    ]
    assert table["token"].tolist() == ["[CLS]", "[SEP]"]
    assert table["norm_before"].tolist() == [3, 1]
    assert table["norm_after"].tolist() == [5, 2]
    assert table["change"].tolist() == pytest.approx([4, 5**0.5])
    assert table["cosine"].tolist() == pytest.approx([0.6, 0])


@SIDES
def test_the_stream_moves_from_the_layer_of_the_head_on_and_padding_is_left_out(side):
    before, after = run_of(side, n_layers=3), run_of(side, n_layers=3, heads_off={(1, 0)})
    table = stream_change(before, after)
    assert (table["layer"].value_counts() == 5 + 3).all()
    assert (table.query("layer == 0")["change"] == 0).all()
    assert (table.query("layer >= 1")["change"] > 0).all()
    row = stream_change(before, after, sentence=1).query("layer == 2").iloc[0]
    one, other = (run.trace.resid("post", 2)[1, row["pos"]] for run in (before, after))
    assert row["change"] == pytest.approx(np.linalg.norm(other - one) / np.linalg.norm(one), rel=1e-5)
    assert row["token"] == "[CLS]"


def test_cosine_is_exactly_1_where_equal_and_nan_where_there_is_no_direction():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 7)).astype(np.float32)
    assert (cosine(x, x) == 1).all()
    assert cosine(x, -x) == pytest.approx(-1)
    assert (cosine(x, 3 * x) <= 1).all()
    zero = np.zeros((2, 3), dtype=np.float32)
    assert np.isnan(cosine(zero, zero)).all()
    assert np.isnan(cosine(zero, np.ones((2, 3), dtype=np.float32))).all()
    assert cosine(np.full((1, 2), 1e30, dtype=np.float32), np.array([[1e30, 0]], dtype=np.float32)) == pytest.approx(
        0.5**0.5
    )


def test_total_variation_by_hand():
    p = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], dtype=np.float32)
    q = np.array([[0, 0.5, 0.5], [0.5, 0.25, 0.25], [0.2, 0.3, 0.5]], dtype=np.float32)
    assert total_variation(p, q).tolist() == [1, 0.25, 0]


@SIDES
def test_padding_has_no_row_and_no_share_in_a_mean(side):
    """The patterns of padded queries differ by 1 here; those of real ones by 1/2 in two of three, in head 1 alone."""
    run = run_of(side, n_layers=1)
    real = ~run.batch.key_padding_mask.numpy()
    before = np.zeros((1, 2, 2, 5, 5))
    before[..., 2] = 1
    after = before.copy()
    after[0].transpose(0, 2, 1, 3)[~real] = [0, 1, 0, 0, 0]
    first = real[1].argmax()
    after[0, 1, 1, first : first + 2] = [0, 0, 0.5, 0.5, 0]
    table = attention_change(with_patterns(run, before), with_patterns(run, after, heads_off=frozenset({(0, 1)})))
    assert table.values.tolist() == [
        [0, 0, 0, False, 0],
        [0, 0, 1, True, 0],
        [1, 0, 0, False, 0],
        [1, 0, 1, True, pytest.approx(1 / 3)],
    ]
    changed = with_output(run, np.where(real[..., None], run.output, 99))
    tokens = output_change(run, changed)
    assert len(tokens) == sum(LENGTHS.values())
    assert not tokens["change"].any()
    assert (tokens["cosine"] == 1).all()
    assert tokens["position"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert tokens["pos"].tolist()[5:] == ([0, 1, 2] if side == "right" else [2, 3, 4])


def test_sentences_heads_and_queries_are_told_apart_where_their_numbers_are_equal():
    """B = H = length = 3: one row of one head of one sentence has moved, by 1 of 3 queries."""
    run = run_of(sentences=["one", "two", "three"], n_heads=3, d_model=12)
    before = np.tile(np.eye(3), (2, 3, 3, 1, 1))
    after = before.copy()
    after[1, 0, 2, 1] = [1, 0, 0]
    table = attention_change(with_patterns(run, before), with_patterns(run, after))
    assert len(table) == 2 * 3 * 3
    moved = table[table["change"] > 0]
    assert moved.values.tolist() == [[0, 1, 2, False, pytest.approx(1 / 3)]]


@SIDES
@pytest.mark.parametrize("sentence", [0, 1])
def test_one_sentence_is_a_part_of_the_whole_table(side, sentence):
    before, after = run_of(side), run_of(side, heads_off=[(0, 1)])
    for change in (output_change, attention_change):
        whole = change(before, after)
        rows = whole[whole["sentence"] == sentence].reset_index(drop=True)
        assert change(before, after, sentence=sentence).equals(rows)
        assert len(rows) > 0


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_switching_a_head_off_moves_later_layers_and_the_output(placement):
    before = run_of(norm_placement=placement, n_layers=3)
    after = run_of(norm_placement=placement, n_layers=3, heads_off=[(1, 0)])
    table = attention_change(before, after)
    assert table["change"].between(0, 1).all()
    assert not table.loc[table["layer"] <= 1, "change"].any()
    assert (table.loc[table["layer"] == 2, "change"] > 0).all()
    assert table.loc[table["off"], ["layer", "head"]].drop_duplicates().values.tolist() == [[1, 0]]
    tokens = output_change(before, after)
    assert (tokens["change"] > 0).all()
    assert (tokens["cosine"] < 1).all()


def test_runs_of_different_tokens_or_encoders_are_refused():
    run = run_of()
    for other in (run_of(sentences=["one two three", "five"]), run_of(sentences=["one"]), run_of("left")):
        for change in (output_change, attention_change):
            with pytest.raises(ConfigError, match=r"different tokens .* run the same batch twice"):
                change(run, other)
    with pytest.raises(ConfigError, match="n_layers 2 and 1; compare runs of one encoder"):
        attention_change(run, run_of(n_layers=1))
    with pytest.raises(ConfigError, match="d_model 8 and 4"):
        output_change(run, run_of(d_model=4))
