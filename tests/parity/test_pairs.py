"""Sentence pairs against `transformers` on the published files: ids, segments and every hidden state."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from transformers import AutoTokenizer, BertModel

import explorer
from explorer.weights.published import find_files

PAIRS = [
    ("How old are you?", "What is your age?"),
    ("The unhappiest tokenization", "Café, \U0001f600 naïve"),
    ("a", "b"),
]


@pytest.fixture(scope="module")
def folder():
    return find_files().weights.parent


@pytest.fixture(scope="module")
def theirs(folder):
    """What their tokenizer makes of the pairs, and their hidden states, `[layer, batch, pos, d_model]`."""
    inputs = AutoTokenizer.from_pretrained(folder)(*zip(*PAIRS, strict=True), padding=True, return_tensors="pt")
    with torch.random.fork_rng():
        bert = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.inference_mode():
        return inputs, torch.stack(bert(**inputs, output_hidden_states=True).hidden_states).numpy()


@pytest.fixture(scope="module")
def run(minilm):
    return explorer.run(minilm, minilm.batch([f"{a} [SEP] {b}" for a, b in PAIRS]))


def test_ids_and_segments(run, theirs):
    inputs, _ = theirs
    assert torch.equal(run.batch.token_ids, inputs["input_ids"])
    assert torch.equal(run.batch.segments, inputs["token_type_ids"])
    assert torch.equal(run.batch.key_padding_mask, inputs["attention_mask"] == 0)
    assert run.batch.n_padding > 0
    assert all(run.batch.is_pair(row) for row in range(len(PAIRS)))


def test_every_hidden_state(run, theirs):
    _, hidden = theirs
    real = ~run.batch.key_padding_mask.numpy()
    found = np.stack([run.trace.embedding("norm.out"), *run.trace.resid("post")])
    assert found.shape == hidden.shape
    assert_allclose(found[:, real], hidden[:, real], rtol=0, atol=5e-5)


def test_segments_matter(minilm, run):
    """So that the agreement above is one of segments, too."""
    batch = run.batch
    zero = minilm.encoder(batch.token_ids, batch.key_padding_mask).detach().numpy()
    assert np.abs(zero - run.output)[~batch.key_padding_mask.numpy()].max() > 1e-2
