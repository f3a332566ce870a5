"""A config is a value, and every refusal helps."""

import dataclasses
import math
import re

import pytest

from explorer import BERT_BASE, CLASSROOM, MINILM, PAPER_BASE, PRESETS, ConfigError, EncoderConfig
from explorer.config import LIMITS, divisors, nearest_divisor


def test_equal_by_value_and_hashable():
    """Caches are keyed by configs: two equal ones must be one key, and every field must count."""
    assert EncoderConfig(n_layers=2) == EncoderConfig(n_layers=2)
    assert len({EncoderConfig(n_layers=2), EncoderConfig(n_layers=2), EncoderConfig(n_layers=3)}) == 2


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CLASSROOM.n_layers = 2


def test_every_field_has_a_default_and_is_named():
    assert EncoderConfig() == CLASSROOM
    with pytest.raises(TypeError):
        EncoderConfig(4)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n_layers": 0}, r"n_layers \(0\) must lie between 1 and 24; nearest: 1$"),
        ({"n_layers": 25}, r"n_layers \(25\) must lie between 1 and 24; nearest: 24$"),
        ({"n_layers": -1}, r"n_layers \(-1\) .* nearest: 1$"),
        ({"n_layers": True}, r"n_layers must be a whole number from 1 to 24, not True"),
        ({"n_layers": 4.0}, r"n_layers must be a whole number from 1 to 24, not 4\.0"),
        ({"n_layers": "4"}, r"n_layers must be a whole number from 1 to 24, not '4'"),
        ({"n_layers": None}, r"n_layers must be a whole number from 1 to 24, not None"),
        ({"n_heads": 0}, r"n_heads \(0\) must lie between 1 and .* nearest: 1$"),
        ({"d_model": 0, "n_heads": 1}, r"d_model \(0\) must lie between 1 and 2,048; nearest: 1$"),
        ({"d_model": 4096}, r"d_model \(4,096\) must lie between 1 and 2,048; nearest: 2,048$"),
        ({"d_ff": 0}, r"d_ff \(0\) .* nearest: 1$"),
        ({"max_len": 1}, r"max_len \(1\) .* nearest: 2$"),
        ({"n_segments": -1}, r"n_segments \(-1\) .* nearest: 0$"),
        ({"vocab_size": 3}, r"vocab_size \(3\) .* nearest: 4$"),
        ({"vocab_size": True}, r"vocab_size must be a whole number from 4 to 1,000,000, not True"),
        ({"d_model": 8, "n_heads": 3}, r"n_heads \(3\) must divide d_model \(8\); nearest: n_heads 2, or d_model 9$"),
        ({"d_model": 7, "n_heads": 2}, r"n_heads \(2\) must divide d_model \(7\); nearest: n_heads 1, or d_model 8$"),
        ({"norm_placement": "Pre"}, r"norm_placement must be one of post, pre, not 'Pre'; usual: post"),
        ({"activation": "tanh"}, r"activation must be one of relu, gelu, silu, not 'tanh'; usual: relu"),
        ({"positions": None}, r"positions must be one of sinusoidal, learned, none, not None; usual: sinusoidal"),
        ({"activation": ["relu"]}, r"activation must be one of relu, gelu, silu, not \['relu'\]"),
        ({"bias": 1}, r"bias must be True or False, not 1"),
        ({"scale_embeddings": "no"}, r"scale_embeddings must be True or False, not 'no'"),
        ({"embedding_norm": None}, r"embedding_norm must be True or False, not None"),
        ({"final_norm": 0}, r"final_norm must be True or False, not 0"),
        ({"norm_eps": math.nan}, r"norm_eps \(nan\) must lie between 0 and 1, both excluded; usual: 1e-05"),
        ({"norm_eps": math.inf}, r"norm_eps \(inf\) must lie between 0 and 1"),
        ({"norm_eps": 0.0}, r"norm_eps \(0\.0\) must lie between 0 and 1"),
        ({"norm_eps": -1e-5}, r"norm_eps \(-1e-05\) must lie between 0 and 1"),
        ({"norm_eps": 1}, r"norm_eps \(1\) must lie between 0 and 1"),
        ({"norm_eps": True}, r"norm_eps must be a number, not True"),
        ({"norm_eps": "1e-5"}, r"norm_eps must be a number, not '1e-5'"),
        ({"norm_eps": 10**400}, r"norm_eps .* must lie between 0 and 1"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.usefixtures("unchecked")
def test_a_refusal_names_the_rule_the_value_and_the_way_out(bad, message):
    with pytest.raises(ConfigError, match=message):
        EncoderConfig(**bad)


@pytest.mark.parametrize(("d_model", "n_heads"), [(8, 3), (7, 2), (9, 2), (128, 5), (2048, 3), (2047, 1024), (6, 8)])
def test_both_suggestions_of_the_head_rule_are_accepted(d_model, n_heads):
    """C1: a suggestion that is refused in turn is no way out (2,049 is above the limit of d_model)."""
    with pytest.raises(ConfigError) as refusal:
        EncoderConfig(d_model=d_model, n_heads=n_heads)
    heads, width = re.search(r"nearest: n_heads ([\d,]+), or d_model ([\d,]+)$", str(refusal.value)).groups()
    EncoderConfig(d_model=d_model, n_heads=int(heads.replace(",", "")))
    EncoderConfig(d_model=int(width.replace(",", "")), n_heads=n_heads)


@pytest.mark.parametrize("name", LIMITS)
def test_both_ends_of_every_limit_are_good(name):
    for value in LIMITS[name]:
        EncoderConfig(**{"n_heads": 1} | {name: value} | ({"d_model": value} if name == "n_heads" else {}))


def test_divisors_of_a_width():
    assert divisors(8) == [1, 2, 4, 8]
    assert divisors(7) == [1, 7]
    assert divisors(12) == [1, 2, 3, 4, 6, 12]


def test_nearest_divisor_prefers_the_smaller_on_a_tie():
    assert nearest_divisor(8, 3) == 2
    assert nearest_divisor(12, 5) == 4
    assert nearest_divisor(8, 100) == 8


@pytest.mark.parametrize(("placement", "expected"), [("pre", True), ("post", False)])
def test_final_norm_follows_the_placement_unless_said(placement, expected):
    """A13: on for Pre-LN, off for Post-LN; a choice of one's own stays."""
    assert EncoderConfig(norm_placement=placement).final_norm is expected
    assert EncoderConfig(norm_placement=placement, final_norm=not expected).final_norm is not expected


def test_flipping_the_placement_of_a_config():
    pre = dataclasses.replace(CLASSROOM, norm_placement="pre", final_norm=None)
    assert pre.final_norm is True


def test_paper_base_is_that_of_the_paper():
    """Vaswani et al. 2017, table 3 and sections 3.1, 3.3 to 3.5."""
    paper = PAPER_BASE
    assert (paper.n_layers, paper.n_heads, paper.d_model, paper.d_ff, paper.d_head) == (6, 8, 512, 2048, 64)
    assert (paper.activation, paper.norm_placement, paper.positions) == ("relu", "post", "sinusoidal")
    assert paper.scale_embeddings
    assert not paper.final_norm


def test_minilm_is_that_of_its_published_config():
    assert (MINILM.n_layers, MINILM.n_heads, MINILM.d_model, MINILM.d_ff) == (6, 12, 384, 1536)
    assert (MINILM.vocab_size, MINILM.max_len, MINILM.n_segments, MINILM.norm_eps) == (30_522, 512, 2, 1e-12)
    assert (MINILM.activation, MINILM.norm_placement, MINILM.positions) == ("gelu", "post", "learned")
    assert (MINILM.embedding_norm, MINILM.scale_embeddings, MINILM.final_norm) == (True, False, False)


def test_bert_base_has_the_shape_of_bert():
    """Devlin et al. 2019, section 3."""
    assert (BERT_BASE.n_layers, BERT_BASE.n_heads, BERT_BASE.d_model, BERT_BASE.d_ff) == (12, 12, 768, 3072)


def test_presets_are_the_named_ones():
    assert set(PRESETS.values()) == {CLASSROOM, PAPER_BASE, BERT_BASE, MINILM}
