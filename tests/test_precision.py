"""Runs in other precisions: what they are made of, how near they are, what they cost, and what is refused."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer import PRECISIONS, ConfigError, Recorder, build, estimate_bytes, run
from explorer.weights import draw_state, fill
from tests.helpers import rough, tiny
from tests.inputs import ARCHITECTURES, words

SENTENCES = ["one two three", "four"]
NEAR = {"float32": 0.0, "float64": 1e-5, "float16": 0.02, "bfloat16": 0.15}
"""How far small encoders may be from float32: a few steps of numbers up to 4."""

OTHERS = [precision for precision in PRECISIONS if precision != "float32"]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
def test_every_architecture_is_near_float32(name, causal, precision):
    model = build(ARCHITECTURES[name], seed=1)
    batch = model.batch(SENTENCES)
    real = ~batch.key_padding_mask.numpy()
    found, expected = (run(model, batch, precision=p, causal=causal) for p in (precision, "float32"))
    assert (found.precision, found.output.dtype, found.trace.pattern().dtype) == (precision, np.float32, np.float32)
    assert np.isfinite(found.output).all()
    assert_allclose(found.output[real], expected.output[real], rtol=0, atol=NEAR[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("name", ["minilm", "minilm-preln"])
def test_the_trained_encoders_are_near_float32(name, causal, precision):
    """16 tokens; outputs reach 6. Measured: 2e-6 in float64, 0.005 in float16, 0.034 in bfloat16."""
    model = explorer.load(name)
    batch = model.batch(["The animal didn't cross the street because it was tired.", "Hello"], pad_to=16)
    real = ~batch.key_padding_mask.numpy()
    found, expected = (run(model, batch, precision=p, causal=causal) for p in (precision, "float32"))
    limit = {"float32": 0.0, "float64": 1e-5, "float16": 0.01, "bfloat16": 0.07}[precision]
    assert np.isfinite(found.output).all()
    assert_allclose(found.output[real], expected.output[real], rtol=0, atol=limit)
    assert (found.output == expected.output).all() == (precision == "float32")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_recording_changes_no_bit_and_scores_follow_from_q_and_k(placement, causal, precision):
    model = rough(tiny(norm_placement=placement, positions="learned"))
    batch = model.batch([words(20), "four"])
    found = run(model, batch, precision=precision, causal=causal)
    recorder, encoder = Recorder(), model.on("cpu", precision)
    with torch.inference_mode():
        alone = encoder(batch.token_ids, batch.key_padding_mask, causal=causal)
        recorded = encoder(batch.token_ids, batch.key_padding_mask, causal=causal, tape=recorder)
    assert alone.dtype == PRECISIONS[precision]
    assert torch.equal(alone, recorded)
    assert np.array_equal(found.output, alone.float().numpy())
    for layer in range(2):
        scores = recorder.values[f"layers.{layer}.attn.scores"]
        assert scores.dtype == PRECISIONS[precision]
        assert np.array_equal(found.trace.scores(layer), scores.float().numpy())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_everything_recorded_is_in_the_precision_and_so_many_bytes(precision):
    """The open vocabulary and a table of positions follow too: their sums would be float32 otherwise."""
    model = rough(tiny(embedding_norm=True, n_segments=1))
    found = run(model, model.batch(SENTENCES), precision=precision)
    assert {value.dtype for value in found.trace._values.values()} == {PRECISIONS[precision]}
    size = PRECISIONS[precision].itemsize
    assert found.n_bytes * 4 == run(model, model.batch(SENTENCES)).n_bytes * size
    assert (found.trace.shapes()["bytes"] == found.trace.shapes()["shape"].map(np.prod) * size).all()
    needed = found.n_bytes + 2 * size * found.trace.pattern(0).size
    assert needed <= estimate_bytes(model.config, batch=2, pos=5, precision=precision) <= 1.6 * needed


def test_the_estimate_counts_the_size_of_a_number_and_the_square_mask():
    sizes = {p: estimate_bytes(tiny(), batch=2, pos=8, precision=p) for p in PRECISIONS}
    assert sizes["float64"] == 2 * sizes["float32"] == 4 * sizes["float16"] == 4 * sizes["bfloat16"]
    assert estimate_bytes(tiny(), batch=2, pos=8, causal=True) - sizes["float32"] == 2 * 8 * 8


@pytest.mark.parametrize("precision", OTHERS)
def test_a_copy_is_made_once_and_the_model_stays_float32(precision):
    model = rough(tiny(positions="sinusoidal"))
    copied = model.on("cpu", precision)
    assert copied is model.on("cpu", precision)
    assert model.on("cpu") is model.on("cpu", "float32") is model.encoder
    floats = [t for t in (*copied.parameters(), *copied.buffers()) if t.is_floating_point()]
    assert {t.dtype for t in floats} == {PRECISIONS[precision]}
    assert copied.embed.positions.table.dtype == copied.embed.tokens.std.dtype == PRECISIONS[precision]
    assert copied.embed.tokens.seed.dtype == torch.int64
    for name, parameter in model.encoder.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(copied.get_parameter(name), parameter.to(PRECISIONS[precision]))


def test_the_first_layers_share_the_copy():
    """The layers control would hold the table of tokens once for each number of layers."""
    model = rough(tiny(n_layers=3, norm_placement="pre"))
    short, whole = model.first_layers(2).on("cpu", "float16"), model.on("cpu", "float16")
    assert len(short.layers) == 2
    assert {id(p) for p in short.parameters()} < {id(p) for p in whole.parameters()}
    again = model.first_layers(2)
    assert again.on("cpu", "float16") is again.on("cpu", "float16")


def test_the_parameters_of_a_norm_are_those_that_the_precision_holds():
    model = rough(tiny())
    gamma, _, eps = model.norm_parameters("norm1", 0)
    for precision, dtype in PRECISIONS.items():
        held, beta, held_eps = model.norm_parameters("norm1", 0, precision)
        assert np.array_equal(held, torch.tensor(gamma).to(dtype).float().numpy())
        assert held_eps == eps
        assert held.dtype == beta.dtype == np.float32
    assert not np.array_equal(model.norm_parameters("norm1", 0, "bfloat16")[0], gamma)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_constant_token_becomes_beta_though_eps_is_0_in_float16(precision):
    """eps is 1e-12 in BERT and below every float16: the root is taken in float32."""
    assert torch.tensor(1e-12, dtype=torch.float16) == 0
    norm = rough(tiny(norm_eps=1e-12)).on("cpu", precision).layers[0].norm1
    with torch.no_grad():
        out = norm(torch.full((1, 1, 8), 3.0, dtype=PRECISIONS[precision]), tape=explorer.SILENT)
    assert torch.equal(out[0, 0], norm.bias)


@pytest.mark.usefixtures("unchecked")
def test_a_precision_that_does_not_exist_is_refused_naming_the_options():
    model = build(tiny())
    message = "precision must be one of float32, float64, bfloat16, float16, not 'int8'; usual: float32"
    for ask in (
        lambda: run(model, model.batch(["one"]), precision="int8"),
        lambda: model.on("cpu", "int8"),
        lambda: estimate_bytes(model.config, batch=1, pos=3, precision="int8"),
    ):
        with pytest.raises(ConfigError, match=message):
            ask()


def test_numbers_too_large_for_float16_are_refused_where_they_first_are():
    """Infinity would become NaN in the next norm."""
    model = build(tiny())
    state = draw_state(model.config)
    state["layers.1.ff.linear1.weight"] = state["layers.1.ff.linear1.weight"] * 1e6
    fill(model.encoder, state)
    batch = model.batch(SENTENCES)
    with pytest.raises(
        ConfigError, match=r"float16 ends at 65,504, .* \(first at layers\.1\.ff\.hidden\); use bfloat16"
    ):
        run(model, batch, precision="float16")
    for precision in ("float32", "float64", "bfloat16"):
        assert np.isfinite(run(model, batch, precision=precision).output).all()


def test_mps_has_no_float64(monkeypatch):
    monkeypatch.setattr(explorer.device, "available", lambda: ["mps", "cpu"])
    model = build(tiny())
    with pytest.raises(ConfigError, match="mps computes in no float64; use the device cpu"):
        run(model, model.batch(["one"]), device="mps", precision="float64")
