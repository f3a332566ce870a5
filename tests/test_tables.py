"""The statistics of a run as tables: one observation a row, padding left out."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from tests.helpers import rough, tiny

LENGTHS = {0: 5, 1: 3}  # tokens of each sentence, [CLS] and [SEP] included


@pytest.fixture(params=[("pre", "right"), ("post", "left")], ids=lambda param: " ".join(param))
def run(request):
    placement, side = request.param
    model = rough(tiny(norm_placement=placement, embedding_norm=True))
    return explorer.run(model, model.batch(["one two three", "four"], padding_side=side))


def test_attention_has_a_row_for_each_real_query_and_no_other(run):
    table = run.tables.attention()
    assert len(table) == 2 * 2 * sum(LENGTHS.values())  # layers x heads x real queries
    assert not table.isna().any(axis=None)
    assert "[PAD]" not in set(table["token"]) | set(table["strongest_key"])
    for sentence, length in LENGTHS.items():
        rows = table[table["sentence"] == sentence]
        assert set(rows["n_keys"]) == {length}
        assert_allclose(rows["max_entropy"], math.log(length))
        assert (rows["entropy"] <= rows["max_entropy"] + 1e-6).all()


def test_attention_rows_are_those_of_the_pattern(run):
    for row in run.tables.attention().itertuples():
        n_before = row.pos - row.position  # padding on the left
        strongest = row.strongest_position + n_before
        weights = run.trace.pattern(row.layer)[row.sentence, row.head, row.pos].astype(float)
        positive = weights[weights > 0]
        assert row.entropy == pytest.approx(-(positive * np.log(positive)).sum(), abs=1e-9)
        assert row.strongest_weight == weights.max() == weights[strongest]
        assert row.token == run.batch.tokens[row.sentence][row.pos]
        assert row.strongest_key == run.batch.tokens[row.sentence][strongest]


def test_positions_count_real_tokens_wherever_padding_stands(run):
    for table in (run.tables.attention(), run.tables.layernorm(), run.tables.residual(), run.tables.stream()):
        for sentence, length in LENGTHS.items():
            rows = table[table["sentence"] == sentence]
            assert sorted(set(rows["position"])) == list(range(length))
            assert (rows["pos"] - rows["position"]).nunique() == 1
            assert set(rows.loc[rows["position"] == 0, "token"]) == {"[CLS]"}


@pytest.mark.parametrize("sentence", [0, 1])
def test_one_sentence_is_a_part_of_the_whole_table(run, sentence):
    for name in ("attention", "layernorm", "residual", "stream", "similarity"):
        whole = getattr(run.tables, name)()
        part = getattr(run.tables, name)(sentence=sentence)
        assert part.equals(whole[whole["sentence"] == sentence].reset_index(drop=True)), name
    whole = run.tables.attention(1)
    one = run.tables.attention(1, head=1, sentence=sentence)
    assert one.equals(whole[(whole["sentence"] == sentence) & (whole["head"] == 1)].reset_index(drop=True))


def test_scores_of_heads_are_those_of_each_sentence_alone(run):
    """Roles, padding and sentences are matched up: a sentence in a batch scores as its own real part does."""
    table = run.tables.heads()
    assert len(table) == 2 * 2 * 2  # sentences x layers x heads
    for row in table.itertuples():
        real = ~run.batch.key_padding_mask[row.sentence].numpy()
        pattern = run.trace.pattern(row.layer)[row.sentence, row.head][real][:, real]
        assert row.self == pytest.approx(np.diagonal(pattern).mean(), abs=1e-6)
        assert row.next == pytest.approx(np.diagonal(pattern, 1).mean(), abs=1e-6)
        assert row.cls == pytest.approx(pattern[:, 0].mean(), abs=1e-6)
        assert row.sep == pytest.approx(pattern[:, -1].mean(), abs=1e-6)
        assert row.punctuation == 0


def test_roles_of_tokens_leave_padding_out():
    model = rough(tiny())
    batch = model.batch(["Yes, (no) ...", "a"], padding_side="left")
    named = {name: [batch.tokens[s][p] for s, p in np.argwhere(where)] for name, where in batch.roles().items()}
    assert named == {"cls": ["[CLS]"] * 2, "sep": ["[SEP]"] * 2, "punctuation": [",", "(", ")", ".", ".", "."]}


def test_one_layer_of_the_attention_table(run):
    whole = run.tables.attention()
    one = run.tables.attention(layer=1)
    assert one.equals(whole[whole["layer"] == 1].reset_index(drop=True))


def test_without_the_mask_padding_counts_as_keys():
    model = rough(tiny())
    table = explorer.run(model, model.batch(["one two three", "four"]), use_mask=False).tables.attention()
    assert set(table["n_keys"]) == {5}
    assert len(table) == 2 * 2 * sum(LENGTHS.values())


def test_layernorm_has_every_norm_with_population_moments(run):
    table = run.tables.layernorm()
    norms = [("embed", None), ("norm1", 0), ("norm2", 0), ("norm1", 1), ("norm2", 1)]
    norms += [("final", None)] if run.config.final_norm else []
    assert len(table) == len(norms) * sum(LENGTHS.values())
    for norm, layer in norms:
        rows = table[(table["norm"] == norm) & (table["layer"].isna() if layer is None else table["layer"] == layer)]
        arrays = {
            side: run.trace.embedding(f"norm.{side}")
            if norm == "embed"
            else run.trace.final_norm(side)
            if norm == "final"
            else run.trace.norm(norm, side, layer)
            for side in ("in", "out")
        }
        assert rows[["sentence", "pos"]].values.tolist() == np.argwhere(~run.batch.key_padding_mask.numpy()).tolist()
        for side, array in arrays.items():
            picked = array[rows["sentence"], rows["pos"]].astype(float)
            assert_allclose(rows[f"mean_{side}"], picked.mean(axis=-1), rtol=0, atol=1e-12)
            assert_allclose(rows[f"std_{side}"], np.sqrt(((picked - picked.mean(-1, keepdims=True)) ** 2).mean(-1)))
        variance = arrays["in"][rows["sentence"], rows["pos"]].astype(float).var(axis=-1)
        eps = run.config.norm_eps
        assert_allclose(rows["mean_normalised"], 0, atol=1e-12)
        assert_allclose(rows["std_normalised"], np.sqrt(variance / (variance + eps)))
        assert_allclose(rows["eps_share"], eps / (variance + eps))


def test_eps_is_all_that_is_left_of_a_constant_token():
    """One feature is constant by itself: its variance is 0, so it becomes 0 before gamma and beta, and then beta."""
    model = explorer.build(explorer.EncoderConfig(n_layers=1, n_heads=1, d_model=1, d_ff=1))
    table = explorer.run(model, model.batch(["one two"])).tables.layernorm()
    for name, expected in {"std_in": 0, "std_normalised": 0, "eps_share": 1, "mean_out": 0}.items():
        assert (table[name] == expected).all(), name


def test_residual_norms_are_those_of_the_stream(run):
    table = run.tables.residual()
    assert len(table) == 2 * sum(LENGTHS.values())
    for row in table.itertuples():
        at = (row.sentence, row.pos)
        for point in ("pre", "mid", "post"):
            expected = math.sqrt((run.trace.resid(point, int(row.layer))[at].astype(float) ** 2).sum())
            assert getattr(row, f"resid_{point}") == pytest.approx(expected)
        assert row.attn_out == pytest.approx(np.linalg.norm(run.trace.attn_out(int(row.layer))[at].astype(float)))
        assert row.ff_out == pytest.approx(np.linalg.norm(run.trace.ff_out(int(row.layer))[at].astype(float)))
        assert row.token == run.batch.tokens[row.sentence][row.pos]


def test_the_stream_table_walks_from_the_embeddings_to_the_end(run):
    table = run.tables.stream()
    points = [("pre", 0), ("mid", 0), ("post", 0), ("mid", 1), ("post", 1)]
    expected = [(run.trace.resid(point, layer), point, layer) for point, layer in points]
    if run.config.final_norm:
        expected.append((run.trace.final_norm("out"), "final", None))
    n_real = sum(LENGTHS.values())
    assert len(table) == n_real * len(expected)
    for index, (array, point, layer) in enumerate(expected):
        rows = table.iloc[n_real * index : n_real * (index + 1)]
        assert set(rows["point"]) == {point}
        assert rows["layer"].isna().all() if layer is None else (rows["layer"] == layer).all()
        assert_allclose(rows["norm"], np.linalg.norm(array[rows["sentence"], rows["pos"]].astype(float), axis=-1))


def test_shapes_are_those_of_the_trace(run):
    assert run.tables.shapes().equals(run.trace.shapes())


CHECKPOINTS = [("pre", 0), ("mid", 0), ("post", 0), ("mid", 1), ("post", 1), ("final", None)]


def checkpoints(run):
    """The stream from the embeddings to the end, `[checkpoint, batch, pos, d_model]`, in float64."""
    final = [run.trace.final_norm("out")] if run.config.final_norm else []
    return np.stack([*(run.trace.resid(point, layer) for point, layer in CHECKPOINTS[:-1]), *final]).astype(float)


def cosine(x, y):
    return (x * y).sum(axis=-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)


def test_the_stream_turns_between_a_checkpoint_and_the_one_before(run):
    table, stream = run.tables.stream(), checkpoints(run)
    n_real = sum(LENGTHS.values())
    assert table["turned"].iloc[:n_real].isna().all()
    for index in range(1, len(stream)):
        rows = table.iloc[n_real * index : n_real * (index + 1)]
        expected = cosine(stream[index], stream[index - 1])
        assert_allclose(rows["turned"], expected[rows["sentence"], rows["pos"]], atol=1e-12)


def test_similarity_is_the_mean_over_pairs_of_real_tokens(run):
    table, stream = run.tables.similarity(), checkpoints(run)
    assert len(table) == 2 * len(stream)
    for number, row in enumerate(table.itertuples()):
        point, layer = CHECKPOINTS[number // 2]
        assert (row.point, row.sentence, row.n_tokens) == (point, number % 2, LENGTHS[number % 2])
        assert (row.layer is explorer.tables.pd.NA) if layer is None else (row.layer == layer)
        tokens = stream[number // 2, row.sentence, ~run.batch.key_padding_mask[row.sentence].numpy()]
        cosines = cosine(tokens[:, None], tokens[None, :])
        expected = cosines[~np.eye(len(tokens), dtype=bool)].mean()
        assert row.cosine == pytest.approx(expected, abs=1e-12)


def test_additions_have_the_length_and_the_direction_of_what_is_added(run):
    table = run.tables.stream()
    assert table[table["point"].isin(["pre", "final"])][["added", "added_cosine"]].isna().all(axis=None)
    for layer in range(2):
        for point, added, before in (("mid", run.trace.attn_out, "pre"), ("post", run.trace.ff_out, "mid")):
            rows = table[(table["layer"] == layer) & (table["point"] == point)]
            at = (rows["sentence"], rows["pos"])
            vectors, stream = added(layer).astype(float), run.trace.resid(before, layer).astype(float)
            assert_allclose(rows["added"], np.linalg.norm(vectors, axis=-1)[at])
            assert_allclose(rows["added_cosine"], cosine(vectors, stream)[at], atol=1e-12)


def test_the_shortest_text_has_one_pair_of_tokens():
    """`[CLS]` and `[SEP]`."""
    model = rough(tiny())
    run = explorer.run(model, model.batch([""]))
    assert run.tables.similarity()["n_tokens"].tolist() == [2] * 5
    assert run.tables.similarity()["cosine"].between(-1, 1).all()
