"""Token ids to vectors."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from explorer import build
from explorer.model.embeddings import draw_vector, embedding_scale
from tests.helpers import padding, record, rough, tiny, token_ids


def test_scale_is_the_root_of_the_width():
    assert embedding_scale(16, scaled=True) == 4.0
    assert embedding_scale(16, scaled=False) == 1.0


@pytest.mark.parametrize("vocab_size", [None, 50])
def test_only_token_vectors_are_scaled(vocab_size):
    """Scaling the positions too would keep every shape. D 4 doubles the token vectors."""
    ids = token_ids(1, 5, high=50)
    plain, scaled = (
        record(build(tiny(d_model=4, scale_embeddings=scaled, vocab_size=vocab_size)), ids)[1]
        for scaled in (False, True)
    )
    assert_close(scaled["embed.tokens"], 2 * plain["embed.tokens"])
    assert torch.equal(scaled["embed.positions"], plain["embed.positions"])


def test_the_sum_has_every_part_once():
    config = tiny(positions="learned", n_segments=2, embedding_norm=True, vocab_size=50)
    model = rough(config)
    segments = torch.tensor([[0, 0, 1, 1]])
    ids = token_ids(1, 4, high=50)
    _, values = record(model, ids, segment_ids=segments)
    embed = model.encoder.embed
    assert torch.equal(values["embed.tokens"], embed.tokens.weight[ids] * 8**0.5)
    assert torch.equal(values["embed.positions"], embed.positions.weight[torch.arange(4)][None])
    assert torch.equal(values["embed.segments"], embed.segments.weight[segments])
    parts = values["embed.tokens"] + values["embed.positions"] + values["embed.segments"]
    assert_close(values["embed.sum"], parts)
    assert torch.equal(values["embed.norm.in"], values["embed.sum"])
    assert torch.equal(values["layers.0.resid_pre"], values["embed.norm.out"])


def test_positions_follow_the_real_tokens():
    """The first word of a sentence has the same position vector whether padding stands left or right."""
    model = build(tiny())
    ids = token_ids(1, 5)
    _, right = record(model, ids, padding([3], 5, "right"))
    _, left = record(model, ids, padding([3], 5, "left"))
    assert torch.equal(right["embed.positions"][:, :3], left["embed.positions"][:, 2:])


def test_open_vocabulary_has_one_vector_an_id_in_every_text():
    tokens = build(tiny(), seed=3).encoder.embed.tokens
    alone = tokens(torch.tensor([[2**40]]))
    among = tokens(torch.tensor([[7, 2**40, 9], [2**40, 1, 2**52 - 1]]))
    assert torch.equal(alone[0, 0], among[0, 1])
    assert torch.equal(alone[0, 0], among[1, 0])
    assert len({tuple(vector) for vector in among.flatten(0, 1).tolist()}) == 5


def test_open_vocabulary_depends_on_the_seed_and_only_on_it():
    ids = token_ids(1, 6)
    first, again, other = (build(tiny(), seed=seed).encoder.embed.tokens(ids) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.isclose(first, other).any()


def test_open_vocabulary_has_the_std_of_the_initialisation():
    """1 / sqrt(d_model) before scaling: times sqrt(d_model) the features have std 1."""
    model = build(tiny(d_model=64))
    _, values = record(model, torch.arange(2, 34)[None])
    assert values["embed.tokens"].std().item() == pytest.approx(1.0, abs=0.05)
    assert values["embed.tokens"].mean().item() == pytest.approx(0.0, abs=0.05)


def test_draw_vector_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].copy()
    draw_vector(0, 5, 16)
    assert np.array_equal(before, np.random.get_state()[1])
