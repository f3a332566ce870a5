"""Scores of heads: by hand, padded, and on the trained encoder."""

import numpy as np
import pytest

import explorer
from explorer.stats.heads import SCORES, head_scores


def roles(n_keys: int, batch: int = 1, **where: list[int]) -> dict[str, np.ndarray]:
    masks = {name: np.zeros((batch, n_keys), dtype=bool) for name in ("cls", "sep", "punctuation")}
    for name, places in where.items():
        masks[name][:, places] = True
    return masks


def scored(pattern, padding=None, **where):
    pattern = np.asarray(pattern, dtype=np.float32)[None, None]
    n_keys = pattern.shape[-1]
    padding = np.zeros((1, n_keys), dtype=bool) if padding is None else np.asarray(padding)[None]
    return {name: value[0, 0] for name, value in head_scores(pattern, padding, roles(n_keys, **where)).items()}


def test_every_score_of_a_pattern_small_enough_for_paper():
    scores = scored([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]], cls=[0], sep=[2], punctuation=[1])
    assert scores["self"] == pytest.approx((0.5 + 0.0 + 0.5) / 3)
    assert scores["previous"] == pytest.approx((1.0 + 0.3) / 2)
    assert scores["next"] == pytest.approx((0.5 + 0.0) / 2)
    assert scores["distance"] == pytest.approx((0.5 + 1.0 + 0.4 + 0.3) / 3)
    assert scores["cls"] == pytest.approx((0.5 + 1.0 + 0.2) / 3)
    assert scores["sep"] == pytest.approx(0.5 / 3)
    assert scores["punctuation"] == pytest.approx((0.5 + 0.3) / 3)
    last = -(0.2 * np.log(0.2) + 0.3 * np.log(0.3) + 0.5 * np.log(0.5))
    assert scores["entropy"] == pytest.approx((np.log(2) + 0 + last) / 3, rel=1e-6)
    assert scores.keys() == SCORES.keys()


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_is_no_query_and_no_neighbour(side):
    alone = [[0.5, 0.5], [0.25, 0.75]]
    padded = np.full((4, 4), 0.5, dtype=np.float32)
    padded[:, :] = [[0.5, 0.5, 0, 0]] * 4 if side == "right" else [[0, 0, 0.5, 0.5]] * 4
    place = slice(0, 2) if side == "right" else slice(2, 4)
    padded[place, place] = alone
    padding = [False, False, True, True] if side == "right" else [True, True, False, False]
    for name, value in scored(padded, padding).items():
        assert value == pytest.approx(scored(alone)[name]), name


def test_one_token_has_no_neighbours():
    scores = scored([[1.0]])
    assert np.isnan(scores["previous"])
    assert np.isnan(scores["next"])
    assert scores["self"] == 1


def test_heads_and_sentences_are_not_mixed_where_batch_heads_and_length_are_equal():
    pattern = np.zeros((2, 2, 2, 2), dtype=np.float32)
    pattern[0, 0] = pattern[1, 1] = np.eye(2)
    pattern[0, 1] = pattern[1, 0] = np.eye(2)[::-1]
    scores = head_scores(pattern, np.zeros((2, 2), dtype=bool), roles(2, batch=2))
    assert scores["self"].tolist() == [[1, 0], [0, 1]]


def test_the_trained_encoder_has_a_previous_token_head_and_a_next_token_head(minilm):
    run = explorer.run(minilm, minilm.batch(["Attention is all you need."]))
    none = np.zeros((1, run.output.shape[1]), dtype=bool)
    assert head_scores(run.trace.pattern(0), none, roles(none.shape[1]))["previous"][0, 2] == pytest.approx(
        1, abs=0.005
    )
    assert head_scores(run.trace.pattern(1), none, roles(none.shape[1]))["next"][0, 8] == pytest.approx(0.66, abs=0.005)
