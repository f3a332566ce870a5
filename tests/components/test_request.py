"""The keys of a request: equal exactly where every number of the run would be equal."""

from dataclasses import replace
from typing import Any

import pytest

import explorer
from components.address import PARAMETERS
from components.request import RUNS, Request, existing, other_placement, placements, request_of, trained_config
from explorer import CLASSROOM, MINILM, MINILM_PRELN, ConfigError, WeightsError
from explorer.text import Batch
from tests.helpers import tiny

MODEL = explorer.build(tiny())


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "source": "built",
        "config": tiny(),
        "seed": 0,
        "init": "xavier",
        "text": "a b",
        "pad_to": 0,
        "pad_side": "right",
        "mask": True,
        "device": "cpu",
    }
    return Request(**(fields | changes))


def batch(*sentences: str, **options: Any) -> Batch:
    return MODEL.batch(sentences or ("a b", "c"), **options)


def key(asked: Request | None = None, read: Batch | None = None) -> object:
    return (asked or request()).run_key(batch() if read is None else read)


def test_equal_settings_have_equal_keys() -> None:
    assert request() == request()
    assert hash(request()) == hash(request())
    assert request().model_key == request().model_key
    assert key() == key()
    assert hash(key()) == hash(key())


@pytest.mark.parametrize(
    "changes",
    [
        {"mask": False},
        {"causal": True},
        {"device": "auto"},
        {"precision": "float64"},
        {"off": ((0, 1),)},
        {"seed": 1},
        {"init": "normal"},
        {"config": tiny(n_layers=1)},
    ],
    ids=str,
)
def test_what_changes_the_numbers_changes_the_key(changes: dict[str, Any]) -> None:
    assert key(request(**changes)) != key()


@pytest.mark.parametrize("name", ["activation", "norm_placement", "positions", "final_norm", "n_heads", "d_ff"])
def test_each_part_of_the_architecture_is_in_the_key(name: str) -> None:
    other = {"activation": "gelu", "norm_placement": "pre", "positions": "none", "final_norm": True}
    config = tiny(**{name: other.get(name, 4)})
    assert request(config=config).model_key != request().model_key


def test_the_architecture_counts_by_value() -> None:
    assert request(config=tiny(final_norm=False)).model_key == request(config=tiny(final_norm=None)).model_key


@pytest.mark.parametrize(
    "other",
    [
        batch("a b", "d"),
        batch("c", "a b"),
        batch("a b"),
        batch("a b", "c", pad_to=6),
        batch("a b", "c", padding_side="left"),
    ],
    ids=["another word", "another order", "one sentence", "longer padding", "padding left"],
)
def test_what_changes_the_batch_changes_the_key(other: Batch) -> None:
    assert key(read=other) != key()


def test_the_same_tokens_in_another_shape_are_another_run() -> None:
    flat = batch("a b a b")
    grids = {name: getattr(flat, name).reshape(2, 3) for name in ("token_ids", "key_padding_mask", "segments")}
    tall = replace(flat, **grids)
    assert key(read=flat) != key(read=tall)


def test_padding_typed_as_a_word_is_not_padding() -> None:
    """Equal token ids, and only the mask tells them apart."""
    padded = batch("a", "a b")
    real = replace(padded, key_padding_mask=padded.key_padding_mask & False)
    assert key(read=padded) != key(read=real)


def test_blank_lines_and_margins_are_not_in_the_key() -> None:
    """A batch holds the sentences without them."""
    assert key(request(text="a b\n\nc")) == key(request(text=" a b \nc\n"))


@pytest.mark.parametrize(("mine", "yours"), [("a b", "a  b"), ("caf\u00e9", "cafe\u0301")])
def test_the_same_tokens_typed_otherwise_are_another_run(mine: str, yours: str) -> None:
    """A run carries its text, and nobody must see what somebody else typed."""
    assert batch(mine).token_ids.tolist() == batch(yours).token_ids.tolist()
    assert key(read=batch(mine)) != key(read=batch(yours))


def minilm(**changes: Any) -> Request:
    return request(**({"source": "minilm", "config": MINILM} | changes))


def test_trained_weights_have_no_seed() -> None:
    assert minilm(seed=0).model_key == minilm(seed=5, init="normal").model_key
    assert key(minilm(seed=0)) == key(minilm(seed=5))


def test_trained_weights_are_told_from_built_ones_of_the_same_shape() -> None:
    assert minilm().model_key != request(config=MINILM).model_key


@pytest.mark.parametrize("n_layers", range(1, 6))
def test_the_first_layers_of_a_trained_encoder_are_another_run(n_layers: int) -> None:
    cut = minilm(config=trained_config("minilm", n_layers))
    assert cut.config == replace(MINILM, n_layers=n_layers)
    assert cut.model_key != minilm().model_key


@pytest.mark.parametrize(
    "changes",
    [{"mask": False}, {"device": "auto"}, {"causal": True}, {"precision": "float16"}, {"off": ((5, 0),)}],
    ids=str,
)
def test_mask_and_device_are_in_the_key_of_trained_weights_too(changes: dict[str, Any]) -> None:
    assert key(minilm(**changes)) != key(minilm())


def test_the_other_placement_of_a_trained_encoder_is_its_twin_and_back() -> None:
    asked = minilm(config=trained_config("minilm", 3))
    twin = other_placement(asked)
    assert (twin.source, twin.config.norm_placement, twin.config.n_layers) == ("minilm-preln", "pre", 3)
    assert twin.config.final_norm
    assert not twin.config.embedding_norm
    assert other_placement(twin) == asked
    assert twin.model_key != asked.model_key


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("final_norm", [None, True, False])
def test_the_other_placement_of_a_built_encoder_holds_all_else(placement: Any, final_norm: bool | None) -> None:
    """A final norm that was asked for against the placement stays as it is; else it follows the placement."""
    asked = request(config=tiny(norm_placement=placement, final_norm=final_norm), seed=7, mask=False)
    other = other_placement(asked)
    assert other.config.norm_placement != placement
    own = placement == "pre"
    against = final_norm is not None and final_norm != own
    assert other.config.final_norm == (final_norm if against else not own)
    assert replace(other, config=asked.config) == asked


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_of_both_placements_post_ln_comes_first(norm: Any) -> None:
    asked = request(config=tiny(norm_placement=norm), seed=3, mask=False)
    both = placements(asked)
    assert both.names == ("Post-LN", "Pre-LN")
    assert [one.config.norm_placement for one in (both.a, both.b)] == ["post", "pre"]
    assert both.asked == asked
    assert asked in (both.a, both.b)
    assert both.names != RUNS  # which have other words and buttons


def settings(**changes: Any) -> dict[str, Any]:
    """The parameters of a page that was just opened, with some changed."""
    return {key: parameter.default for key, parameter in PARAMETERS.items()} | changes


def test_a_request_of_the_defaults_is_the_trained_encoder() -> None:
    asked = request_of(settings())
    assert (asked.source, asked.config, asked.seed, asked.off) == ("minilm", MINILM, 0, ())
    assert (asked.mask, asked.causal, asked.precision, asked.pad_side, asked.pad_to) == (
        True,
        False,
        "float32",
        "right",
        0,
    )
    assert request_of(settings(source="minilm-preln", layers=2)).config == replace(MINILM_PRELN, n_layers=2)


def test_a_request_of_what_is_built_has_every_setting() -> None:
    values = settings(
        source="built", text="x y", layers=3, heads=5, d_model=20, d_ff=9, activation="silu", norm="pre", seed=7,
        positions="none", final_norm="false", init="normal", pad_to=30, pad_side="left", mask=False, causal=True,
        device="cpu", precision="bfloat16", off=((0, 1), (2, 4), (2, 5), (3, 0)),
    )  # fmt: skip
    asked = request_of(values)
    assert asked == Request(
        source="built",
        config=explorer.EncoderConfig(
            n_layers=3, n_heads=5, d_model=20, d_ff=9, activation="silu", norm_placement="pre", positions="none",
            final_norm=False,
        ),
        seed=7, init="normal", text="x y", pad_to=30, pad_side="left", mask=False, causal=True, device="cpu",
        precision="bfloat16", off=((0, 1), (2, 4)),
    )  # fmt: skip
    assert request_of(settings(source="built")).config == CLASSROOM


def test_the_seed_of_what_is_loaded_is_of_no_account() -> None:
    assert request_of(settings(seed=9, init="normal", heads=3)) == request_of(settings())


def test_what_cannot_be_built_or_was_not_trained_here_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"128.*3|3.*128"):
        request_of(settings(source="built", heads=3))
    with pytest.raises(WeightsError, match="laboratory"):
        request_of(settings(source="lab"))
    here = request_of(settings(source="lab", number=12, seed=3, heads=3), trained=tiny())
    assert (here.config, here.seed, here.init) == (tiny(), 12, "xavier")


def test_heads_that_an_encoder_does_not_have_cannot_be_off() -> None:
    off = [(0, 0), (1, 1), (1, 2), (2, 0), (9, 9)]
    assert existing(off, tiny()) == ((0, 0), (1, 1))
    assert existing(iter(off), tiny(n_layers=1)) == ((0, 0),)
    assert existing([], tiny()) == ()
