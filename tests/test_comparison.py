"""Any two runs side by side: by hand, by brute force, against themselves, swapped, and where one has more."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal

import explorer
from explorer import Trace, compare
from explorer.ablation import attention_change, output_change, stream_change
from explorer.comparison import ABSENT, TOLERANCE
from tests.helpers import rough, tiny

SIDES = pytest.mark.parametrize("side", ["right", "left"])
TEXT_A = ["the cat sat on the mat", "yes"]
TEXT_B = ["the big cat sat on a mat today", "no"]


def run_of(sentences=TEXT_A, side="right", seed=0, pad_to=None, use_mask=True, heads_off=(), **changes):
    model = rough(tiny(**changes), seed)
    batch = model.batch(list(sentences), pad_to=pad_to, padding_side=side)
    return explorer.run(model, batch, use_mask=use_mask, heads_off=heads_off)


VARIANTS = {
    "text": {"sentences": TEXT_B},
    "seed": {"seed": 1},
    "placement": {"norm_placement": "pre"},
    "padding side": {"side": "left", "pad_to": 12},
    "mask": {"pad_to": 12, "use_mask": False},
    "mask and side": {"side": "left", "pad_to": 12, "use_mask": False},
    "heads off": {"heads_off": {(0, 1)}},
    "layers and heads": {"sentences": TEXT_B, "n_layers": 3, "n_heads": 4, "norm_placement": "pre"},
    "fewer layers and a final norm": {"n_layers": 1, "norm_placement": "pre"},
    "width": {"sentences": TEXT_B, "d_model": 12, "n_heads": 3, "embedding_norm": True},
}
PAIRS = pytest.mark.parametrize("name", list(VARIANTS))


@cache
def pair(name):
    """Two runs that differ in one thing, or in many."""
    return run_of(pad_to=10), run_of(**VARIANTS[name])


def with_patterns(run, patterns):
    """The run with these patterns, `[layer, batch, head, query, key]`, and nothing else."""
    values = {f"layers.{i}.attn.pattern": torch.tensor(layer).float() for i, layer in enumerate(patterns)}
    return replace(run, trace=Trace(values, run.config, None))


def with_stream(run, changed):
    """The run with these sites replaced: name to a function of the recorded array."""
    values = {site: run.trace.tensor(*reversed(_named(site))) for site in changed}
    new = {site: torch.from_numpy(change(values[site].copy())) for site, change in changed.items()}
    return replace(run, trace=Trace({**run.trace._values, **new}, run.config, run.trace.key_padding_mask))


def _named(site):
    _, layer, name = site.split(".", 2)
    return int(layer), name


def same_bits(x, y):
    """Equal where they are numbers, NaN in the same places."""
    assert_array_equal(np.asarray(x, dtype=float), np.asarray(y, dtype=float), strict=True)


# A against itself


@SIDES
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("sentence", [0, 1])
@pytest.mark.parametrize("use_mask", [True, False])
def test_a_run_against_itself_is_exactly_0_everywhere(side, placement, sentence, use_mask):
    a, b = (run_of(side=side, norm_placement=placement, embedding_norm=True, use_mask=use_mask) for _ in range(2))
    both = compare(a, b, sentence_a=sentence, sentence_b=sentence)
    for layer in range(2):
        for head in (0, 1, None):
            assert (both.pattern(layer, head).difference == 0).all()
    assert (both.heads()["moved"] == 0).all()
    for table, distance in ((both.stream(), "distance"), (both.outputs(), "change")):
        assert (table[[distance, "relative"]] == 0).all(axis=None)
        assert (table["cosine"] == 1).all()
    for table in (both.layernorm(), both.residual()):
        for column in table.columns[table.columns.str.endswith("_difference")]:
            there = table[column.replace("_difference", "_a")].notna()
            assert (table.loc[there, column] == 0).all()
            assert there.any()
    assert both.parting() is None
    assert both.equal


# Swapped


@PAIRS
def test_swapped_every_difference_has_the_other_sign_bit_for_bit(name):
    a, b = pair(name)
    one, other = compare(a, b), compare(b, a)
    at = {pair: slot for slot, pair in enumerate(zip(other.alignment.b, other.alignment.a, strict=True))}
    order = [at[pair] for pair in zip(one.alignment.a, one.alignment.b, strict=True)]
    for layer in range(one.n_layers):
        forth, back = one.pattern(layer), other.pattern(layer)
        swapped = [array[:, order][:, :, order] for array in (back.b, back.a, -back.difference)]
        for array, expected in zip(forth, swapped, strict=True):
            same_bits(array, expected)
    forth, back = one.heads(), other.heads()
    same_bits(forth["moved"], back["moved"])
    assert_array_equal(forth[["in_a", "in_b", "off_a", "off_b"]], back[["in_b", "in_a", "off_b", "off_a"]])
    for forth, back, apart in (
        (one.stream(), other.stream(), "distance"),
        (one.outputs(), other.outputs(), "change"),
    ):
        assert forth["token"].str.lower().tolist() == back["token"].str.lower().tolist()
        same_bits(forth[[apart, "cosine", "norm_a", "norm_b"]], back[[apart, "cosine", "norm_b", "norm_a"]])
    for table in ("layernorm", "residual"):
        keys = ["norm" if table == "layernorm" else "point", "layer"]
        forth, back = (getattr(both, table)() for both in (one, other))
        back["slot"] = [order.index(slot) for slot in back["slot"]]
        forth, back = (rows.set_index([*keys, "slot"]).sort_index() for rows in (forth, back))
        assert forth.index.equals(back.index)
        for column in forth.columns[forth.columns.str.endswith("_difference")]:
            same_bits(forth[column], -back[column])
    assert (one.parting() is None) == (other.parting() is None)
    assert one.equal == other.equal


# Attention


@PAIRS
@pytest.mark.parametrize("sentence", [0, 1])
def test_patterns_are_the_recorded_ones_slot_by_slot(name, sentence):
    a, b = pair(name)
    both = compare(a, b, sentence_a=sentence, sentence_b=sentence)
    for layer in range(both.n_layers):
        for head in range(both.n_heads):
            sides = both.pattern(layer, head)
            for run, shown, place in ((a, sides.a, both.alignment.a), (b, sides.b, both.alignment.b)):
                expected = np.full(shown.shape, np.nan, dtype=np.float32)
                if layer < run.config.n_layers and head < run.config.n_heads:
                    recorded = run.trace.pattern(layer)[sentence, head]
                    for q, k in np.ndindex(expected.shape):
                        if ABSENT not in (place[q], place[k]):
                            expected[q, k] = recorded[place[q], place[k]]
                assert shown.dtype == np.float32
                same_bits(shown, expected)
            same_bits(sides.difference, sides.b - sides.a)
            for every, one in zip(both.pattern(layer), sides, strict=True):
                same_bits(every[head], one)


@PAIRS
@pytest.mark.parametrize("sentence", [0, 1])
def test_moved_is_the_total_variation_over_the_keys_of_both(name, sentence):
    a, b = pair(name)
    both = compare(a, b, sentence_a=sentence, sentence_b=sentence)
    places = list(zip(both.alignment.a.tolist(), both.alignment.b.tolist(), strict=True))
    table = both.heads()
    assert len(table) == both.n_layers * both.n_heads
    for row in table.itertuples():
        assert row.in_a == (row.layer < a.config.n_layers and row.head < a.config.n_heads)
        assert row.in_b == (row.layer < b.config.n_layers and row.head < b.config.n_heads)
        if not (row.in_a and row.in_b):
            assert np.isnan(row.moved)
            continue
        weights = [run.trace.pattern(row.layer)[sentence, row.head].astype(float) for run in (a, b)]
        rows = []
        for query, shared in zip(places, both.alignment.shared, strict=True):
            if shared:
                seen = [
                    [0.0 if key[run] < 0 else weights[run][query[run], key[run]] for key in places] for run in (0, 1)
                ]
                rows.append(sum(abs(y - x) for x, y in zip(*seen, strict=True)) / 2)
        assert row.moved == pytest.approx(np.mean(rows), abs=1e-12)
        assert 0 <= row.moved <= 1 + 1e-6


def test_heads_sentences_and_queries_are_told_apart_where_their_numbers_are_equal():
    """H = B = length = 3 (A4): one row of one head of one sentence has moved, by 1 of 3 queries."""
    run = run_of(["one", "two", "three"], n_heads=3, d_model=12)
    before = np.tile(np.eye(3), (2, 3, 3, 1, 1))
    after = before.copy()
    after[1, 0, 2, 1] = [1, 0, 0]
    a, b = with_patterns(run, before), with_patterns(run, after)
    moved = compare(a, b).heads()["moved"].to_numpy().reshape(2, 3)
    assert moved[1, 2] == pytest.approx(1 / 3)
    assert np.count_nonzero(moved) == 1
    assert compare(a, b).pattern(1, 2).difference.tolist() == [[0, 0, 0], [1, -1, 0], [0, 0, 0]]
    assert not compare(a, b, sentence_a=1, sentence_b=1).heads()["moved"].any()


def test_weight_on_a_key_that_only_one_text_has_is_moved():
    """[CLS] x [SEP] against [CLS] [SEP]: all weight of every query is on x in A, and on itself in B."""
    a, b = run_of(["x"], n_layers=1, n_heads=1), run_of([""], n_layers=1, n_heads=1)
    on_x = np.tile([0.0, 1.0, 0.0], (1, 1, 1, 3, 1))
    half = np.tile([0.25, 0.5, 0.25], (1, 1, 1, 3, 1))
    on_itself = np.eye(2)[None, None, None]
    assert compare(with_patterns(a, on_x), with_patterns(b, on_itself)).heads()["moved"].tolist() == [1]
    assert compare(with_patterns(a, half), with_patterns(b, on_itself)).heads()["moved"].tolist() == [0.75]


@SIDES
def test_rows_of_padding_have_no_share(side):
    run = run_of(["one two three", "four"], side=side, n_layers=1)
    real = ~run.batch.key_padding_mask.numpy()[1]
    before = np.zeros((1, 2, 2, 5, 5))
    before[..., 2] = 1
    after = before.copy()
    after[0, 1, :, ~real] = [0, 1, 0, 0, 0]
    both = compare(with_patterns(run, before), with_patterns(run, after), sentence_a=1, sentence_b=1)
    assert both.heads()["moved"].tolist() == [0, 0]
    assert np.abs(both.pattern(0, 0).difference[~real]).sum() == 2 * 2


def test_heads_that_are_off_are_named_on_their_side_and_in_their_layer():
    a, b = run_of(heads_off={(1, 0)}), run_of(heads_off={(0, 1)})
    table = compare(a, b).heads().set_index(["layer", "head"])
    assert table.index[table["off_a"]].tolist() == [(1, 0)]
    assert table.index[table["off_b"]].tolist() == [(0, 1)]


def test_layers_and_heads_that_neither_has_are_refused():
    both = compare(run_of(), run_of(n_layers=3))
    for layer in (-1, 3):
        with pytest.raises(IndexError, match=f"layer {layer} does not exist; these runs have layers 0 to 2"):
            both.pattern(layer, 0)
    for head in (-1, 2):
        with pytest.raises(IndexError, match=f"head {head} does not exist; these runs have heads 0 to 1"):
            both.pattern(0, head)
    with pytest.raises(IndexError, match="sentence 2 does not exist"):
        compare(run_of(), run_of(), sentence_b=2)


# The stream and the output


@PAIRS
@pytest.mark.parametrize("sentence", [0, 1])
def test_the_stream_is_compared_at_every_checkpoint_of_either(name, sentence):
    a, b = pair(name)
    both = compare(a, b, sentence_a=sentence, sentence_b=sentence)
    shared = np.flatnonzero(both.alignment.shared)
    inside = [(point, layer) for layer in range(both.n_layers) for point in ("mid", "post")]
    final = [("final", None)] if a.config.final_norm or b.config.final_norm else []
    points = [("pre", 0), *inside, *final]
    table = both.stream()
    assert [*table] == ["point", "layer", "slot", "token", "norm_a", "norm_b", "distance", "relative", "cosine"]
    assert len(table) == len(points) * len(shared)
    for index, (point, layer) in enumerate(points):
        rows = table.iloc[index * len(shared) : (index + 1) * len(shared)]
        assert set(rows["point"]) == {point}
        assert rows["layer"].isna().all() if layer is None else (rows["layer"] == layer).all()
        assert rows["slot"].tolist() == shared.tolist()
        assert rows["token"].tolist() == [both.alignment.tokens[slot] for slot in shared]
        vectors = []
        for run, place in ((a, both.alignment.a), (b, both.alignment.b)):
            has = (point, layer) in run.trace.checkpoints()
            vectors.append(run.trace.stream(point, layer)[sentence][place[shared]].astype(float) if has else None)
        _check_apart(rows.rename(columns={"distance": "change"}), *vectors)
    outputs = both.outputs()
    assert [*outputs] == ["slot", "token", "norm_a", "norm_b", "change", "relative", "cosine"]
    assert outputs["slot"].tolist() == shared.tolist()
    at = [(sentence, place[shared]) for place in (both.alignment.a, both.alignment.b)]
    _check_apart(outputs, *(run.output[where].astype(float) for run, where in zip((a, b), at, strict=True)))


def _check_apart(rows, one, other):
    for vectors, norm in ((one, "norm_a"), (other, "norm_b")):
        assert rows[norm].isna().all() if vectors is None else np.allclose(rows[norm], np.linalg.norm(vectors, axis=1))
    if one is None or other is None or one.shape != other.shape:
        assert rows[["change", "relative", "cosine"]].isna().all(axis=None)
        return
    change = np.linalg.norm(other - one, axis=1)
    np.testing.assert_allclose(rows["change"], change, rtol=1e-9)
    np.testing.assert_allclose(rows["relative"], change / np.linalg.norm(one, axis=1), rtol=1e-9)
    cosine = (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    np.testing.assert_allclose(rows["cosine"], cosine, atol=1e-9)


def test_three_four_five():
    """[CLS] goes from (3, 0) to (3, 4), and [SEP] from 0, which has no direction, to (0, 2)."""
    run = run_of([""], d_model=2, n_heads=1)
    a, b = (replace(run, output=np.array([rows], dtype=np.float32)) for rows in ([[3, 0], [0, 0]], [[3, 4], [0, 2]]))
    table = compare(a, b).outputs()
    assert table[["norm_a", "norm_b", "change"]].values.tolist() == [[3, 5, 4], [0, 2, 2]]
    assert table["relative"].tolist() == [pytest.approx(4 / 3), pytest.approx(np.nan, nan_ok=True)]
    assert table["cosine"].tolist() == [pytest.approx(0.6), pytest.approx(np.nan, nan_ok=True)]


def test_runs_of_one_batch_are_as_far_apart_as_the_heads_off_view_says():
    a, b = run_of(), run_of(heads_off={(0, 1)})
    for sentence in (0, 1):
        both = compare(a, b, sentence_a=sentence, sentence_b=sentence)
        same_bits(both.heads()["moved"], attention_change(a, b, sentence=sentence)["change"])
        same_bits(both.outputs()["change"], output_change(a, b, sentence=sentence)["change"])
        post = both.stream().query("point == 'post'")["relative"]
        same_bits(post, stream_change(a, b, sentence=sentence)["change"])


# Where two runs part


@pytest.mark.parametrize("layer", [0, 1])
def test_a_head_that_is_off_parts_the_runs_in_its_layer(layer):
    both = compare(run_of(), run_of(heads_off={(layer, 1)}))
    parting = both.parting()
    assert (parting.point, parting.layer, parting.reason) == ("mid", layer, "moved")
    rows = both.stream().query("point == 'mid' and layer == @layer")
    most = rows.loc[rows["relative"].idxmax()]
    assert (parting.slot, parting.token, parting.relative) == (most["slot"], most["token"], most["relative"])
    assert parting.relative > TOLERANCE
    assert not both.equal


def test_other_seeds_part_at_the_embedding_and_other_words_where_they_are_first_seen():
    parting = compare(run_of(), run_of(seed=1)).parting()
    assert (parting.point, parting.layer, parting.reason) == ("pre", 0, "moved")
    parting = compare(run_of(["the cat sat"]), run_of(["the dog sat"])).parting()
    assert (parting.point, parting.layer, parting.reason) == ("mid", 0, "moved")


def test_streams_of_other_widths_part_at_the_embedding():
    both = compare(run_of(), run_of(d_model=12))
    parting = both.parting()
    assert (parting.point, parting.layer, parting.reason) == ("pre", 0, "d_model")
    assert (parting.slot, parting.token, parting.relative) == (None, None, None)
    assert not both.equal


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_deeper_run_with_the_same_layers_goes_on_alone(placement):
    """Layers are drawn one by one, so the first two are the same; without a final norm nothing else is different."""
    config = tiny(norm_placement=placement, final_norm=False)
    a, b = (explorer.build(replace(config, n_layers=n_layers)) for n_layers in (2, 3))
    a, b = (explorer.run(model, model.batch(TEXT_A)) for model in (a, b))
    for both, reason in ((compare(a, b), "only_b"), (compare(b, a), "only_a")):
        parting = both.parting()
        assert (parting.point, parting.layer, parting.reason) == ("mid", 2, reason)
        assert not both.equal


@SIDES
def test_padding_parts_the_runs_where_the_mask_is_off_and_nowhere_else(side, minilm):
    """A8: masked padding moves a real token by rounding alone; unmasked it is seen first by attention of layer 0."""
    sentence = "The animal didn't cross the street."
    alone = explorer.run(minilm, minilm.batch([sentence]))
    batch = minilm.batch(["A much longer sentence stands here beside the other one.", sentence], padding_side=side)
    masked, unmasked = (explorer.run(minilm, batch, use_mask=use_mask) for use_mask in (True, False))
    assert compare(alone, masked, sentence_b=1).parting() is None
    for one, sentence_a in ((alone, 0), (masked, 1)):
        both = compare(one, unmasked, sentence_a=sentence_a, sentence_b=1)
        parting = both.parting()
        assert (parting.point, parting.layer, parting.reason) == ("mid", 0, "moved")
        assert both.outputs()["change"].max() > 0.01
        assert (both.heads()["moved"] > 0).all()
    assert compare(masked, unmasked).equal


def test_a_vector_of_zeros_that_moves_parts_the_runs_and_has_moved_most():
    def to_zero(values):
        values[0, 1] = 0
        values[0, 3] *= 1.5
        return values

    run = run_of()
    zero = with_stream(run, {"layers.1.resid_mid": to_zero})
    for both in (compare(zero, run), compare(run, zero)):
        parting = both.parting()
        assert (parting.point, parting.layer, parting.slot, parting.token) == ("mid", 1, 1, "the")
    assert compare(run, zero).parting().relative == 1
    assert np.isnan(compare(zero, run).parting().relative)


def test_what_is_within_the_tolerance_is_alike_but_not_equal():
    run = run_of()
    near = with_stream(run, {"layers.1.resid_mid": lambda values: values * np.float32(1 + 0.5 * TOLERANCE)})
    far = with_stream(run, {"layers.1.resid_mid": lambda values: values * np.float32(1 + 2 * TOLERANCE)})
    assert compare(run, near).parting() is None
    assert not compare(run, near).equal
    assert compare(run, far).parting().relative == pytest.approx(2 * TOLERANCE, rel=0.1)


def test_equal_means_every_token_every_size_every_weight_and_every_vector():
    run = run_of()
    assert compare(run, run).equal
    assert not compare(run, run_of(["the cat sat on the mat now"])).equal
    assert not compare(run, run_of(n_heads=4)).equal
    assert not compare(run, replace(run, output=run.output + np.float32(1e-6))).equal
    other = {"layers.0.attn.pattern": lambda values: values[..., ::-1].copy()}
    assert not compare(run, with_stream(run, other)).equal


# Tables beside each other


def test_norms_and_checkpoints_of_both_stand_in_one_order_blank_where_one_has_none():
    a = run_of(TEXT_A, norm_placement="pre", n_layers=1)
    b = run_of(TEXT_B, n_layers=2, embedding_norm=True, side="left", pad_to=12)
    both = compare(a, b)
    norms = [("embed", None), ("norm1", 0), ("norm2", 0), ("norm1", 1), ("norm2", 1), ("final", None)]
    points = [("pre", 0), ("mid", 0), ("post", 0), ("mid", 1), ("post", 1), ("final", None)]
    for table, names, key, of in (
        (both.layernorm(), norms, "norm", "layernorm"),
        (both.residual(), points, "point", "stream"),
    ):
        found = table[[key, "layer"]].drop_duplicates().itertuples(index=False, name=None)
        assert [(name, None if layer is pd.NA else layer) for name, layer in found] == names
        originals = {side: getattr(run.tables, of)(sentence=0) for side, run in (("a", a), ("b", b))}
        measured = [column for column in originals["a"] if column not in (*PLACE, key)]
        assert [*table] == [key, "layer", "slot", "token", *(f"{m}_{s}" for m in measured for s in SUFFIXES)]
        assert " ".join(table["token"].unique()) == "[CLS] the big cat sat on a mat today [SEP]"
        for column in measured:
            same_bits(table[f"{column}_difference"], table[f"{column}_b"] - table[f"{column}_a"])
            for side, original in originals.items():
                _check_column(table, original, key, column, side, getattr(both.alignment, side))


PLACE = ("sentence", "layer", "pos", "position", "token")
SUFFIXES = ("a", "b", "difference")


def _check_column(table, original, key, column, side, place):
    """Every number of the table of one run is at its slot, and there is no other."""
    values = {}
    for row in original.to_dict("records"):
        values[row[key], row["layer"], int(np.flatnonzero(place == row["pos"])[0])] = row[column]
    for row in table.to_dict("records"):
        expected = values.pop((row[key], row["layer"], row["slot"]), np.nan)
        same_bits(row[f"{column}_{side}"], expected)
    assert not values


def test_any_table_of_one_value_a_row_and_token_can_be_laid_out():
    """Sentences are told apart, and names that carry no layer are in the order of their layers."""
    a, b = run_of(norm_placement="pre", n_layers=1), run_of(TEXT_B, n_layers=3)
    both = compare(a, b, sentence_a=1, sentence_b=0)
    tables = [run.tables.stream() for run in (a, b)]
    for table in tables:
        table["name"] = [
            point if pd.isna(layer) else f"L{layer} {point}" for point, layer in table[["point", "layer"]].values
        ]
    names = ["L0 pre", "L0 mid", "L0 post", "L1 mid", "L1 post", "L2 mid", "L2 post", "final"]
    assert both.rows(*tables, ["name"]) == [(name,) for name in names]
    assert compare(b, a).rows(*reversed(tables), ["name"]) == [(name,) for name in names]
    sides = both.aligned(*tables, ["name"], "norm")
    assert sides.a.shape == sides.b.shape == sides.difference.shape == (8, len(both.alignment.tokens))
    assert np.isfinite(sides.a).sum() == (3 + 1) * 3
    assert np.isfinite(sides.b).sum() == 7 * 10
    row = tables[0].query("sentence == 1 and name == 'L0 mid' and token == 'yes'").iloc[0]
    assert sides.a[1, both.alignment.a.tolist().index(1)] == row["norm"]
    same_bits(sides.difference, sides.b - sides.a)
    with pytest.raises(ValueError, match="read-only"):
        sides.a[0, 0] = 0


def test_the_attention_table_can_be_laid_out_too():
    a, b = run_of(), run_of(TEXT_B, n_heads=4)
    both = compare(a, b)
    sides = both.aligned(a.tables.attention(), b.tables.attention(), ("layer", "head"), "entropy")
    assert both.rows(a.tables.attention(), b.tables.attention(), ("layer", "head")) == [
        (layer, head) for layer in range(2) for head in range(4)
    ]
    assert np.isnan(sides.a[2:4]).all()
    assert np.isfinite(sides.b).sum() == 2 * 4 * 10
