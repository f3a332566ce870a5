"""Pre-LN beside Post-LN in every view: the same text, one scale, one pass more."""

import json

import numpy as np
import pytest

import explorer
from explorer.ablation import attention_change
from tests.app.page import FREE, SHOWN_OF_TWO, SMALL, TWO, Page
from tests.inputs import words

Passes = list[explorer.Run]
TEXT = ["one two three", "four"]
LINK = SMALL | {"text": "\n".join(TEXT), "beside": "true"}
CONFIG = {"n_layers": 2, "n_heads": 2, "d_model": 8, "d_ff": 16}


def run(placement: str) -> explorer.Run:
    model = explorer.build(explorer.EncoderConfig(norm_placement=placement, **CONFIG))
    return explorer.run(model, model.batch(TEXT))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("view", TWO)
@pytest.mark.parametrize(
    "link",
    [
        {},
        {"text": "a", "layers": "1", "heads": "1"},
        {"sentence": "1", "pad_side": "left", "pad_to": "20", "mask": "false"},
        {"layers": "24", "final_norm": "true"},
        {"text": words(600), "layers": "1"},
    ],
    ids=["plain", "smallest", "padded and not masked", "deep", "long"],
)
def test_every_view_of_both(view: str, placement: str, link: dict[str, str]) -> None:
    for part in TWO[view]:
        shown = {SHOWN_OF_TWO[view]: part} if part else {}
        page = Page(**(LINK | link | {"norm": placement, "view": view} | shown)).ok()
        table = page.at.dataframe[0].value
        if "Run" in table:
            assert set(table["Run"]) == {"Post-LN", "Pre-LN"}


def test_the_view_of_the_comparison_is_named_after_both() -> None:
    page = Page(**LINK).ok()
    assert page.control("view").options[0] == "Post-LN and Pre-LN"
    page.set("view", "compare").ok()
    assert "What differs, Post-LN → Pre-LN: norm placement: Post-LN → Pre-LN" in page.explanation
    page.set("beside", False).ok()
    assert page.value("view") == "attention"
    assert "Post-LN and Pre-LN" not in page.control("view").options


def test_both_are_one_pass_each_and_looking_is_none(passes: Passes) -> None:
    page = Page(**(LINK | {"beside": "false"}))
    assert len(passes) == 1
    page.set("beside", True).ok()
    assert [done.config.norm_placement for done in passes] == ["post", "pre"]
    for view in ("compare", *FREE):
        page.set("view", view).ok()
    page.set("norm", "pre").ok()
    page.set("beside", False).ok()
    assert len(passes) == 2
    assert "beside" not in page.link


def test_post_ln_is_on_the_left_whichever_the_reader_came_from() -> None:
    pages = [Page(**LINK, norm=placement) for placement in ("pre", "post")]
    for page in pages:
        post, pre, difference = page.ok().three("head")
        for placement, drawn in (("post", post), ("pre", pre)):
            np.testing.assert_array_equal(drawn["z"], run(placement).trace.pattern(1)[0, 1])
            assert drawn["title"] == f"{placement.capitalize()}-LN · L1 H1"
        np.testing.assert_array_equal(difference["z"], pre["z"] - post["z"])
        assert difference["title"] == "Pre-LN − Post-LN · L1 H1"
    assert pages[0].component("moved").bytes == pages[1].component("moved").bytes


def test_the_difference_of_the_heads_is_that_of_the_engine() -> None:
    page = Page(**LINK).ok()
    expected = attention_change(run("post"), run("pre"), sentence=0)
    drawn = page.matrix("moved")
    assert drawn["title"] == "Weight that would have to move"
    np.testing.assert_allclose(drawn["z"].ravel(), expected["change"], rtol=1e-5)
    table = page.at.dataframe[0].value
    assert table["Weight that would have to move"].is_monotonic_decreasing
    table = table.sort_values(["Layer", "Head"])
    np.testing.assert_allclose(table["Weight that would have to move"], expected["change"], rtol=1e-5)
    page.point("moved", 0, 1).ok()
    assert page.link["sel"] == "0.1"
    assert page.matrix("head_a")["title"] == "Post-LN · L0 H1"


def test_the_norms_have_one_scale() -> None:
    for quantity in ("std_in", "mean_in", "eps_share"):
        page = Page(**LINK, view="layernorm", quantity=quantity).ok()
        post, pre, difference = page.three("norms")
        assert [post[name] for name in ("low", "high", "floor")] == [pre[name] for name in ("low", "high", "floor")]
        assert page.announced("norms_a")["scale"] == page.announced("norms_b")["scale"]
        assert post["high"] == pytest.approx(max(np.nanmax(np.abs(m["z"])) for m in (post, pre)))
        assert difference["low"] == -difference["high"]
        assert page.announced("norms_difference")["scale"] == "linear"
    assert post["rows"] == pre["rows"] == difference["rows"]
    final = pre["rows"].index("final norm")
    assert np.isnan(post["z"][final]).all()
    assert np.isnan(difference["z"][final]).all()
    assert np.isfinite(pre["z"][final]).all()


def test_the_stream_of_both_over_depth() -> None:
    page = Page(**LINK, view="residual", stream_pair="growth").ok()
    found = page.at.dataframe[0].value
    for name, placement in (("Post-LN", "post"), ("Pre-LN", "pre")):
        stream = run(placement).tables.stream(sentence=0)
        expected = stream.groupby(["layer", "point"], sort=False, dropna=False)[["norm", "added"]].mean()
        rows = found[found["Run"] == name]
        np.testing.assert_allclose(rows["Mean L2 norm"], expected["norm"], rtol=1e-6)
        np.testing.assert_allclose(rows["Mean L2 norm of what is added"], expected["added"], rtol=1e-6)


def test_a_click_in_one_block_opens_the_value_in_both_with_one_scale() -> None:
    page = Page(**LINK, view="shapes").ok()
    sites = [c["site"] for c in json.loads(page.component("block_b").json)["controls"] if c["site"] is not None]
    page._trigger("block_b", "pick", {"site": "ff_out"}).ok()
    post, pre, difference = page.three("tensor")
    np.testing.assert_array_equal(post["z"], run("post").trace.ff_out(1)[0])
    np.testing.assert_array_equal(pre["z"], run("pre").trace.ff_out(1)[0])
    np.testing.assert_array_equal(difference["z"], pre["z"] - post["z"])
    assert (post["low"], post["high"]) == (pre["low"], pre["high"])
    assert "final_norm.out" in sites
    page = Page(**LINK, view="shapes", norm="pre", shape_show="tensor", site="final_norm.out").ok()
    post, pre, difference = page.three("tensor")
    assert post["title"] == "Post-LN has no final_norm.out"
    assert np.isnan(post["z"]).all()
    assert np.isnan(difference["z"]).all()
    np.testing.assert_array_equal(pre["z"], run("pre").output[0])
    page = Page(**LINK, view="shapes", shape_show="tensor", site="token_ids").ok()
    assert "The list of token ids is no value of either" in page.explanation


def test_no_placement_is_beside_the_other_while_a_is_kept() -> None:
    page = Page(**LINK).press("keep_a").ok()
    assert page.control("beside").disabled
    assert page.matrix("head_a")["title"] == "A · L1 H1"
    page.press("forget_a").ok()
    assert not page.control("beside").disabled
    assert page.matrix("head_a")["title"] == "Post-LN · L1 H1"
