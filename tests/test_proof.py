"""The claims about a run: they hold for every honest run, and a fault breaks those that it must, and no other."""

import dataclasses
import math
import tracemalloc

import numpy as np
import pytest
import torch

import explorer
from explorer import Claim, ConfigError, EncoderConfig, Run, Trace, build, proof
from explorer.model import attention, encoder, norms
from explorer.twin import torch_twin
from tests.faults import by_sample_std, looking_ahead, scaled_by_the_width, unmasked
from tests.helpers import rough, tiny
from tests.inputs import ARCHITECTURES, words

SENTENCES = ["one two three", "four"]
EQUATIONS = {
    "rows": "Σₖ w[q, k] = 1",
    "columns": "w[q, k] = 0 for each padded",
    "triangle": "w[q, k] = 0 for each key k after",
    "q k v": "[q k v] =",
    "softmax": "w = softmax(",
    "attn_out": "attn_out = z",
    "hidden": "hidden = ",
    "ff_out": "ff_out = hidden",
    "norm1": "norm1.out =",
    "norm2": "norm2.out =",
    "mid": "resid_mid =",
    "post": "resid_post =",
    "handover": "resid_post[l] =",
    "start": "resid_pre[0] =",
    "output": "utput is",
    "torch": "torch.nn.TransformerEncoder",
    "CPU": "The CPU has",
}


def named(claims: list[Claim]) -> dict[str, Claim]:
    """The claims by a short name. Each has one, and one only."""
    found = [[name for name, part in EQUATIONS.items() if part in claim.claim] for claim in claims]
    assert [len(names) for names in found] == [1] * len(claims), found
    result = {names[0]: claim for names, claim in zip(found, claims, strict=True)}
    assert len(result) == len(claims)
    return result


def broken(claims: list[Claim]) -> set[str]:
    return {name for name, claim in named(claims).items() if not claim.holds}


def tampered(run: Run, site: str, at: tuple[int, ...], by: float = 0.01) -> Run:
    """The run, with one recorded number moved."""
    values = dict(run.trace._values)
    values[site] = values[site].clone()
    values[site][at] += by
    return dataclasses.replace(run, trace=Trace(values, run.config, run.trace.key_padding_mask, causal=run.causal))


def agree(claims: list[Claim], widest: float = 2e-3) -> None:
    assert [(claim.claim, claim.difference, claim.tolerance) for claim in claims if not claim.holds] == []
    assert all(claim.claim.endswith(".") and claim.why.endswith(".") for claim in claims)
    assert all(0 <= claim.tolerance < widest for claim in claims)  # wide enough for rounding, for nothing else


def first_token(model: explorer.Model) -> explorer.Batch:
    """A text of one token."""
    batch = model.batch([""])
    ids = {name: getattr(batch, name)[:, :1] for name in ("token_ids", "key_padding_mask", "segments")}
    rows = {name: [row[:1] for row in getattr(batch, name)] for name in ("tokens", "offsets", "words")}
    return dataclasses.replace(batch, **ids, **rows)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_holds(name):
    model = rough(ARCHITECTURES[name])
    for side in ("right", "left"):
        batch = model.batch(SENTENCES, padding_side=side, pad_to=9)
        for use_mask in (True, False):
            agree(proof(explorer.run(model, batch, use_mask=use_mask), model))
            if side == "right" or not use_mask:
                agree(proof(explorer.run(model, batch, use_mask=use_mask, causal=True), model))
    model = build(ARCHITECTURES[name])
    agree(proof(explorer.run(model, first_token(model)), model))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("init", ["xavier", "normal"])
def test_deep_ones_hold(placement, init):
    """24 layers pass on what each has rounded."""
    sizes = {"n_heads": 4, "d_model": 32, "d_ff": 64}
    model = build(EncoderConfig(n_layers=24, norm_placement=placement, **sizes), init=init)
    agree(proof(explorer.run(model, model.batch([words(40), "one"])), model))
    model = rough(EncoderConfig(n_layers=24, norm_placement=placement, n_heads=1, d_model=4, d_ff=16))
    agree(
        proof(explorer.run(model, model.batch([words(30), "one"])), model), widest=0.02
    )  # so far does rounding go here


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_long_ones_hold_and_stay_within_the_memory_of_the_run(placement):
    model = build(EncoderConfig(n_layers=3, norm_placement=placement))
    run = explorer.run(model, model.batch([words(510)]))
    tracemalloc.start()
    claims = proof(run, model)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    agree(claims)
    assert peak <= run.n_bytes


@pytest.mark.parametrize("kind", ["alone", "padded", "left", "no mask", "one word", "empty", "one token"])
def test_the_trained_encoder_holds(minilm, kind):
    texts = ["The animal didn't cross the street because it was too tired.", "Hello", words(12)]
    batch = {
        "alone": lambda: minilm.batch(texts[:1]),
        "left": lambda: minilm.batch(texts, padding_side="left", pad_to=64),
        "one word": lambda: minilm.batch(["Hello"]),
        "empty": lambda: minilm.batch([""]),
        "one token": lambda: first_token(minilm),
    }.get(kind, lambda: minilm.batch(texts))()
    agree(proof(explorer.run(minilm, batch, use_mask=kind != "no mask"), minilm))


WRONG_SCALE = (attention, "masked_scores", scaled_by_the_width)
NO_MASK = (attention, "masked_scores", unmasked)
NO_TRIANGLE = (encoder, "attention_mask", looking_ahead)
SAMPLE_STD = (norms, "layer_norm", by_sample_std)
NORMS = {"pre": {"start", "norm1", "norm2", "output"}, "post": {"start", "mid", "post"}}


def run_with(fault, model, batch, **settings) -> Run:
    """The model is broken for one run only: the proof would see its own mistake nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*fault)
        return explorer.run(model, batch, **settings)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (WRONG_SCALE, {"softmax", "torch"}),
        (NO_MASK, {"columns", "softmax", "torch"}),
        (SAMPLE_STD, {"norms", "torch"}),
    ],
    ids=["wrong scale", "dropped mask", "sample std"],
)
def test_a_broken_model_is_found_out(placement, side, fault, expected):
    model = rough(tiny(norm_placement=placement, embedding_norm=True))
    batch = model.batch(SENTENCES, padding_side=side)
    expected = expected - {"norms"} | NORMS[placement] if "norms" in expected else expected
    assert broken(proof(run_with(fault, model, batch), model)) == expected
    agree(proof(explorer.run(model, batch), model))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("sentences", [SENTENCES, SENTENCES[:1]], ids=["padded", "whole"])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (WRONG_SCALE, {"softmax", "torch"}),
        (NO_MASK, {"columns", "triangle", "softmax", "torch"}),
        (NO_TRIANGLE, {"triangle", "softmax", "torch"}),
    ],
    ids=["wrong scale", "dropped mask", "dropped triangle"],
)
def test_a_broken_causal_model_is_found_out(placement, sentences, fault, expected):
    model = rough(tiny(norm_placement=placement))
    batch = model.batch(sentences)
    expected = expected if batch.n_padding else expected - {"columns"}
    assert broken(proof(run_with(fault, model, batch, causal=True), model)) == expected
    agree(proof(explorer.run(model, batch, causal=True), model))


@pytest.mark.parametrize(
    ("site", "at", "expected"),
    [
        ("layers.0.attn_out", (0, 1, 2), {"attn_out", "mid"}),
        ("layers.0.attn.q", (0, 1, 2, 0), {"q k v", "softmax"}),
        ("layers.0.attn.v", (0, 1, 2, 0), {"q k v", "attn_out"}),
        ("layers.0.attn.pattern", (0, 1, 2, 0), {"rows", "softmax", "attn_out"}),
        ("layers.0.attn.pattern", (1, 1, 2, 3), {"rows", "columns", "attn_out"}),  # a padded key
        ("layers.0.ff.hidden", (0, 1, 2), {"hidden", "ff_out"}),
        ("layers.0.ff_out", (0, 1, 2), {"ff_out", "post"}),
        ("layers.0.resid_mid", (0, 1, 2), {"mid", "hidden", "post"}),
        ("layers.0.resid_post", (0, 1, 2), {"post", "handover"}),
        ("layers.1.resid_pre", (0, 1, 2), {"q k v", "mid", "handover"}),
    ],
)
def test_a_number_that_was_tampered_with_breaks_the_equations_it_stands_in(site, at, expected):
    model = rough(tiny())
    run = explorer.run(model, model.batch(SENTENCES))
    assert broken(proof(tampered(run, site, at), model)) == expected
    assert expected <= broken(proof(tampered(run, site, at, by=math.nan), model))
    assert expected <= broken(proof(tampered(run, site, at, by=math.inf), model))


def test_the_equations_of_pre_ln():
    model = rough(tiny(norm_placement="pre"))
    run = explorer.run(model, model.batch(SENTENCES))
    assert broken(proof(tampered(run, "layers.0.norm1.out", (0, 1, 2)), model)) == {"norm1", "q k v"}
    assert broken(proof(tampered(run, "layers.0.norm2.out", (0, 1, 2)), model)) == {"norm2", "hidden"}
    assert broken(proof(tampered(run, "layers.0.resid_mid", (0, 1, 2)), model)) == {"mid", "norm2", "post"}
    assert broken(proof(tampered(run, "layers.1.resid_post", (0, 1, 2)), model)) == {"post", "output"}


def test_padding_is_not_looked_at():
    """What stands at a padded position has no meaning, and breaks nothing."""
    model = rough(tiny())
    run = explorer.run(model, model.batch(SENTENCES))
    for site in ("attn_out", "ff_out", "resid_mid", "attn.q"):
        at = (1, 0, 4, 0) if site == "attn.q" else (1, 4, 0)
        assert broken(proof(tampered(run, f"layers.0.{site}", at, by=math.nan), model)) == set()


def test_what_says_nothing_about_the_run_is_left_out():
    model = rough(tiny(n_layers=1))
    names = list(named(proof(explorer.run(model, model.batch(["one"])), model)))
    assert names == ["rows", "q k v", "softmax", "attn_out", "hidden", "ff_out", "mid", "post", "output", "torch"]
    model = rough(tiny(norm_placement="pre", embedding_norm=True))
    names = set(named(proof(explorer.run(model, model.batch(SENTENCES)), model)))
    assert names == set(EQUATIONS) - {"CPU", "triangle"}
    names = set(named(proof(explorer.run(model, model.batch(SENTENCES), causal=True), model)))
    assert names == set(EQUATIONS) - {"CPU"}


def test_heads_that_are_off_are_0_in_the_equation():
    model = rough(tiny())
    run = explorer.run(model, model.batch(SENTENCES), heads_off={(0, 1), (1, 0)})
    claims = proof(run, model)
    agree(claims)
    assert "torch" not in named(claims)
    assert broken(proof(dataclasses.replace(run, heads_off=frozenset()), model)) == {"attn_out", "torch"}


def test_another_device_is_held_against_the_cpu():
    model = rough(tiny())
    elsewhere = dataclasses.replace(explorer.run(model, model.batch(SENTENCES)), device="cuda")
    claims = named(proof(elsewhere, model))
    assert (claims["CPU"].difference, claims["CPU"].holds) == (0, True)
    far = dataclasses.replace(elsewhere, output=elsewhere.output + np.float32(0.01))
    assert broken(proof(far, model)) == {"output", "torch", "CPU"}


def test_the_difference_is_the_largest_of_all_layers():
    """By hand: the last of 3 layers is off by 0.5, the first by 0.25, exactly."""
    model = rough(tiny(n_layers=3, norm_placement="pre"))
    run = explorer.run(model, model.batch(SENTENCES))
    off = tampered(tampered(run, "layers.0.attn_out", (0, 1, 2), 0.25), "layers.2.attn_out", (0, 0, 2), 0.5)
    assert named(proof(off, model))["mid"].difference == pytest.approx(0.5, abs=1e-5)


def test_what_is_not_a_number_never_holds():
    for difference, tolerance in [(math.nan, 1.0), (math.inf, 1.0), (0.0, math.nan), (0.0, math.inf), (math.inf,) * 2]:
        assert not Claim("1 = 1.", difference, tolerance, "").holds
    assert Claim("1 = 1.", 0.0, 0.0, "").holds


def test_a_run_of_another_architecture_is_refused():
    model = rough(tiny())
    run = explorer.run(model, model.batch(["one"]))
    with pytest.raises(ConfigError, match="another architecture"):
        proof(run, rough(tiny(n_layers=1)))


def test_the_twin_owns_no_parameter_and_draws_nothing():
    model = rough(tiny(norm_placement="pre"))
    before = torch.get_rng_state()
    twin = torch_twin(model)
    assert torch.equal(before, torch.get_rng_state())
    ours = {parameter.data_ptr() for parameter in model.encoder.parameters()}
    theirs = [parameter.data_ptr() for parameter in twin.parameters()]
    assert set(theirs) <= ours
    assert len(theirs) == len(set(theirs)) == len(ours)  # sinusoidal positions: the embeddings have none
