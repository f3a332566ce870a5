"""Models ready to run."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer import MINILM, ConfigError, build
from tests.helpers import rough, tiny


def test_a_built_model_says_that_it_is_untrained():
    """A12: the page shows this sentence."""
    report = build(tiny(), seed=7).report
    assert report.source == "Untrained: random weights drawn from seed 7."
    assert not report.trained


def test_the_trained_model_says_what_it_is(minilm):
    """By hand: 30,522 x 384 + 512 x 384 + 2 x 384 + 768 for the embeddings, 1,774,464 for each of 6 layers."""
    assert minilm.config == MINILM
    assert minilm.report.trained
    assert minilm.report.n_parameters == (30_522 + 512 + 2) * 384 + 768 + 6 * 1_774_464
    assert minilm.report.unused == ("embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight")
    assert minilm.report.sha256.startswith("53aa5117")


def test_an_unknown_name_is_refused_naming_the_known_ones():
    with pytest.raises(ConfigError, match="no trained encoder 'bert'; there is: minilm"):
        explorer.load("bert")


def test_models_are_in_eval_mode_on_the_cpu_without_gradients(minilm):
    for model in (minilm, build(tiny(vocab_size=50, positions="learned"))):
        assert not model.encoder.training
        for tensor in (*model.encoder.parameters(), *model.encoder.buffers()):
            assert tensor.device.type == "cpu"
            assert not tensor.requires_grad
        assert model.encoder is model.on("cpu")


def test_every_device_has_the_weights_of_the_cpu():
    """A19: seeded on the device, they would be others. The loop has the CPU at least."""
    config = tiny(vocab_size=50, positions="learned", norm_placement="pre")
    model = build(config, seed=3)
    reference = build(config, seed=3)
    batch = model.batch(["one two three", "four"])
    expected = explorer.run(reference, batch).output
    devices = explorer.available_devices()
    assert "cpu" in devices
    for device in devices:
        state = model.on(device).state_dict()
        for name, value in reference.encoder.state_dict().items():
            assert torch.equal(state[name].cpu(), value), name
        run = explorer.run(model, batch, device=device)
        assert run.device == device
        assert_allclose(run.output, expected, rtol=0, atol=0 if device == "cpu" else 1e-3)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_first_layers_are_those_of_the_full_run_bit_for_bit(placement):
    model = rough(tiny(n_layers=4, norm_placement=placement))
    batch = model.batch(["one two three", "four"])
    full = explorer.run(model, batch)
    for n_layers in range(1, 5):
        short = explorer.run(model.first_layers(n_layers), batch)
        assert short.config == dataclasses.replace(model.config, n_layers=n_layers)
        for point in ("pre", "mid", "post"):
            assert np.array_equal(short.trace.resid(point), full.trace.resid(point)[:n_layers])
        assert np.array_equal(short.trace.pattern(), full.trace.pattern()[:n_layers])
        assert np.array_equal(short.trace.scores(n_layers - 1), full.trace.scores(n_layers - 1))
    assert np.array_equal(short.output, full.output)


def test_the_first_layers_of_the_trained_encoder(minilm):
    batch = minilm.batch(["The animal didn't cross the street.", "Hello"])
    short, full = explorer.run(minilm.first_layers(2), batch), explorer.run(minilm, batch)
    assert np.array_equal(short.output, full.trace.resid("post", 1))
    assert minilm.first_layers(2).report.n_parameters == minilm.report.n_parameters - 4 * 1_774_464
    assert minilm.first_layers(2).report.trained


def test_the_first_layers_leave_the_model_as_it_was():
    model = rough(tiny(n_layers=3))
    model.first_layers(1)
    assert len(model.encoder.layers) == model.config.n_layers == 3


@pytest.mark.parametrize(("n_layers", "nearest"), [(0, 1), (-2, 1), (4, 3)])
def test_layers_that_are_not_there_are_refused(n_layers, nearest):
    with pytest.raises(ConfigError, match=rf"n_layers \({n_layers}\) must lie between 1 and 3, .* nearest: {nearest}$"):
        build(tiny(n_layers=3)).first_layers(n_layers)


@pytest.mark.parametrize("init", ["xavier", "normal"])
def test_a_built_model_reads_its_own_words(init):
    model = build(tiny(max_len=8), init=init)
    batch = model.batch(["a b c d e f g h i"])
    assert batch.token_ids.shape == (1, 8)
    assert batch.n_cut == (3,)
    assert np.isfinite(explorer.run(model, batch).output).all()


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_parameters_of_each_norm(placement):
    model = rough(tiny(norm_placement=placement, embedding_norm=True, final_norm=True, norm_eps=1e-3))
    modules = {
        ("embed", None): model.encoder.embed.norm,
        ("norm1", 0): model.encoder.layers[0].norm1,
        ("norm2", 1): model.encoder.layers[1].norm2,
        ("final", None): model.encoder.final_norm,
    }
    for (name, layer), module in modules.items():
        gamma, beta, eps = model.norm_parameters(name, layer)
        assert np.array_equal(gamma, module.weight.numpy())
        assert np.array_equal(beta, module.bias.numpy())
        assert eps == 1e-3
        assert not gamma.flags.writeable
        assert not beta.flags.writeable


def test_the_beta_of_an_encoder_without_bias_is_0():
    gamma, beta, _ = build(tiny(bias=False)).norm_parameters("norm1", 0)
    assert (gamma.tolist(), beta.tolist()) == ([1.0] * 8, [0.0] * 8)
    assert not beta.flags.writeable


def test_a_norm_that_is_not_there_is_refused():
    model = build(tiny())
    for name, layer in [("embed", None), ("final", None), ("norm1", None), ("final", 0)]:
        with pytest.raises(KeyError, match=name):
            model.norm_parameters(name, layer)
    for layer in (-1, 2):
        with pytest.raises(IndexError, match="there are layers 0 to 1"):
            model.norm_parameters("norm2", layer)
