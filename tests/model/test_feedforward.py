"""The feed-forward network, by hand."""

import math

import pytest
import torch
from torch.testing import assert_close

from explorer import SILENT, Recorder
from explorer.model.feedforward import ACTIVATIONS, FeedForward


def test_gelu_is_the_exact_one():
    """gelu(1) = (1 + erf(1 / sqrt 2)) / 2 = 0.841345; the tanh approximation gives 0.841192."""
    exact = 0.5 * (1 + math.erf(1 / math.sqrt(2)))
    found = ACTIVATIONS["gelu"](torch.tensor(1.0, dtype=torch.float64)).item()
    assert found == pytest.approx(exact, abs=1e-9)


def test_relu_and_silu_by_hand():
    assert ACTIVATIONS["relu"](torch.tensor([-2.0, 3.0])).tolist() == [0.0, 3.0]
    assert ACTIVATIONS["silu"](torch.tensor(2.0)).item() == pytest.approx(2 / (1 + math.exp(-2)))


@pytest.mark.parametrize("bias", [True, False])
def test_the_equation_by_hand(bias):
    """x = (1, 2): W1 x = (3, -1), relu keeps 3, W2 gives (3, 6); biases 1 and 10 give (4, 0) and (14, 18)."""
    ff = FeedForward(d_model=2, d_ff=2, activation="relu", bias=bias)
    state = {
        "linear1.weight": torch.tensor([[1.0, 1.0], [1.0, -1.0]]),
        "linear2.weight": torch.tensor([[1.0, 5.0], [2.0, 5.0]]),
    }
    if bias:
        state |= {"linear1.bias": torch.tensor([1.0, 1.0]), "linear2.bias": torch.tensor([10.0, 10.0])}
    ff.load_state_dict(state, assign=True)
    tape = Recorder()
    out = ff(torch.tensor([[[1.0, 2.0]]]), tape=tape)
    assert tape.values["hidden"].tolist() == ([[[4.0, 0.0]]] if bias else [[[3.0, 0.0]]])
    assert out.tolist() == ([[[14.0, 18.0]]] if bias else [[[3.0, 6.0]]])


def test_no_token_sees_another():
    ff = FeedForward(d_model=3, d_ff=5, activation="gelu", bias=True)
    generator = torch.Generator().manual_seed(0)
    ff.load_state_dict({n: torch.randn(p.shape, generator=generator) for n, p in ff.named_parameters()}, assign=True)
    x = torch.randn(1, 4, 3, generator=generator)
    one_by_one = torch.cat([ff(x[:, i : i + 1], tape=SILENT) for i in range(4)], dim=1)
    assert_close(ff(x, tape=SILENT), one_by_one)
