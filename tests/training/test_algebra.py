"""The start: what the algebra promises, on small cases where it is exact, and on the teacher itself."""

import pytest
import torch
from torch.testing import assert_close

from explorer.model.norms import LayerNorm, layer_norm
from training import algebra
from training.algebra import algebraic_start
from training.evaluate import cosine
from training.held_out import read_held_out
from training.watch import sentence_vectors, watch_student, watch_teacher

LINES = read_held_out()["lines"]


def tensor(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fresh_norm(d_model=6):
    norm = LayerNorm(d_model, eps=1e-12, bias=True)
    norm.weight, norm.bias = torch.nn.Parameter(torch.ones(d_model)), torch.nn.Parameter(torch.zeros(d_model))
    return norm


def test_a_fitted_norm_is_the_norm_that_made_the_targets():
    """Whatever the scale of the stream, and whatever stands where the weight is 0."""
    gamma, beta = tensor(6, seed=1), tensor(6, seed=2)
    streams = [tensor(2, 5, 6, seed=3), 40 * tensor(1, 7, 6, seed=4) + 3]
    targets = [layer_norm(x, gamma, beta, 1e-12) for x in streams]
    weights = [torch.ones(2, 5), torch.ones(1, 7)]
    targets[0][1, 4], weights[0][1, 4] = 1e6, 0
    norm = fresh_norm()
    algebra._fit_norm(norm, streams, targets, weights)
    assert_close(norm.weight.data, gamma)
    assert_close(norm.bias.data, beta)


def test_what_is_added_is_in_the_units_of_the_stream():
    """LayerNorm after x + rescaled(a) is LayerNorm after h + a, where all gammas are equal."""
    norm = fresh_norm()
    norm.weight.data, norm.bias.data = torch.full((6,), 0.5), tensor(6, seed=5)
    x = layer_norm(tensor(1, 9, 6), torch.full((6,), 3.0), None, 0.0)  # each token has a standard deviation of 3
    h = layer_norm(x, norm.weight, norm.bias, 0.0)
    linear = torch.nn.Linear(6, 6)
    a = linear(h)
    assert algebra._rescale(linear, norm, [x], [torch.ones(1, 9)]) == pytest.approx(3 / 0.5)
    one = torch.ones(6)
    assert_close(layer_norm(x + linear(h), one, None, 0.0), layer_norm(h + a, one, None, 0.0), atol=1e-5, rtol=0)


def test_no_dimension_is_rescaled_out_of_bounds():
    """A gamma near 0, or below it, would blow a dimension up, or turn it around."""
    norm = fresh_norm()
    norm.weight.data = torch.tensor([1.0, 1.0, 1.0, 1.0, 1e-6, 1e6])
    linear = torch.nn.Linear(6, 6)
    before = linear.weight.detach().clone()
    scale = algebra._rescale(linear, norm, [tensor(1, 9, 6)], [torch.ones(1, 9)])
    factor = (linear.weight / before).detach()
    assert_close(factor[:, 0], scale * torch.tensor([1.0, 1.0, 1.0, 1.0, 4.0, 0.25]))


def test_the_start_does_most_of_the_teachers_work(minilm):
    """Layer 0 reads exactly what the teacher's reads, and sentences are close. With copied weights alone: 0.1."""
    batches = [minilm.batch(LINES[n : n + 8]) for n in range(0, 48, 8)]
    student, scales = algebraic_start(minilm.encoder, batches)
    test = minilm.batch(LINES[48:56])
    with torch.no_grad():
        target, found = watch_teacher(minilm.encoder, test), watch_student(student, test)
        copied = watch_student(algebra._copy_without_norms(minilm.encoder), test)
    real = ~test.key_padding_mask
    assert_close(found.reads[0][real], target.reads[0][real], atol=1e-4, rtol=0)
    assert_close(found.patterns[0][real.any(1)], target.patterns[0], atol=1e-4, rtol=0)

    def closeness(watched):
        vectors = [sentence_vectors(x.reads[-1], test.key_padding_mask).numpy() for x in (target, watched)]
        return cosine(*vectors).mean()

    assert closeness(found) > 0.85
    assert closeness(copied) < 0.4
    assert len(scales) == 12
    values = list(scales.values())
    assert values[-1] > 4 * values[0]  # the stream grows
    assert all(parameter.device.type == "cpu" for parameter in student.parameters())
