"""One recorded run: what it gives, costs, refuses, and leaves alone."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import explorer
from explorer import MINILM, EncoderConfig, MemoryLimitError, build, estimate_bytes
from tests.helpers import rough, tiny
from tests.inputs import ARCHITECTURES, words

SENTENCES = ["one two three", "four"]


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_output_is_bitwise_that_of_the_encoder_alone(placement):
    model = rough(tiny(norm_placement=placement))
    batch = model.batch(SENTENCES)
    run = explorer.run(model, batch)
    with torch.inference_mode():
        alone = model.encoder(batch.token_ids, batch.key_padding_mask)
    assert np.array_equal(run.output, alone.numpy())
    assert np.array_equal(run.output, run.trace.final_norm("out") if placement == "pre" else run.trace.resid("post", 1))


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("pad_to", [None, 9])
def test_every_architecture_runs_dense_and_finite(name, pad_to):
    """A1, A11: `[batch, pos, d_model]` for each placement, padded or not; rows sum to 1; two runs are bit-identical."""
    model = build(ARCHITECTURES[name], seed=1)
    batch = model.batch(SENTENCES, pad_to=pad_to)
    first, second = explorer.run(model, batch), explorer.run(model, batch)
    assert first.output.shape == (2, pad_to or 5, model.config.d_model)
    assert np.isfinite(first.output).all()
    assert np.array_equal(first.output, second.output)
    pattern = first.trace.pattern()
    assert_allclose(pattern.sum(axis=-1), 1, rtol=0, atol=1e-5)
    padding = batch.key_padding_mask.numpy()
    assert (pattern.transpose(1, 4, 0, 2, 3)[padding] == 0).all()  # A9: padded key columns are exactly 0


def test_heads_are_told_apart_where_head_count_equals_length():
    """A4: H 2, one sentence of two tokens: the pattern of head h is softmax(q k / sqrt(d_head)) of head h."""
    model = rough(tiny(n_layers=1))
    trace = explorer.run(model, model.batch([""])).trace  # [CLS] [SEP]
    q, k, pattern = trace.q(0)[0], trace.k(0)[0], trace.pattern(0)[0]
    for head in range(2):
        scores = q[head] @ k[head].T / 2.0  # sqrt(d_head) = 2
        expected = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        assert_allclose(pattern[head], expected, rtol=0, atol=1e-6)
    assert np.abs(pattern[0] - pattern[1]).max() > 1e-3


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_neighbour_changes_nothing(placement, side):
    """A8, A10."""
    model = rough(tiny(norm_placement=placement))
    alone = explorer.run(model, model.batch(["one"])).output[0]
    batch = model.batch(["one", words(6)], padding_side=side)
    together = explorer.run(model, batch).output[0][~batch.key_padding_mask[0].numpy()]
    assert_allclose(together, alone, rtol=0, atol=1e-5)


def test_without_the_mask_padding_is_attended_to():
    model = rough(tiny())
    batch = model.batch(SENTENCES)
    masked, unmasked = explorer.run(model, batch), explorer.run(model, batch, use_mask=False)
    assert (masked.use_mask, unmasked.use_mask) == (True, False)
    assert unmasked.trace.key_padding_mask is None
    assert (unmasked.trace.pattern(0)[1][..., 3:] > 0).all()
    assert np.isfinite(unmasked.trace.scores(0)).all()
    assert np.array_equal(masked.trace.embedding("positions"), unmasked.trace.embedding("positions"))
    assert np.abs(masked.output[1, :3] - unmasked.output[1, :3]).max() > 1e-3
    assert_allclose(masked.output[0], unmasked.output[0], rtol=0, atol=1e-5)  # the longest sentence has no padding


def test_a_device_that_is_not_there_falls_back_and_says_so():
    """C6: a link made on another machine."""
    model = rough(tiny())
    absent = next(device for device in ("mps", "cuda", "xpu") if device not in explorer.available_devices())
    run = explorer.run(model, model.batch(["one"]), device=absent)
    assert run.device == "cpu"
    assert run.notes == (f"The device {absent} is not available here. The CPU was used.",)
    assert np.array_equal(run.output, explorer.run(model, model.batch(["one"])).output)
    assert explorer.run(model, model.batch(["one"]), device="cpu").notes == ()


def test_a_run_says_what_it_was_and_what_it_cost():
    model = rough(tiny())
    batch = model.batch(SENTENCES)
    run = explorer.run(model, batch)
    assert run.batch is batch
    assert run.config == model.config
    assert 0 < run.seconds < 60
    assert run.n_bytes == run.trace.n_bytes > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.device = "cuda"


def test_the_global_generators_are_untouched():
    """D4: another session's random numbers must not depend on what this one builds."""
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()
    model = build(tiny(positions="learned", vocab_size=1_000, n_segments=2), seed=5)
    explorer.run(model, model.batch(SENTENCES))
    model = build(tiny(), seed=5, init="normal")
    explorer.run(model, model.batch(SENTENCES))
    assert torch.equal(torch_before, torch.get_rng_state())
    numpy_after = np.random.get_state()
    assert np.array_equal(numpy_before[1], numpy_after[1])
    assert numpy_before[2:] == numpy_after[2:]


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("pos", [16, 40, 128])
@pytest.mark.parametrize(
    "sizes",
    [
        {"n_layers": 4, "n_heads": 4, "d_model": 128, "d_ff": 512},
        {"n_layers": 6, "n_heads": 8, "d_model": 8, "d_ff": 16},
        {"n_layers": 2, "n_heads": 12, "d_model": 48, "d_ff": 192, "embedding_norm": True, "positions": "learned"},
        {"n_layers": 1, "n_heads": 1, "d_model": 8, "d_ff": 8},
    ],
    ids=["classroom", "H = D", "MiniLM's proportions", "smallest"],
)
def test_the_estimate_covers_the_record_and_is_not_far_off(placement, pos, sizes):
    """C7: too low, and a class dies of memory; too high, and what would fit is refused.

    The scores of one layer, before and after masking, exist beside the record while that layer runs.
    """
    model = build(EncoderConfig(norm_placement=placement, max_len=128, **sizes))
    for sentences in ([words(pos - 2)], [words(pos - 2), "short"]):
        run = explorer.run(model, model.batch(sentences))
        needed = run.n_bytes + 2 * run.trace.pattern(0).nbytes
        assert needed <= estimate_bytes(model.config, batch=len(sentences), pos=pos) <= 1.3 * needed


def test_a_device_that_keeps_the_scores_needs_one_more_square_a_layer():
    """By hand: 2 layers, 2 heads, 5 x 5 scores, 4 bytes."""
    on_cpu, elsewhere = (estimate_bytes(tiny(), batch=1, pos=5, device=device) for device in ("cpu", "cuda"))
    assert elsewhere - on_cpu == 2 * 2 * 5 * 5 * 4


def test_the_estimate_grows_with_the_square_of_the_length():
    """MiniLM, by hand: at 512 tokens the pattern of one layer is 12 x 512 x 512 x 4 bytes = 12.6 MB."""
    long, twice = (estimate_bytes(MINILM, batch=1, pos=pos) for pos in (512, 1024))
    assert long > 6 * 12 * 512 * 512 * 4
    assert 2 < twice / long < 4


def test_a_run_above_the_bound_is_refused_with_numbers_before_anything_is_computed(monkeypatch):
    model = build(EncoderConfig(n_layers=4, n_heads=8, d_model=64, d_ff=64, max_len=128))
    batch = model.batch([words(126)])
    calls = []
    monkeypatch.setattr(type(model.encoder), "forward", lambda *args, **kwargs: calls.append(1))
    with pytest.raises(MemoryLimitError, match=r"would need about [\d,]+ MiB, and 1 MiB are allowed\. Use shorter"):
        explorer.run(model, batch, max_bytes=2**20)
    assert calls == []


def test_a_run_exactly_at_the_bound_is_allowed():
    model = rough(tiny())
    batch = model.batch(SENTENCES)
    needed = estimate_bytes(model.config, batch=2, pos=5)
    assert explorer.run(model, batch, max_bytes=needed).n_bytes <= needed
    with pytest.raises(MemoryLimitError):
        explorer.run(model, batch, max_bytes=needed - 1)
