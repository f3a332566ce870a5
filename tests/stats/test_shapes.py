"""Parameters and FLOPs against the encoder itself and against torch's own counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import explorer
from explorer import MINILM, PAPER_BASE, build
from explorer.model import build_encoder
from explorer.stats import cost_by_part, count_parameters, parameters_and_flops
from tests.helpers import tiny
from tests.inputs import ARCHITECTURES


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
def test_600_parameters(n_heads):
    """B21: 288 attention + 280 feed-forward + 32 norms, for any number of heads."""
    costs = parameters_and_flops(tiny(n_heads=n_heads, d_model=8, d_ff=16), batch=1, pos=4)
    count = {site: n for site, (n, _) in costs.items()}
    assert sum(count[site] for site in ("attn.q", "attn.k", "attn.v", "attn_out")) == 288
    assert count["ff.hidden"] + count["ff_out"] == 280
    assert count["norm1.out"] + count["norm2.out"] == 32
    layer = build_encoder(tiny(n_heads=n_heads)).layers[0]
    assert sum(parameter.numel() for parameter in layer.parameters()) == 600


def test_flops_by_hand():
    """D 8, FF 16, 5 tokens, multiply-add = 2: 4 projections of 8 x 8, two of 8 x 16, q k and pattern v of 5 x 5 x 8."""
    costs = parameters_and_flops(tiny(), batch=1, pos=5)
    assert costs["attn.q"][1] == costs["attn_out"][1] == 2 * 5 * 8 * 8
    assert costs["ff.hidden"][1] == costs["ff_out"][1] == 2 * 5 * 8 * 16
    assert costs["attn.scores"][1] == costs["attn.z"][1] == 2 * 5 * 5 * 8


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_table_adds_up_to_what_the_encoder_has_and_does(name):
    """A part left out of the table, or counted twice, shows in the sum; so does a site that lost its cost."""
    model = build(ARCHITECTURES[name])
    batch = model.batch(["one two three", "four"])
    table = explorer.run(model, batch).trace.shapes()
    total = sum(parameter.numel() for parameter in model.encoder.parameters())
    assert table["parameters"].sum() == total == model.report.n_parameters == count_parameters(model.config)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.encoder(batch.token_ids, batch.key_padding_mask)
    assert table["flops"].sum() == counter.get_total_flops() > 0


@pytest.mark.parametrize("config", [MINILM, PAPER_BASE], ids=["MiniLM", "paper base"])
def test_parameters_of_the_large_ones_without_running_them(config):
    total = sum(parameter.numel() for parameter in build_encoder(config).parameters())
    assert count_parameters(config) == total


def test_the_paper_has_19_million_in_its_base_encoder():
    """By hand: 6 x (4 (512^2 + 512) + 2 x 512 x 2048 + 2048 + 512 + 4 x 512) = 18,914,304."""
    assert count_parameters(PAPER_BASE) == 18_914_304


@pytest.mark.parametrize("name", ["1 layer, post", "all parts, pre"])
def test_the_table_has_the_real_shapes(name):
    model = build(ARCHITECTURES[name])
    run = explorer.run(model, model.batch(["one two three", "four"]))
    table = run.trace.shapes()
    assert list(table.columns) == ["site", "layer", "axes", "shape", "bytes", "parameters", "flops"]
    assert table["site"].tolist() == run.trace.sites() == explorer.tape.site_names(model.config)
    rows = table.set_index("site")
    assert rows.loc["layers.0.attn.pattern", "shape"] == run.trace.pattern(0).shape
    assert rows.loc["layers.0.attn.scores", "shape"] == run.trace.scores(0).shape
    assert rows.loc["layers.0.ff.hidden", "shape"] == run.trace.hidden(0).shape
    assert rows.loc["layers.0.attn.pattern", "bytes"] == run.trace.pattern(0).nbytes
    assert all(len(axes.split()) == len(shape) for axes, shape in zip(table["axes"], table["shape"], strict=True))
    assert rows.loc["embed.sum", "layer"] is explorer.trace.pd.NA
    assert rows.loc["layers.0.ff_out", "layer"] == 0


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_parts_add_up_to_the_table(name):
    """A site that belongs to no part, or to two, would change the sum."""
    model = build(ARCHITECTURES[name])
    table = explorer.run(model, model.batch(["one"])).tables.shapes()
    parts = cost_by_part(table)
    assert parts["parameters"].sum() == table["parameters"].sum()
    assert parts["flops"].sum() == table["flops"].sum()
