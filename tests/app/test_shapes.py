"""The view of shapes: the block with what flows in it, each value opened, every step and what it costs."""

import json

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import explorer
from components.address import DEFAULT_TEXT
from explorer.tape import SITES
from tests.app.page import PARTS, SMALL, Page
from tests.inputs import words

Passes = list[explorer.Run]
SHORT = [site.removeprefix("layers.*.") for site in SITES]


def controls(page: Page) -> dict[str, str]:
    """What can be clicked in the diagram: site, and its live shape as written."""
    drawn = json.loads(page.component("block").json)
    return {c["site"]: c["label"]["shape"]["text"] for c in drawn["controls"] if c["site"] is not None}


@pytest.mark.parametrize("part", PARTS["shapes"])
@pytest.mark.parametrize(
    "link",
    [
        {"text": "a", "layers": "1", "heads": "1"},
        {"d_model": "1", "heads": "1", "d_ff": "1", "text": "a"},
        {"sentence": "1", "pad_side": "left", "pad_to": "20", "mask": "false"},
        {"norm": "pre", "layers": "24", "positions": "none", "final_norm": "false"},
        {"text": words(600), "layers": "1", "d_model": "1024", "heads": "128", "d_ff": "4096"},
    ],
    ids=str,
)
def test_every_part_of_the_smallest_and_the_largest(part: str, link: dict[str, str]) -> None:
    Page(**(SMALL | link), view="shapes", shape_show=part).ok()


def test_the_diagram_has_the_live_shapes_of_this_run() -> None:
    page = Page(**SMALL, view="shapes", text="a b c\nd").ok()
    shapes = controls(page)
    assert shapes["attn.pattern"] == "batch 2 · head 2 · query 5 · key 5"
    assert shapes["attn.q"] == "batch 2 · head 2 · query 5 · d_head 4"
    assert shapes["ff.hidden"] == "batch 2 · pos 5 · d_ff 16"
    assert "final_norm.out" not in shapes
    assert "final_norm.out" in controls(page.set("norm", "pre").ok())
    for part in ("batch 2 (sentences)", "pos 5 (tokens)", "d_model 8", "head 2", "d_head 4", "d_ff 16"):
        assert part in page.explanation


def test_a_click_in_the_diagram_opens_the_tensor_without_a_pass(passes: Passes) -> None:
    page = Page(view="shapes").ok()
    for site in controls(page):
        page._trigger("block", "pick", {"site": site}).ok()
        assert page.link["shape_show"] == "tensor"
        assert page.announced("block")["chosen"] == site
        if site != "token ids":
            assert page.matrix("tensor")["title"].endswith(site)
    assert len(passes) == 1
    before = page.link
    for nonsense in ("layers.0.attn.q", "", None, 7, "attn.z2"):
        page._trigger("block", "pick", {"site": nonsense}).ok()
        assert page.link == before


@pytest.mark.parametrize("site", SHORT)
def test_what_is_opened_is_what_was_recorded(site: str, minilm: explorer.Model) -> None:
    page = Page(view="shapes", shape_show="tensor", site=site, sentence="1", sel="2.5").ok()
    if site.startswith("final_norm"):
        assert page.notes == [f"The link asks for site = {site}, which is not possible here. attn.pattern is used."]
        return
    run = explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")))
    inside = f"layers.*.{site}" in SITES
    values = run.trace.tensor(site, 2 if inside else None)[1]
    if values.ndim == 3:
        values = values[5]
    drawn = page.matrix("tensor")
    finite = np.isfinite(values)
    np.testing.assert_array_equal(drawn["z"][finite], values[finite])
    assert np.isnan(drawn["z"][~finite]).all()
    assert drawn["row_padding"] == [0] * 8 + [1] * 8
    assert len(page.at.dataframe[0].value) == 8
    assert ("Minus infinity" in page.explanation) == (site == "attn.scores")


def test_token_ids_are_opened_as_words_and_are_exact() -> None:
    page = Page(**SMALL, view="shapes", shape_show="tensor", site="token_ids", text="one two").ok()
    ids = explorer.build(explorer.EncoderConfig()).batch(["one two"]).token_ids[0].tolist()
    assert page.at.dataframe[0].value["Token id"].tolist() == ids
    assert f"{ids[1]:,}" in page.explanation


@pytest.mark.parametrize("link", [{}, SMALL | {"norm": "pre"}], ids=["minilm", "built"])
def test_the_steps_add_up_to_the_encoder(link: dict[str, str]) -> None:
    page = Page(**link, view="shapes", pad_to="20").ok()
    table = page.at.dataframe[0].value
    model = (
        explorer.build(explorer.EncoderConfig(n_layers=2, n_heads=2, d_model=8, d_ff=16, norm_placement="pre"))
        if link
        else explorer.load("minilm")
    )
    batch = model.batch(DEFAULT_TEXT.split("\n"), pad_to=20)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        model.encoder(batch.token_ids, batch.key_padding_mask)
    assert table["FLOPs"].sum() == counter.get_total_flops()
    assert table["Parameters"].sum() == sum(p.numel() for p in model.encoder.parameters())
    assert table["Share of FLOPs"].sum() == pytest.approx(1)
    steps = table["Step"].tolist()
    assert steps[0] == "token ids"
    start = steps.index("mask, one row a sentence")
    assert table["Axes"][start : start + 2].tolist() == ["[batch, 1, 1, key]", "[batch, head, query, key]"]
    assert table["Shape"][start].startswith("[2, 1, 1, 20]")


def test_the_mask_is_a_step_only_where_it_is_applied() -> None:
    page = Page(**SMALL, view="shapes", text="no padding").ok()
    assert not page.at.dataframe[0].value["Step"].str.startswith("mask").any()
    assert "No mask is applied in this run" in page.explanation
    page.set("pad_to", 9).ok()
    assert page.at.dataframe[0].value["Step"].str.startswith("mask").any()
    page.set("mask", False).ok()
    assert not page.at.dataframe[0].value["Step"].str.startswith("mask").any()


@pytest.mark.parametrize("over", ["length", "width", "depth"])
@pytest.mark.parametrize("cost", ["flops", "bytes", "parameters"])
def test_every_cost_over_every_size_has_the_present_choice_marked(over: str, cost: str) -> None:
    page = Page(view="shapes", shape_show="growth", grow=over, cost=cost).ok()
    present = {"length": 16, "width": 384, "depth": 6}[over]
    assert present in page.at.dataframe[0].value["Size"].tolist()
    notes = [note["text"].replace("<br>", " ") for note in page.figures["growth_curves"]["layout"]["annotations"]]
    assert f"now: {present}" in notes
    assert any("from 769 attention costs more" in note for note in notes) == ((over, cost) == ("length", "flops"))
    assert "Now attention takes 0.5104 times the FLOPs of feed-forward" in page.explanation


def test_growth_is_that_of_this_very_run() -> None:
    page = Page(**SMALL, view="shapes", shape_show="growth").ok()
    row = page.at.dataframe[0].value.set_index("Size").loc[16]
    page.set("shape_show", "cost").ok()
    table = page.at.dataframe[0].value
    steps = table.groupby("Step")["FLOPs"].sum()
    assert row["FLOPs of feed-forward"] == steps["widen to d_ff"] + steps["narrow to d_model"]
    assert row["FLOPs of scores and weighted sum"] == steps["scores q · k / √d_head"] + steps["weighted sum of v"]
    assert row["Parameters"] == table["Parameters"].sum()
