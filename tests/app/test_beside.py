"""Pre-LN beside Post-LN in every view: the same text, one scale, one pass more."""

import json

import numpy as np
import pytest

import explorer
from explorer.ablation import attention_change
from tests.app.page import BESIDE, SHOWN, SMALL, VIEWS, Page
from tests.inputs import words

Passes = list[explorer.Run]
TEXT = ["one two three", "four"]
LINK = SMALL | {"text": "\n".join(TEXT), "beside": "true"}
CONFIG = {"n_layers": 2, "n_heads": 2, "d_model": 8, "d_ff": 16}


def run(placement: str) -> explorer.Run:
    model = explorer.build(explorer.EncoderConfig(norm_placement=placement, **CONFIG))
    return explorer.run(model, model.batch(TEXT))


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "link",
    [
        {},
        {"text": "a", "layers": "1", "heads": "1"},
        {"sentence": "1", "pad_side": "left", "pad_to": "20", "mask": "false"},
        {"layers": "24", "final_norm": "true"},
        {"text": words(600), "layers": "1"},
    ],
    ids=str,
)
def test_every_view_of_both(view: str, placement: str, link: dict[str, str]) -> None:
    for part in BESIDE[view]:
        page = Page(**(LINK | link | {"norm": placement, "view": view}), **({SHOWN[view]: part} if part else {})).ok()
        table = page.at.dataframe[0].value
        if view != "attention":
            assert set(table["Placement"]) == {"Post-LN", "Pre-LN"}


def test_both_are_one_pass_each_and_looking_is_none(passes: Passes) -> None:
    page = Page(**(LINK | {"beside": "false"}))
    assert len(passes) == 1
    page.set("beside", True).ok()
    assert [done.config.norm_placement for done in passes] == ["post", "pre"]
    for view in VIEWS:
        page.set("view", view).ok()
    page.set("norm", "pre").ok()
    page.set("beside", False).ok()
    assert len(passes) == 2
    assert "beside" not in page.link


def test_post_ln_is_on_the_left_whichever_the_reader_came_from() -> None:
    pages = [Page(**LINK, norm=placement) for placement in ("pre", "post")]
    for page in pages:
        page.ok()
        for placement in ("post", "pre"):
            drawn = page.matrix(f"head_{placement}")
            np.testing.assert_array_equal(drawn["z"], run(placement).trace.pattern(1)[0, 1])
            assert drawn["title"] == f"{placement.capitalize()}-LN · L1 H1"
    assert pages[0].component("grid").bytes == pages[1].component("grid").bytes


def test_the_difference_of_the_heads_is_that_of_the_engine() -> None:
    page = Page(**LINK).ok()
    expected = attention_change(run("post"), run("pre"), sentence=0)
    assert page.announced("grid")["score"]["label"] == "Weight that would have to move"
    table = page.at.dataframe[0].value
    assert table["Weight that would have to move"].is_monotonic_decreasing
    table = table.sort_values(["Layer", "Head"])
    np.testing.assert_allclose(table["Weight that would have to move"], expected["change"], rtol=1e-5)


def test_the_norms_have_one_scale() -> None:
    for quantity in ("std_in", "mean_in", "eps_share"):
        page = Page(**LINK, view="layernorm", quantity=quantity).ok()
        post, pre = page.matrix("norms_post"), page.matrix("norms_pre")
        assert [post[name] for name in ("low", "high", "floor")] == [pre[name] for name in ("low", "high", "floor")]
        assert page.announced("norms_post")["scale"] == page.announced("norms_pre")["scale"]
        assert post["high"] == pytest.approx(max(np.nanmax(np.abs(m["z"])) for m in (post, pre)))
    assert pre["rows"][-1] == "final norm"
    assert "final norm" not in post["rows"]


def test_the_stream_of_both_over_depth() -> None:
    page = Page(**LINK, view="residual")
    found = page.at.dataframe[0].value
    for name, placement in (("Post-LN", "post"), ("Pre-LN", "pre")):
        stream = run(placement).tables.stream(sentence=0)
        expected = stream.groupby(["layer", "point"], sort=False, dropna=False)[["norm", "added"]].mean()
        rows = found[found["Placement"] == name]
        np.testing.assert_allclose(rows["Mean L2 norm"], expected["norm"], rtol=1e-6)
        np.testing.assert_allclose(rows["Mean L2 norm of what is added"], expected["added"], rtol=1e-6)


def test_a_click_in_one_block_opens_the_value_in_both_with_one_scale() -> None:
    page = Page(**LINK, view="shapes").ok()
    sites = [c["site"] for c in json.loads(page.component("block_pre").json)["controls"] if c["site"] is not None]
    page._trigger("block_pre", "pick", {"site": "ff_out"}).ok()
    post, pre = page.matrix("tensor_post"), page.matrix("tensor_pre")
    np.testing.assert_array_equal(post["z"], run("post").trace.ff_out(1)[0])
    np.testing.assert_array_equal(pre["z"], run("pre").trace.ff_out(1)[0])
    assert (post["low"], post["high"]) == (pre["low"], pre["high"])
    assert "final_norm.out" in sites
    page = Page(**LINK, view="shapes", norm="pre", shape_show="tensor", site="final_norm.out")
    assert not page.exceptions
    assert "is not a value of both" in page.explanation
