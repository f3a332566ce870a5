"""LayerNorm, by hand."""

import pytest
import torch
from torch.testing import assert_close

from explorer import Recorder
from explorer.model.norms import LayerNorm, layer_norm

ONE, ZERO = torch.ones(4), torch.zeros(4)


def test_the_variance_is_that_of_the_population():
    """A14: 1 2 3 4 has variance 1.25; with the sample variance (5/3) the first value would be -1.16."""
    found = layer_norm(torch.tensor([1.0, 2.0, 3.0, 4.0]), ONE, ZERO, 1e-12)
    assert_close(found, torch.tensor([-1.5, -0.5, 0.5, 1.5]) / 1.25**0.5)
    assert found.std(correction=0).item() == pytest.approx(1.0)


def test_eps_is_inside_the_root():
    """Variance 1 and eps 3 give a scale of 2; eps outside the root would give 4."""
    assert_close(layer_norm(torch.tensor([-1.0, 1.0, -1.0, 1.0]), ONE, ZERO, 3.0), torch.tensor([-0.5, 0.5, -0.5, 0.5]))


def test_a_constant_row_becomes_exactly_beta():
    beta = torch.tensor([0.5, -1.0, 0.0, 2.0])
    assert torch.equal(layer_norm(torch.full((2, 4), 7.0), ONE * 3, beta, 1e-5), beta.expand(2, 4))


def test_gamma_multiplies_and_beta_is_added_after_it():
    """Catches `- beta`, and gamma applied to beta."""
    x = torch.tensor([-1.0, 1.0, -1.0, 1.0])
    gamma, beta = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
    assert_close(layer_norm(x, gamma, beta, 1e-12), torch.tensor([9.0, 22.0, 27.0, 44.0]))


def test_each_token_is_normalised_on_its_own():
    """Catches moments over the batch or over positions: scaling one token leaves the other alone."""
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    other = x.clone()
    other[0, 0] *= 100
    before, after = layer_norm(x, ONE, ZERO, 1e-5), layer_norm(other, ONE, ZERO, 1e-5)
    assert torch.equal(before[1], after[1])
    assert torch.equal(before[0, 1:], after[0, 1:])


@pytest.mark.parametrize("bias", [True, False])
def test_the_module_records_what_goes_in_and_comes_out(bias):
    norm = LayerNorm(4, eps=1e-5, bias=bias)
    state = {"weight": ONE * 2, "bias": ONE} if bias else {"weight": ONE * 2}
    norm.load_state_dict(state, assign=True)
    x = torch.randn(1, 2, 4, generator=torch.Generator().manual_seed(0))
    tape = Recorder()
    out = norm(x, tape=tape)
    assert torch.equal(tape.values["in"], x)
    assert torch.equal(tape.values["out"], out)
    assert_close(out, 2 * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() + bias)
