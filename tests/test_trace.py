"""The record of a run, read through its accessors."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer import Recorder, Trace
from explorer.trace import to_numpy
from tests.helpers import rough, tiny

PLACEMENTS = ("pre", "post")


@pytest.fixture(params=PLACEMENTS)
def run(request):
    """Two sentences of 3 + 2 and 1 + 2 tokens, two layers."""
    model = rough(tiny(norm_placement=request.param, embedding_norm=True, n_segments=1))
    return explorer.run(model, model.batch(["one two three", "four"]))


def test_accessors_have_their_axes(run):
    trace = run.trace
    assert trace.pattern(1).shape == trace.scores(1).shape == (2, 2, 5, 5)
    assert trace.pattern().shape == (2, 2, 2, 5, 5)
    for site in (trace.q, trace.k, trace.v, trace.z):
        assert site(0).shape == (2, 2, 5, 4)
        assert site().shape == (2, 2, 2, 5, 4)
    for site in (trace.attn_out, trace.ff_out):
        assert site(0).shape == (2, 5, 8)
    assert trace.hidden(0).shape == (2, 5, 16)
    for point in ("pre", "mid", "post"):
        assert trace.resid(point).shape == (2, 2, 5, 8)
    for name in ("norm1", "norm2"):
        for side in ("in", "out"):
            assert trace.norm(name, side, 1).shape == (2, 5, 8)
    for part in ("tokens", "positions", "segments", "sum", "norm.in", "norm.out"):
        assert trace.embedding(part).shape == (2, 5, 8)


def test_accessors_read_the_site_they_are_named_after():
    """Every site holds another number here, so an accessor that reads the wrong one is seen."""
    config = tiny(norm_placement="pre")
    sites = explorer.tape.site_names(config)
    values = {
        site: torch.full((1, 1, 1, 1) if "attn." in site else (1, 1, 1), float(i)) for i, site in enumerate(sites)
    }
    trace = Trace(values, config, None)
    read = {
        "resid_pre": trace.resid("pre", 1),
        "resid_mid": trace.resid("mid", 1),
        "resid_post": trace.resid("post", 1),
        "norm1.in": trace.norm("norm1", "in", 1),
        "norm1.out": trace.norm("norm1", "out", 1),
        "norm2.in": trace.norm("norm2", "in", 1),
        "norm2.out": trace.norm("norm2", "out", 1),
        "attn.q": trace.q(1),
        "attn.k": trace.k(1),
        "attn.v": trace.v(1),
        "attn.scores": trace.scores(1),
        "attn.pattern": trace.pattern(1),
        "attn.z": trace.z(1),
        "attn_out": trace.attn_out(1),
        "ff.hidden": trace.hidden(1),
        "ff_out": trace.ff_out(1),
    }
    for site, value in read.items():
        assert value.item() == sites.index(f"layers.1.{site}"), site
    assert trace.final_norm("in").item() == sites.index("final_norm.in")
    assert trace.final_norm("out").item() == sites.index("final_norm.out")
    assert trace.embedding().item() == sites.index("embed.sum")


def test_layers_are_stacked_in_order(run):
    for layer in range(2):
        assert np.array_equal(run.trace.resid("mid")[layer], run.trace.resid("mid", layer))
        assert np.array_equal(run.trace.pattern()[layer], run.trace.pattern(layer))


def test_the_stream_leaves_a_layer_as_it_enters_the_next(run):
    assert np.array_equal(run.trace.resid("post", 0), run.trace.resid("pre", 1))
    assert np.array_equal(run.trace.resid("pre", 0), run.trace.embedding("norm.out"))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_equations_replay_from_the_trace(placement):
    """A15, from the arrays a reader gets: the sums to 1e-5, the norms written out."""
    model = rough(tiny(norm_placement=placement))
    trace = explorer.run(model, model.batch(["one two three", "four"])).trace

    def normalised(name, layer, x):
        norm = getattr(model.encoder.layers[layer], name)
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + norm.eps) * norm.weight.numpy() + norm.bias.numpy()

    for layer in range(2):
        pre, mid, post = (trace.resid(point, layer) for point in ("pre", "mid", "post"))
        attn, ff = trace.attn_out(layer), trace.ff_out(layer)
        if placement == "pre":
            assert_allclose(mid, pre + attn, rtol=0, atol=1e-5)
            assert_allclose(post, mid + ff, rtol=0, atol=1e-5)
            assert_allclose(trace.norm("norm1", "out", layer), normalised("norm1", layer, pre), rtol=0, atol=1e-5)
            assert_allclose(trace.norm("norm2", "out", layer), normalised("norm2", layer, mid), rtol=0, atol=1e-5)
        else:
            assert_allclose(mid, normalised("norm1", layer, pre + attn), rtol=0, atol=1e-5)
            assert_allclose(post, normalised("norm2", layer, mid + ff), rtol=0, atol=1e-5)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("sentences", [["one two three", "four"], ["one two"]], ids=["padded", "whole"])
def test_scores_made_on_demand_are_bitwise_the_recorded_ones(placement, sentences):
    """They are not kept on the CPU; a mask forgotten or a scale in another order would show."""
    model = rough(tiny(norm_placement=placement))
    batch = model.batch(sentences)
    trace = explorer.run(model, batch).trace
    recorder = Recorder()
    with torch.inference_mode():
        model.encoder(batch.token_ids, batch.key_padding_mask, tape=recorder)
    for layer in range(2):
        recorded = recorder.values[f"layers.{layer}.attn.scores"].numpy()
        assert np.array_equal(trace.scores(layer), recorded)
        assert np.isneginf(recorded).any() == (len(sentences) > 1)


def test_arrays_cannot_be_written(run):
    """The page shares one run between all its viewers."""
    for array in (run.trace.pattern(0), run.trace.pattern(), run.trace.scores(0), run.trace.embedding(), run.output):
        assert array.dtype == np.float32
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_trace_is_frozen(run):
    with pytest.raises(AttributeError, match="frozen: config cannot be set"):
        run.trace.config = None
    with pytest.raises(AttributeError):
        run.trace.attn = None


@pytest.mark.parametrize("layer", [-1, 2, 99])
def test_a_layer_that_is_not_there(run, layer):
    """-1 would read as "the last" in some accessors and as nothing in others."""
    for site in (run.trace.pattern, run.trace.scores, run.trace.attn_out):
        with pytest.raises(IndexError, match=rf"layer {layer} does not exist; this run has layers 0 to 1"):
            site(layer)


def test_what_was_not_recorded_is_an_error_and_never_a_stand_in():
    """A3."""
    model = rough(tiny(norm_placement="post", positions="none"))
    trace = explorer.run(model, model.batch(["one"])).trace
    for read in (lambda: trace.final_norm("in"), lambda: trace.embedding("positions")):
        with pytest.raises(KeyError, match="was not recorded"):
            read()
    with pytest.raises(KeyError, match=r"layers\.0\.attn\.pattern was not recorded"):
        Trace({}, model.config, None).pattern(0)


@pytest.mark.usefixtures("unchecked")
def test_a_point_that_is_not_there(run):
    with pytest.raises(ValueError, match="'middle' is not one of pre, mid, post"):
        run.trace.resid("middle")
    with pytest.raises(ValueError, match="'norm3' is not one of norm1, norm2"):
        run.trace.norm("norm3", "in")


def test_bytes_count_shared_storage_once():
    """q, k and v are views of one product; resid_post of a layer is resid_pre of the next."""
    shared = torch.zeros(2, 1, 3, 4)
    trace = Trace({"a": shared, "b": shared[:1], "c": torch.zeros(5)}, tiny(), None)
    assert trace.n_bytes == 4 * (24 + 5)


def test_bfloat16_becomes_float32_at_the_border():
    """C5: NumPy has no bfloat16."""
    array = to_numpy(torch.tensor([1.5, math.inf], dtype=torch.bfloat16, requires_grad=True))
    assert array.dtype == np.float32
    assert array.tolist() == [1.5, math.inf]


def test_the_checkpoints_are_the_stream_in_order(run):
    """Each leads to the tensor that its name says, and none is left out."""
    trace = run.trace
    points = trace.checkpoints()
    inside = [(point, layer) for layer in range(run.config.n_layers) for point in ("mid", "post")]
    assert points == [("pre", 0), *inside, *([("final", None)] if run.config.final_norm else [])]
    for point, layer in points:
        expected = trace.final_norm("out") if point == "final" else trace.resid(point, layer)
        assert np.array_equal(trace.stream(point, layer), expected)


def test_any_site_of_the_catalogue_can_be_asked_for_by_name(run):
    """The scores too, which are made on demand. What the architecture has not, or no layer of it, is an error."""
    for site, shape in run.trace.shapes().set_index("site")["shape"].items():
        name, layer = (site.split(".", 2)[2], int(site.split(".")[1])) if site.startswith("layers.") else (site, None)
        assert run.trace.tensor(name, layer).shape == shape
    assert np.array_equal(run.trace.tensor("attn.scores", 1), run.trace.scores(1))
    assert np.array_equal(run.trace.tensor("ff_out", 1), run.trace.ff_out(1))
    for wrong in (("attn.q", None), ("attn.x", 0), ("layers.0.attn.q", 0), ("final_norm.x", None)):
        with pytest.raises(KeyError):
            run.trace.tensor(*wrong)
    with pytest.raises(IndexError, match="layer 9"):
        run.trace.tensor("attn.q", 9)
