"""The trained encoder against activations that `transformers` computed: every case, every layer, every head.

Sources, versions and tolerances: `tests/goldens/README.md`.
"""

import hashlib
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import explorer
from explorer.stats.residual import cosine_matrix, sentence_vectors

CASES = ["animal_tired", "batch_pad", "one_word", "emoji", "html", "empty", "repeat"]
SHA256 = {
    "minilm.npz": "08df6602ba5bb4bc6a60a8c1dfaf90d4d25b9d8c921e42b9668592f39a48319e",
    "minilm.json": "08b8bc326dfa923945676b9136549766350c95f6ba974c230436a19eeda01bd3",
}


@pytest.fixture(scope="module")
def arrays(goldens):
    with np.load(goldens / "minilm.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def facts(goldens):
    return json.loads((goldens / "minilm.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def runs(minilm, facts):
    return {case: explorer.run(minilm, minilm.batch(facts["cases"][case]["texts"])) for case in CASES}


@pytest.fixture(params=CASES)
def case(request, arrays, facts, runs):
    """One case: our run, the expected arrays by name, the expected texts, and which tokens are real."""
    name = request.param
    expected = {key.split("/")[1]: value for key, value in arrays.items() if key.startswith(f"{name}/")}
    return runs[name], expected, facts["cases"][name], expected["mask"] == 1


@pytest.mark.parametrize("name", SHA256)
def test_the_goldens_are_the_published_ones(goldens, name):
    assert hashlib.sha256((goldens / name).read_bytes()).hexdigest() == SHA256[name]


def test_all_cases_are_here(facts, arrays):
    assert sorted(facts["cases"]) == sorted(CASES)
    assert {key.split("/")[0] for key in arrays} == set(CASES)


def test_token_ids_tokens_and_offsets(case):
    run, expected, facts, real = case
    batch = run.batch
    assert np.array_equal(batch.token_ids.numpy(), expected["ids"])
    assert np.array_equal(batch.segments.numpy(), expected["type_ids"])
    assert np.array_equal(~batch.key_padding_mask.numpy(), real)
    for row, length in enumerate(facts["lengths"]):
        assert batch.tokens[row][:length] == facts["tokens"][row]
        assert batch.offsets[row][:length] == [tuple(pair) for pair in facts["offsets"][row]]
        assert batch.tokens[row][length:] == ["[PAD]"] * (batch.token_ids.shape[1] - length)


def test_hidden_states(case):
    run, expected, _, real = case
    hidden = np.stack([run.trace.embedding("norm.out"), *run.trace.resid("post")])
    assert hidden.shape == expected["hidden"].shape
    assert_allclose(hidden[:, real], expected["hidden"][:, real], rtol=0, atol=5e-5)
    assert_allclose(run.output[real], expected["hidden"][-1][real], rtol=0, atol=5e-5)


def test_attention(case):
    run, expected, _, real = case
    pattern = run.trace.pattern()
    assert pattern.shape == expected["attn"].shape
    by_query = (0, 1, 3, 2, 4)  # layer, batch, query, head, key: so that real queries can be picked
    found, wanted = pattern.transpose(by_query)[:, real], expected["attn"].transpose(by_query)[:, real]
    assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_layernorm_moments(case):
    """The table of the page, in the order of the goldens: embeddings, then attention and feed-forward of each layer."""
    run, expected, _, real = case
    table = run.tables.layernorm()
    order = [("embed", None), *((f"norm{1 + half}", layer) for layer in range(6) for half in range(2))]
    assert len(order) == len(expected["ln_in_mean"])
    for index, (norm, layer) in enumerate(order):
        rows = table[(table["norm"] == norm) & (table["layer"].isna() if layer is None else table["layer"] == layer)]
        assert len(rows) == real.sum()
        for side in ("in", "out"):
            assert_allclose(rows[f"mean_{side}"], expected[f"ln_{side}_mean"][index][real], rtol=0, atol=1e-5)
            assert_allclose(rows[f"std_{side}"] ** 2, expected[f"ln_{side}_var"][index][real], rtol=1e-4)


def test_residual_norms(case):
    run, expected, _, real = case
    table = run.tables.residual()
    for layer in range(6):
        rows = table[table["layer"] == layer]
        assert len(rows) == real.sum()
        for half, (before, added, after) in enumerate(
            [("resid_pre", "attn_out", "resid_mid"), ("resid_mid", "ff_out", "resid_post")]
        ):
            index = 2 * layer + half
            assert_allclose(rows[before], expected["norm_resid_in"][index][real], rtol=1e-4)
            assert_allclose(rows[added], expected["norm_sub_out"][index][real], rtol=1e-4)
            assert_allclose(rows[after], expected["norm_ln_out"][index][real], rtol=1e-4)
        assert_allclose(rows["resid_post"], expected["hidden_norm"][layer + 1][real], rtol=1e-4)
    for half, name in enumerate(("norm1", "norm2")):
        sums = np.linalg.norm(run.trace.norm(name, "in"), axis=-1)
        assert_allclose(sums[:, real], expected["norm_resid_sum"][half::2][:, real], rtol=1e-4)


def test_attention_entropy(case):
    run, expected, _, real = case
    table = run.tables.attention()
    assert len(table) == 6 * 12 * real.sum()
    wanted = expected["attn_entropy"][table["layer"], table["sentence"], table["head"], table["position"]]
    assert_allclose(table["entropy"], wanted, rtol=0, atol=1e-4)


def test_sentence_embedding(case):
    run, expected, _, real = case
    mean = (run.output * real[..., None]).sum(axis=1) / real.sum(axis=1, keepdims=True)
    assert_allclose(mean / np.linalg.norm(mean, axis=-1, keepdims=True), expected["emb_mean"], rtol=0, atol=1e-5)


def test_sentence_vectors(case):
    run, expected, _, real = case
    vectors = sentence_vectors(run.output, ~real)
    assert_allclose(vectors.mean_unit, expected["emb_mean"], rtol=0, atol=1e-5)
    assert_allclose(vectors.cls, run.output[:, 0])
    wanted = expected["emb_mean"].astype(np.float64) @ expected["emb_mean"].T
    assert_allclose(cosine_matrix(vectors.mean), wanted, rtol=0, atol=1e-5)


def test_layer_0_head_2_attends_to_the_previous_token(runs):
    weights = runs["animal_tired"].trace.pattern(0)[0, 2]
    assert np.diagonal(weights, offset=-1).mean() == pytest.approx(1.00, abs=0.005)


def test_layer_1_head_8_attends_to_the_next_token(runs):
    weights = runs["batch_pad"].trace.pattern(1)[0, 8, :8, :8]
    assert np.diagonal(weights, offset=1).mean() == pytest.approx(0.66, abs=0.005)


@pytest.mark.parametrize(("last", "weight"), [("tired", 0.677), ("wide", 0.281)])
def test_layer_3_head_1_links_it_to_animal(minilm, last, weight):
    batch = minilm.batch([f"The animal didn't cross the street because it was too {last}."])
    tokens = batch.tokens[0]
    pattern = explorer.run(minilm, batch).trace.pattern(3)[0, 1]
    assert pattern[tokens.index("it"), tokens.index("animal")] == pytest.approx(weight, abs=0.0005)
    assert pattern[tokens.index("it"), tokens.index("street")] < weight  # it never moves to "street"


def test_cls_has_one_huge_dimension_before_the_feed_forward_norm_of_layer_0(runs):
    stream = runs["animal_tired"].trace.norm("norm2", "in", 0)[0]
    variance = stream.var(axis=-1)
    assert variance[0] == pytest.approx(128, abs=0.5)
    assert np.median(variance[1:]) == pytest.approx(0.69, abs=0.005)
    spread = (stream[0] - stream[0].mean()) ** 2 / stream.shape[-1]
    assert spread.argmax() == 99
    assert spread[99] > 0.99 * variance[0]
