"""Parameters and FLOPs against the encoder itself and against torch's own counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import explorer
from explorer import BERT_BASE, MINILM, PAPER_BASE, ConfigError, build
from explorer.model import build_encoder
from explorer.model.attention import attention_mask
from explorer.precision import PRECISIONS
from explorer.stats import cost_by_part, count_parameters, parameters_and_flops
from explorer.stats.shapes import crossover_length, crossover_width, growth, steps
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


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("pad_to", [None, 9])
def test_steps_add_up_to_what_the_encoder_has_and_does(name, pad_to):
    """Padded or not: the mask costs no matrix product."""
    model = build(ARCHITECTURES[name])
    batch = model.batch(["one two three"], pad_to=pad_to)
    table = steps(model.config, batch=1, pos=pad_to or 5, masked=pad_to is not None)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.encoder(batch.token_ids, batch.key_padding_mask)
    assert table["parameters"].sum() == sum(parameter.numel() for parameter in model.encoder.parameters())
    assert table["flops"].sum() == counter.get_total_flops() > 0
    assert table["parameters_share"].sum() == pytest.approx(1)
    assert table["flops_share"].sum() == pytest.approx(1)


def test_steps_of_the_trained_encoder(minilm):
    batch = minilm.batch(["The animal didn't cross the street.", "Hello"])
    n_sentences, pos = batch.token_ids.shape
    table = steps(MINILM, batch=n_sentences, pos=pos)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        minilm.encoder(batch.token_ids, batch.key_padding_mask)
    assert table["parameters"].sum() == minilm.report.n_parameters
    assert table["flops"].sum() == counter.get_total_flops()


@pytest.mark.parametrize(
    ("masked", "causal", "axes", "shape"),
    [
        (True, False, "batch 1 1 key", (2, 1, 1, 5)),
        (False, True, "1 1 query key", (1, 1, 5, 5)),
        (True, True, "batch 1 query key", (2, 1, 5, 5)),
    ],
)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_step_of_the_mask_is_the_mask_that_attention_gets(masked, causal, axes, shape, precision):
    """One byte each, whatever the precision; all else follows it. The scores before it are not what is recorded."""
    model = build(tiny())
    batch = model.batch(["one two three", "four" if masked else "four five six"])
    mask = attention_mask(batch.key_padding_mask, causal=causal, n_pos=5)
    table = steps(model.config, batch=2, pos=5, masked=masked, causal=causal, precision=precision)
    found = table[table["step"].str.startswith("mask,")]
    assert set(zip(found["axes"], found["shape"], found["bytes"], strict=True)) == {(axes, shape, mask.nbytes)}
    assert (len(found), tuple(mask.shape)) == (2, shape)
    recorded = explorer.run(model, batch, causal=causal, precision=precision).trace.shapes().set_index("site")
    rows = table[table["site"].notna()].set_index("site")
    assert (rows["bytes"] == recorded["bytes"].reindex(rows.index)).all()
    assert table.loc[table["site"] == "layers.0.attn.scores", "step"].tolist() == ["mask broadcast onto the scores"]


def test_one_token_has_no_triangle():
    assert steps(tiny(), batch=1, pos=1, masked=False, causal=True).equals(steps(tiny(), batch=1, pos=1, masked=False))


def test_attention_weights_grow_in_their_precision():
    found = [growth(MINILM, "length", [8], batch=1, pos=8, precision=p)["attention_bytes"].item() for p in PRECISIONS]
    assert found == [n * 6 * 12 * 64 for n in (4, 8, 2, 2)]


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("pad_to", [None, 9])
def test_steps_have_the_shapes_of_what_is_recorded(name, pad_to):
    """Batch 2, and H == length == batch among the architectures: an axis cannot stand for another everywhere."""
    model = build(ARCHITECTURES[name])
    run = explorer.run(model, model.batch(["one two three", "a b c"], pad_to=pad_to))
    table = steps(model.config, batch=2, pos=pad_to or 5, masked=pad_to is not None)
    recorded = run.trace.shapes().set_index("site")
    found = table[table["site"].notna()]
    assert not found["site"].duplicated().any()
    for row in found.itertuples():
        assert (row.shape, row.axes) == (recorded.loc[row.site, "shape"], recorded.loc[row.site, "axes"])
        assert row.bytes == recorded.loc[row.site, "bytes"]
    assert all(len(axes.split()) == len(shape) for axes, shape in zip(table["axes"], table["shape"], strict=True))
    assert table.iloc[-1]["shape"] == run.output.shape


def test_the_mask_is_a_step_of_its_own():
    """2 sentences of 5 tokens, 2 heads: [2, 5] as [2, 1, 1, 5], onto [2, 2, 5, 5]."""
    table = steps(tiny(n_layers=1), batch=2, pos=5).set_index("step")
    mask, onto = table.loc["mask, one row a sentence"], table.loc["mask broadcast onto the scores"]
    assert (mask["axes"], mask["shape"], mask["bytes"]) == ("batch 1 1 key", (2, 1, 1, 5), 10)
    assert (onto["axes"], onto["shape"], onto["bytes"]) == ("batch head query key", (2, 2, 5, 5), 400)
    assert onto["site"] == "layers.0.attn.scores"
    plain = steps(tiny(n_layers=1), batch=2, pos=5, masked=False).set_index("step")
    assert not plain.index.str.startswith("mask").any()
    assert plain.loc["scores q · k / √d_head", "site"] == "layers.0.attn.scores"


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_steps_are_in_the_order_of_the_placement(placement):
    table = steps(tiny(n_layers=2, norm_placement=placement), batch=1, pos=3)
    assert table["step"].iloc[0] == "token ids"
    one = table[table["layer"] == 1]["step"].tolist()
    order = [step for step in one if step.startswith(("LayerNorm", "project to", "add", "widen"))]
    attention, feed_forward = "add to the stream, attention", "add to the stream, feed-forward"
    assert (
        order
        == {
            "post": ["project to q, k and v", attention, "LayerNorm 1", "widen to d_ff", feed_forward, "LayerNorm 2"],
            "pre": ["LayerNorm 1", "project to q, k and v", attention, "LayerNorm 2", "widen to d_ff", feed_forward],
        }[placement]
    )
    assert (table["step"].iloc[-1] == "final LayerNorm") == (placement == "pre")
    assert table["layer"].dropna().tolist() == [0] * len(one) + [1] * len(one)


def test_one_layer_of_600_parameters_in_steps():
    table = steps(tiny(n_layers=1), batch=1, pos=4)
    assert table["parameters"].sum() == 600
    by_step = table.set_index("step")["parameters"]
    assert by_step["project to q, k and v"] + by_step["project through out_proj"] == 4 * 8**2 + 4 * 8
    assert by_step["widen to d_ff"] + by_step["narrow to d_model"] == 2 * 8 * 16 + 16 + 8


@pytest.mark.parametrize(("over", "values"), [("length", [1, 5, 7]), ("width", [4, 8, 16]), ("depth", [1, 2, 5])])
def test_growth_is_what_each_encoder_would_cost(over, values):
    config = tiny(d_model=8, d_ff=16, norm_placement="pre")
    table = growth(config, over, values, batch=2, pos=5)
    assert table["value"].tolist() == values
    for row in table.itertuples():
        sizes = {"width": {"d_model": row.value, "d_ff": 2 * row.value}, "depth": {"n_layers": row.value}}.get(over, {})
        model = build(tiny(**({"d_model": 8, "d_ff": 16} | sizes), norm_placement="pre"))
        pos = row.value if over == "length" else 5
        assert row.parameters == sum(parameter.numel() for parameter in model.encoder.parameters())
        layers = model.encoder.layers
        for name, part in (("attention", "attn"), ("feed_forward", "ff")):
            numbers = [parameter.numel() for layer in layers for parameter in getattr(layer, part).parameters()]
            assert getattr(row, f"{name}_parameters") == sum(numbers)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model.encoder(torch.ones(2, pos, dtype=torch.long))
        assert row.attention_flops + row.feed_forward_flops == counter.get_total_flops()
        assert row.attention_flops == row.projection_flops + row.score_flops
        assert row.attention_bytes == 4 * len(layers) * 2 * 2 * pos**2


def test_growth_by_hand():
    """D 8, FF 16, without biases: attention 4 D^2 = 256, feed-forward 2 D D_ff = 256."""
    row = growth(tiny(n_layers=1, bias=False), "depth", [1], batch=1, pos=3).iloc[0]
    assert (row["attention_parameters"], row["feed_forward_parameters"]) == (4 * 8**2, 2 * 8 * 16)
    assert row["projection_flops"] == 2 * 3 * 4 * 8**2
    assert row["score_flops"] == 4 * 3**2 * 8
    assert row["feed_forward_flops"] == 4 * 3 * 8 * 16
    twice = growth(MINILM, "length", [64, 128], batch=1, pos=1)["attention_bytes"]
    assert twice.tolist() == [6 * 12 * 64**2 * 4, 4 * 6 * 12 * 64**2 * 4]


def test_a_width_that_the_heads_do_not_divide_takes_the_nearest_number():
    """12 heads: 10 divides 100. What is wider than any encoder is refused."""
    assert growth(MINILM, "width", [100], batch=1, pos=4)["attention_bytes"].tolist() == [4 * 6 * 10 * 16]
    with pytest.raises(ConfigError, match="d_model"):
        growth(MINILM, "width", [4_096], batch=1, pos=4)


@pytest.mark.parametrize("config", [MINILM, PAPER_BASE, BERT_BASE, tiny(d_ff=64), tiny(d_ff=17), tiny(d_ff=16)])
def test_attention_overtakes_feed_forward_at_the_crossover(config):
    """By hand for MiniLM: 1536 - 2 x 384 = 768 tokens cost the same, 769 more."""
    first = crossover_length(config)
    table = growth(config, "length", [first - 1, first], batch=1, pos=1)
    assert (table["attention_flops"] > table["feed_forward_flops"]).tolist() == [False, True]
    assert crossover_length(MINILM) == 769


def test_a_narrow_feed_forward_is_overtaken_from_the_first_token():
    assert crossover_length(tiny(d_ff=4)) == 1
    row = growth(tiny(d_ff=4), "length", [1], batch=1, pos=1).iloc[0]
    assert row["attention_flops"] > row["feed_forward_flops"]


def test_scores_alone_overtake_feed_forward_at_d_ff():
    table = growth(MINILM, "length", [1_536, 1_537], batch=1, pos=1)
    assert (table["score_flops"] > table["feed_forward_flops"]).tolist() == [False, True]


@pytest.mark.parametrize("config", [MINILM, PAPER_BASE, tiny(d_ff=20), tiny(d_ff=17)])
@pytest.mark.parametrize("pos", [1, 16, 512])
def test_attention_costs_more_up_to_the_crossover_in_width(config, pos):
    """By hand for MiniLM and 16 tokens: (4 - 2) x 7 is below 16, (4 - 2) x 8 is not."""
    last = crossover_width(config, pos)
    if last is None:
        return
    table = growth(config, "width", [last, last + 1], batch=1, pos=pos)
    assert (table["attention_flops"] > table["feed_forward_flops"]).tolist() == [True, False]
    assert crossover_width(MINILM, 16) == 7


def test_some_encoders_have_no_crossover_in_width():
    """Attention costs more at every width, or at none: one token and d_ff = 4 d_model."""
    assert crossover_width(tiny(d_ff=16), 16) is None
    assert crossover_width(MINILM, 1) is None
