"""Parameters go in completely or not at all."""

import pytest
import torch

from explorer import WeightsError, build
from explorer.model import build_encoder
from explorer.weights import draw_state, fill
from tests.helpers import record, tiny, token_ids

CONFIG = tiny(vocab_size=50, positions="learned", norm_placement="pre")


def test_a_filled_encoder_has_exactly_the_given_parameters():
    encoder, state = build_encoder(CONFIG), draw_state(CONFIG)
    n_parameters = fill(encoder, state)
    assert n_parameters == sum(value.numel() for value in state.values())
    assert encoder.state_dict().keys() == state.keys()
    assert all(torch.equal(encoder.state_dict()[name], value) for name, value in state.items())


def without(name):
    return lambda state: state.pop(name)


def with_extra(state):
    state["layers.7.attn.in_proj.weight"] = torch.zeros(3)


def misshaped(state):
    state["layers.1.ff.linear1.weight"] = state["layers.1.ff.linear1.weight"].T.contiguous()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without("layers.1.norm2.bias"), r"1 parameters? (are|is) missing, the first is layers\.1\.norm2\.bias"),
        (without("final_norm.weight"), r"missing, the first is final_norm\.weight"),
        (
            with_extra,
            r"1 parameters? ha(ve|s) no place in this architecture, the first is layers\.7\.attn\.in_proj\.weight",
        ),
        (misshaped, r"layers\.1\.ff\.linear1\.weight has shape \[8, 16\], this architecture needs \[16, 8\]"),
    ],
    ids=["missing", "missing final norm", "left over", "misshaped"],
)
def test_a_state_that_does_not_fit_is_refused_by_name_and_changes_nothing(spoil, message):
    """A partly loaded encoder gives numbers that look right."""
    model = build(CONFIG, seed=0)
    ids = token_ids(1, 4, high=50)
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    output, _ = record(model, ids)
    state = draw_state(CONFIG, seed=1)
    spoil(state)
    with pytest.raises(WeightsError, match=message):
        fill(model.encoder, state)
    assert all(torch.equal(before[name], value) for name, value in model.encoder.state_dict().items())
    assert torch.equal(record(model, ids)[0], output)


def test_a_refused_fill_of_an_empty_encoder_leaves_it_empty():
    encoder = build_encoder(CONFIG)
    state = draw_state(CONFIG)
    state.pop("embed.tokens.weight")
    with pytest.raises(WeightsError, match=r"embed\.tokens\.weight"):
        fill(encoder, state)
    assert all(parameter.is_meta for parameter in encoder.parameters())


def test_tables_that_are_computed_are_no_parameters():
    """Sinusoidal positions come from no file, so no file may be refused for lacking them."""
    assert not any("positions" in name for name in build_encoder(tiny()).state_dict())
