"""Two runs and many readers: looking is no pass, what was evicted comes back bit for bit, each reader has his own A."""

from typing import Any

import numpy as np
import pytest
import torch

import explorer
from components import state
from components.address import read_settings
from components.cache import BoundedCache
from tests.app.page import CONTROL_OF_TWO, TWO, Page
from tests.app.pairs import LINK, kept
from tests.app.test_laboratory import until

Passes = list[explorer.Run]


# Forward passes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [{}, {"source": "minilm", "layers": "2"}], ids=["built", "minilm"])
def test_a_change_of_b_is_one_pass_and_looking_is_none(passes: Passes, link: dict[str, str]) -> None:
    page = Page(**(LINK | link))
    page.press("keep_a").ok()
    assert len(passes) == 1
    page.set("mask", False).ok()
    assert len(passes) == 2
    for view, parts in TWO.items():
        page.set("view", view).ok()
        for part in parts:
            if part:
                page.set(CONTROL_OF_TWO[view], part).ok()
    page.set("view", "compare").set("pair_show", "summary")
    for table in ("tokens", "settings", "heads"):
        page.set("pair_table", table).ok()
    page.point("moved", 0, 0).point("distance", 2, 1).tap(1, 1).ok()
    page.set("sentence", 0).resize(720).ok()
    page.at.context["theme"] = "dark"
    page.at.run()
    page.press("swap").ok()
    page.press("swap").ok()
    page.again().ok()
    page.set("mask", True).ok()
    page.press("forget_a").ok()
    assert len(passes) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [("text", "Other."), ("layers", 3), ("heads", 4), ("norm", "pre"), ("seed", 1), ("pad_to", 20), ("causal", True)],
)
def test_each_change_is_one_pass_and_a_is_never_run_again(passes: Passes, key: str, value: object) -> None:
    page = kept(view="compare")
    before = page.value(key)
    page.set(key, value).ok()
    assert len(passes) == 2
    page.set(key, before).ok()
    assert len(passes) == 2


def test_a_click_in_each_map_moves_all_of_them(passes: Passes) -> None:
    page = kept().set("seed", 1).ok()
    page.point("moved", 0, 1).ok()
    assert [page.matrix(f"head_{end}")["title"] for end in ("a", "b", "difference")] == [
        "A · L0 H1", "B · L0 H1", "B − A · L0 H1",
    ]  # fmt: skip
    page.point("moved", 1, None, serial=2).ok()
    assert page.matrix("head_a")["title"] == "A · L1 H1"
    page.point("moved", None, 0, serial=3).ok()
    assert page.matrix("head_b")["title"] == "B · L1 H0"
    assert page.announced("moved")["row"] == 1
    assert page.announced("moved")["col"] == 0
    for key in ("head_a", "head_b", "head_difference"):
        page.point(key, 3, None).ok()
        assert page.link["token"] == "3"
        assert page.announced(key)["row"] == 3
        page.point(key, None, 1, serial=2).ok()
        assert page.link["token"] == "1"
    page.set("view", "layernorm").point("norms_difference", 0, 2).ok()
    assert page.link["token"] == "2"
    assert page.link["norm_at"] == "norm1"
    assert len(passes) == 2


# Eviction ------------------------------------------------------------------------------------------------------------


def one_run_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each run took all the memory."""
    monkeypatch.setattr(state.shared().runs, "_max_entries", 1)


def test_a_that_was_evicted_is_run_again_and_is_bit_for_bit_the_same(
    monkeypatch: pytest.MonkeyPatch, passes: Passes
) -> None:
    page = kept(seed="5").set("seed", 6).ok()
    before = {key: page.component(key).bytes for key in ("head_a", "head_b", "head_difference", "moved")}
    assert isinstance(state.shared().runs, BoundedCache)
    one_run_is_kept(monkeypatch)
    for number in range(3):
        Page(**(LINK | {"text": f"evicts {number}"})).ok()
    assert len(state.shared().runs) == 1
    n_passes = len(passes)
    state.shared().payloads._values.clear()
    page.at.run()
    page.ok()
    assert len(passes) >= n_passes + 2
    assert {key: page.component(key).bytes for key in before} == before
    outputs = {run.output.tobytes() for run in passes if run.batch.sentences[0] == "one two three"}
    assert len(outputs) == 2  # one of A, one of B, however often they ran


def test_a_pair_of_evicted_runs_opens_in_the_same_pictures(passes: Passes) -> None:
    page = kept(view="compare", norm="pre").set("seed", 6).ok()
    before = {key: page.component(key).bytes for key in ("distance", "moved")}
    state.shared.clear()
    again = page.again().ok()
    assert len(passes) == 4
    assert {key: again.component(key).bytes for key in before} == before
    assert again.link == page.link


def test_forty_pairs_leave_no_more_than_the_bound() -> None:
    page = kept()
    for number in range(20):
        page.set("text", f"pair number {number}").ok()
        if number % 5 == 0:
            page.press("keep_a").ok()
    shared = state.shared()
    assert len(shared.runs) <= 32
    assert shared.runs.n_bytes == sum(run.n_bytes for run in shared.runs._values.values())


# Sessions ------------------------------------------------------------------------------------------------------------


def test_two_sessions_with_an_a_each_never_see_the_others() -> None:
    def alone(a: int, b: int) -> list[np.ndarray]:
        return [picture["z"] for picture in kept(seed=str(a)).set("seed", b).ok().three("head")]

    expected = {(a, b): alone(a, b) for a, b in ((1, 2), (3, 4), (1, 5), (3, 6))}
    state.shared.clear()
    first, second = kept(seed="1"), kept(seed="3")
    third = Page(**LINK).ok()
    for mine, yours in ((2, 4), (5, 6)):
        first.set("seed", mine)
        second.set("seed", yours)
        for page, own in ((first, (1, mine)), (second, (3, yours))):
            page.at.run()
            for picture, values in zip(page.ok().three("head"), expected[own], strict=True):
                np.testing.assert_array_equal(picture["z"], values)
            assert read_settings(page.link["a"])["seed"] == own[0]
    first.press("swap").press("forget_a").ok()
    second.at.run()
    assert second.ok().two
    third.at.run()
    assert not third.ok().two


def test_the_global_random_generator_is_untouched() -> None:
    before = torch.get_rng_state()
    kept(seed="3", init="normal", view="proof").set("seed", 4).press("swap").ok()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_shared_trained_encoder_is_changed_by_nobody(minilm: explorer.Model) -> None:
    kept(source="minilm", layers="1").set("causal", True).set("precision", "bfloat16").press("swap").ok()
    found = state.trained()
    assert isinstance(found, explorer.Model)
    for name, parameter in minilm.encoder.state_dict().items():
        assert torch.equal(parameter, found.encoder.state_dict()[name]), name


# The laboratory ------------------------------------------------------------------------------------------------------


def buttons(page: Page) -> set[str]:
    return {str(button.key) for button in page.at.button}


def trained(page: Page, placement: str) -> Page:
    """Trains for a moment, and looks into what came out."""
    if page.value("view") != "laboratory":
        page.set("view", "laboratory")
    page.set("lab", "learn").set("lab_norm", placement).press("lab_start")
    until(page, lambda: bool(page.at.dataframe))
    if "lab_stop" in buttons(page):
        page.press("lab_stop")
    until(page, lambda: "lab_keep" in buttons(page))
    return page.press("lab_keep").ok()


def maps(page: Page, end: str) -> Any:
    return page.matrix(f"head_{end}")["z"]


def test_an_encoder_of_the_laboratory_stays_a_while_another_is_trained() -> None:
    page = trained(Page(**LINK), "post")
    first = page.heatmap["z"]
    page.press("keep_a").ok()
    assert (maps(page, "difference") == 0).all()
    trained(page, "pre")
    assert page.two
    np.testing.assert_array_equal(maps(page, "a"), first)
    second = maps(page, "b")
    assert not np.array_equal(second, first)
    for view in TWO:
        page.set("view", view).ok()
    page.set("view", "attention").press("swap").ok()
    np.testing.assert_array_equal(maps(page, "a"), second)
    np.testing.assert_array_equal(maps(page, "b"), first)
    assert "Post-LN" in page.status.split("B · ")[1]
    trained(page, "post")
    np.testing.assert_array_equal(maps(page, "a"), second)

    other = page.again()
    assert not other.exceptions
    assert not other.two
    assert any(note.startswith("There is no run A any more. ") and "laboratory" in note for note in other.notes)
    page.press("forget_a").ok()
    assert page.link["source"] == "lab"


def test_what_was_trained_stands_beside_what_is_built() -> None:
    page = trained(Page(**LINK), "pre").press("keep_a").ok()
    first = maps(page, "a")
    page.set("source", "built").ok()
    np.testing.assert_array_equal(maps(page, "a")[np.isfinite(maps(page, "a"))], first[np.isfinite(first)])
    page.press("swap").ok()
    assert page.link["source"] == "lab"
    page.press("swap").ok()
    assert page.link["source"] == "built"
