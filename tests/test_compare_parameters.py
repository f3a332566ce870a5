"""The parameters of two models: what was added, removed and changed."""

import pytest
import torch

from explorer import build, compare_parameters
from explorer.comparison.parameters import PART, largest_difference
from explorer.weights import draw_state, fill
from tests.helpers import tiny


def by_name(a, b):
    table = compare_parameters(a, b)
    assert table["name"].is_unique
    return table.set_index("name")


def test_the_same_seed_is_equal_in_every_parameter():
    table = by_name(build(tiny()), build(tiny()))
    assert set(table["status"]) == {"equal"}
    assert (table["largest_difference"] == 0).all()


def test_numbers_sum_to_those_of_the_models():
    a, b = build(tiny(n_layers=1)), build(tiny(d_model=12, vocab_size=50, embedding_norm=True, bias=False))
    table = compare_parameters(a, b)
    assert table["n_a"].sum() == a.report.n_parameters
    assert table["n_b"].sum() == b.report.n_parameters


def test_another_seed_changes_what_is_drawn_and_the_seed_itself():
    table = by_name(build(tiny()), build(tiny(), seed=5))
    assert table.loc["embed.tokens.seed", "largest_difference"] == 5
    assert table.loc["embed.tokens.seed", ["n_a", "n_b"]].tolist() == [0, 0]
    for name, row in table.iterrows():
        drawn = name.startswith("layers") and "norm" not in name and name.endswith("weight")
        assert row["status"] == ("changed" if drawn or name == "embed.tokens.seed" else "equal"), name


def test_the_largest_difference_is_found_whatever_its_sign():
    a, b = build(tiny()), build(tiny())
    state = draw_state(tiny())
    state["layers.1.ff.linear1.bias"][3] = -0.5
    state["layers.1.ff.linear1.bias"][7] = 0.25
    fill(b.encoder, state)
    for one, other in ((a, b), (b, a)):
        table = by_name(one, other)
        changed = table[table["status"] == "changed"]
        assert changed.index.tolist() == ["layers.1.ff.linear1.bias"]
        assert changed["largest_difference"].tolist() == [0.5]


def test_what_only_one_has_stands_in_its_place():
    a = build(tiny(n_layers=1, norm_placement="pre"))
    b = build(tiny(n_layers=2, embedding_norm=True, bias=False))
    table = by_name(a, b)
    assert table.loc["embed.norm.weight", "status"] == "only in B"
    assert table.loc["layers.0.attn.in_proj.bias", "status"] == "only in A"
    assert table.loc["layers.1.attn.in_proj.weight", "status"] == "only in B"
    assert table.loc["final_norm.weight", "status"] == "only in A"
    assert table.loc["final_norm.weight", "shape_a"] == (8,)
    assert table.loc["final_norm.weight", "shape_b"] is None
    assert table.loc["final_norm.weight", "n_a"] == 8
    assert table["n_b"].isna()["final_norm.weight"]
    alone = table["status"].isin(["only in A", "only in B"])
    assert table.loc[alone, "largest_difference"].isna().all()
    parts = [name.split(".")[0] + (name.split(".")[1] if "layers" in name else "") for name in table.index]
    assert list(dict.fromkeys(parts)) == ["embed", "layers0", "layers1", "final_norm"]
    layer = [name.removeprefix("layers.0.") for name in table.index if name.startswith("layers.0.")]
    assert layer == list(a.encoder.layers[0].state_dict())


def test_another_shape_is_no_difference():
    table = by_name(build(tiny()), build(tiny(d_ff=12)))
    row = table.loc["layers.0.ff.linear1.weight"]
    assert (row["status"], row["shape_a"], row["shape_b"]) == ("other shape", (16, 8), (12, 8))
    assert row[["n_a", "n_b"]].tolist() == [16 * 8, 12 * 8]
    assert table["largest_difference"].isna()["layers.0.ff.linear1.weight"]
    turned = by_name(build(tiny(d_model=8, d_ff=16)), build(tiny(d_model=16, d_ff=8)))  # as many numbers
    assert turned.loc["layers.0.ff.linear1.weight", ["n_a", "n_b", "status"]].tolist() == [128, 128, "other shape"]
    assert turned["largest_difference"].isna()["layers.0.ff.linear1.weight"]


def test_another_source_of_words_is_added_and_removed():
    table = by_name(build(tiny()), build(tiny(vocab_size=50)))
    assert table.loc["embed.tokens.seed", "status"] == "only in A"
    assert table.loc["embed.tokens.weight", "status"] == "only in B"


def test_tensors_that_are_shared_are_equal_without_a_look():
    """A NaN shows it: two that are looked at are never equal."""
    a = torch.full((3,), torch.nan)
    assert largest_difference(a, a) == 0
    assert largest_difference(a, a.clone()) != 0
    base = torch.arange(4.0).reshape(2, 2)
    assert largest_difference(base, base.T) == 1  # one storage, read in another order


@pytest.mark.parametrize("place", [0, PART, PART + 4])
def test_every_part_of_a_large_tensor_is_compared(place):
    a = torch.zeros(PART + 5)
    b = a.clone()
    b[place] = -2
    assert largest_difference(a, b) == largest_difference(b, a) == 2


def test_fewer_layers_of_one_encoder_share_the_rest(minilm):
    table = by_name(minilm, minilm.first_layers(4))
    assert set(table["status"]) == {"equal", "only in A"}
    assert all(
        (row.status == "only in A") == name.startswith(("layers.4.", "layers.5.")) for name, row in table.iterrows()
    )
