"""The claims about runs in other precisions and with causal attention: the same equations, other roundings."""

import pytest

import explorer
from explorer import PRECISIONS, EncoderConfig, build, proof
from tests.helpers import rough, tiny
from tests.inputs import ARCHITECTURES, words
from tests.test_proof import (
    NO_MASK,
    NO_TRIANGLE,
    NORMS,
    SAMPLE_STD,
    SENTENCES,
    WRONG_SCALE,
    agree,
    broken,
    named,
    run_with,
    tampered,
)

WIDEST = {"float32": 2e-3, "float64": 2e-3, "float16": 0.1, "bfloat16": 0.7}
"""No claim is looser than this on small encoders, whose numbers are up to 5. Those of MiniLM reach 190."""


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_holds(name, precision):
    model = rough(ARCHITECTURES[name])
    batch = model.batch(SENTENCES, pad_to=9)
    for causal in (False, True):
        for use_mask in (True, False):
            run = explorer.run(model, batch, use_mask=use_mask, causal=causal, precision=precision)
            agree(proof(run, model), widest=WIDEST[precision])
    run = explorer.run(model, model.batch(SENTENCES, padding_side="left"), precision=precision)
    agree(proof(run, model), widest=WIDEST[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_deep_and_wide_ones_hold(placement, precision):
    sizes = {"n_heads": 4, "d_model": 32, "d_ff": 64}
    for model, text in (
        (build(EncoderConfig(n_layers=24, norm_placement=placement, **sizes)), words(40)),
        (build(EncoderConfig(norm_placement=placement)), words(100)),
    ):
        for causal in (False, True):
            run = explorer.run(model, model.batch([text, "one"]), causal=causal, precision=precision)
            agree(proof(run, model), widest=WIDEST[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
def test_the_trained_encoder_holds(minilm, causal, precision):
    batch = minilm.batch(["The animal didn't cross the street because it was too tired.", "Hello"])
    agree(proof(explorer.run(minilm, batch, causal=causal, precision=precision), minilm), widest=5 * WIDEST[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (WRONG_SCALE, {"softmax", "torch"}),
        (NO_MASK, {"columns", "triangle", "softmax", "torch"}),
        (NO_TRIANGLE, {"triangle", "softmax", "torch"}),
        (SAMPLE_STD, {"norms", "torch"}),
    ],
    ids=["wrong scale", "dropped mask", "dropped triangle", "sample std"],
)
def test_a_broken_model_is_found_out(placement, fault, expected, precision):
    model = rough(tiny(norm_placement=placement, embedding_norm=True))
    batch = model.batch(SENTENCES)
    expected = expected - {"norms"} | NORMS[placement] if "norms" in expected else expected
    found = broken(proof(run_with(fault, model, batch, causal=True, precision=precision), model))
    if precision == "bfloat16":  # two layers on, its rounding is as large as some of these faults are
        found, expected = found - {"torch"}, expected - {"torch"}
    assert found == expected


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_said_of_each_precision(precision):
    model = rough(tiny())
    claims = named(proof(explorer.run(model, model.batch(SENTENCES), precision=precision), model))
    step = {"float16": "float16, 2⁻¹⁰", "bfloat16": "bfloat16, 2⁻⁷"}.get(precision)
    for name, claim in claims.items():
        if name not in ("columns", "handover", "output"):
            assert "of float32, 2⁻²³" in claim.why
            assert ("16, 2⁻" in claim.why) == (step is not None)
            assert step is None or f" of {step}" in claim.why
            assert claim.why.startswith("Arrays are read in float32.") == (precision == "float64")


@pytest.mark.parametrize("precision", ["float64", "float16", "bfloat16"])
def test_a_number_that_was_tampered_with_breaks_the_equations_it_stands_in(precision):
    model = rough(tiny())
    run = explorer.run(model, model.batch(SENTENCES), causal=True, precision=precision)
    by = {"float64": 0.01, "float16": 0.1, "bfloat16": 1.0}[precision]
    assert broken(proof(tampered(run, "layers.0.attn_out", (0, 1, 2), by), model)) == {"attn_out", "mid"}
    assert broken(proof(tampered(run, "layers.0.ff_out", (0, 1, 2), by), model)) == {"ff_out", "post"}
    assert broken(proof(tampered(run, "layers.0.resid_post", (0, 1, 2), by), model)) == {"post", "handover"}
    assert "triangle" in broken(proof(tampered(run, "layers.0.attn.pattern", (0, 1, 2, 3), 1e-6), model))
