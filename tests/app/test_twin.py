"""The placement control of the trained encoder: the published one and its Pre-LN twin, all else held."""

import numpy as np
import pytest

import explorer
from explorer import WeightsError
from tests.app.page import VIEWS, Page

Passes = list[explorer.Run]


def test_the_placement_flips_in_place_and_holds_all_else(passes: Passes) -> None:
    link = {"text": "one text for both", "layers": "4", "sel": "2.7", "view": "residual", "token": "3", "pad_to": "12"}
    page = Page(**link).ok()
    assert page.value("placement") == "Post-LN (published)"
    page.set("placement", "Pre-LN (our twin)").ok()
    assert page.link == link | {"source": "minilm-preln"}
    assert "Pre-LN twin of all-MiniLM-L6-v2, trained" in page.status
    assert "4 layers × 12 heads, Pre-LN" in page.status
    page.set("placement", "Post-LN (published)").ok()
    assert page.link == link
    assert [run.config.norm_placement for run in passes] == ["post", "pre"]


def test_both_say_where_their_weights_come_from() -> None:
    pages = [Page(source=source) for source in ("minilm", "minilm-preln")]
    published, twin = (" ".join(caption.value for caption in page.at.caption) for page in pages)
    assert "package" in published
    assert "distilled from it by this project" in twin
    assert "checked" in published
    assert "checked" in twin


def test_a_visit_to_a_built_encoder_comes_back_to_the_twin() -> None:
    page = Page(source="minilm-preln", layers="3").ok()
    page.set("source", "built").ok()
    page.set("source", "minilm-preln").ok()
    assert page.link["source"] == "minilm-preln"
    assert page.value("layers") == 3


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_the_twin_and_of_both(view: str) -> None:
    Page(source="minilm-preln", view=view).ok()
    Page(source="minilm-preln", view=view, beside="true").ok()


def test_the_cls_spike_is_there_in_one_placement_and_not_in_the_other() -> None:
    page = Page(view="layernorm", quantity="var_in", beside="true").ok()
    post, pre, _ = page.three("norms")
    assert np.nanmax(post["z"]) == pytest.approx(128.2, abs=0.5)
    assert np.nanmax(pre["z"][:, 0]) < 3
    assert post["high"] == pre["high"]


def test_the_stream_grows_in_one_placement_and_not_in_the_other() -> None:
    table = Page(view="residual", stream_pair="growth", beside="true").ok().at.dataframe[0].value
    post, pre = (table[table["Run"] == name]["Mean L2 norm"].to_numpy() for name in ("Post-LN", "Pre-LN"))
    assert pre[12] > 10 * pre[0]
    assert post.max() < 4 * post.min()


def test_the_heads_are_almost_the_same() -> None:
    page = Page(beside="true").ok()
    moved = page.at.dataframe[0].value["Weight that would have to move"]
    assert moved.mean() < 0.05
    it, animal = 10, 2
    for drawn in page.three("head")[:2]:
        assert drawn["z"][it].argmax() == animal


def test_a_twin_that_is_missing_is_said_and_what_is_there_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from components import state

    load = explorer.load

    def without_twin(name: str) -> explorer.Model:
        if name == "minilm-preln":
            raise WeightsError("The weights of the twin are missing.")
        return load(name)

    monkeypatch.setattr(explorer, "load", without_twin)
    state.trained.clear()
    try:
        assert Page(beside="true").refused() == "The weights of the twin are missing."
        Page().ok()
        page = Page(source="minilm-preln").ok()
        assert "The weights of the twin are missing." in page.notes
        assert page.link["source"] == "built"
    finally:
        state.trained.clear()
