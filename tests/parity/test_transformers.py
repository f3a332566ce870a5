"""Per-layer parity with a random tiny `transformers` BERT: embeddings, segments, positions, every layer and head.

`transformers` is an oracle of the tests and nothing else: the engine does not import it.
"""

import pytest
import torch
from torch.testing import assert_close
from transformers import BertConfig, BertModel

from explorer import EncoderConfig, Recorder
from explorer.model import build_encoder
from explorer.weights import fill
from explorer.weights.published import from_bert
from tests.helpers import padding, token_ids

CONFIG = EncoderConfig(
    n_layers=3,
    n_heads=3,
    d_model=12,
    d_ff=20,
    activation="gelu",
    positions="learned",
    scale_embeddings=False,
    embedding_norm=True,
    n_segments=2,
    norm_eps=1e-12,
    max_len=16,
    vocab_size=40,
)


@pytest.fixture(scope="module")
def bert() -> BertModel:
    """Random in every parameter, also where a fresh model has 0 or 1."""
    theirs = BertConfig(
        vocab_size=40,
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=20,
        hidden_act="gelu",
        max_position_embeddings=16,
        type_vocab_size=2,
        layer_norm_eps=1e-12,
        attn_implementation="eager",
    )
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        model = BertModel(theirs).double().eval()
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


@pytest.fixture(scope="module")
def encoder(bert):
    """Ours, filled from the state dict of theirs."""
    state, unused = from_bert(dict(bert.state_dict()), CONFIG.n_layers)
    assert set(unused) <= {"pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids"}
    ours = build_encoder(CONFIG)
    fill(ours, state)
    return ours


@pytest.mark.parametrize("side", ["right", "left", "none"])
@pytest.mark.parametrize(("lengths", "pos"), [([6, 4, 1], 7), ([3, 2, 3], 3)], ids=["plain", "H == length == batch"])
def test_every_layer_and_head(bert, encoder, side, lengths, pos):
    """Catches a matrix in the wrong place, exchanged heads, a norm in the wrong order, positions shifted by padding."""
    mask = torch.zeros(len(lengths), pos, dtype=torch.bool) if side == "none" else padding(lengths, pos, side)
    ids = token_ids(len(lengths), pos, high=40)
    segments = torch.randint(0, 2, ids.shape, generator=torch.Generator().manual_seed(2))
    count = torch.cumsum(~mask, dim=1).sub(1).clamp(min=0)  # ours is to agree: positions count real tokens
    tape = Recorder()
    with torch.no_grad():
        output = encoder(ids, mask, segment_ids=segments, tape=tape)
        expected = bert(
            input_ids=ids,
            attention_mask=(~mask).long(),
            token_type_ids=segments,
            position_ids=count,
            output_hidden_states=True,
            output_attentions=True,
        )
    real = ~mask
    streams = [tape.values["embed.norm.out"], *(tape.values[f"layers.{i}.resid_post"] for i in range(3))]
    assert len(expected.hidden_states) == len(streams)
    for found, theirs in zip(streams, expected.hidden_states, strict=True):
        assert_close(found[real], theirs[real], rtol=0, atol=1e-10)
    assert len(expected.attentions) == 3
    for i, theirs in enumerate(expected.attentions):
        pattern = tape.values[f"layers.{i}.attn.pattern"]
        assert pattern.shape == theirs.shape
        assert_close(pattern.transpose(1, 2)[real], theirs.transpose(1, 2)[real], rtol=0, atol=1e-10)
    assert_close(output[real], expected.last_hidden_state[real], rtol=0, atol=1e-10)
