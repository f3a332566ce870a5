"""The laboratory: experiments run beside the page, one a session, and touch nothing of the other views."""

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

import explorer
from tests.app.page import SMALL, Page

Passes = list[explorer.Run]


def buttons(page: Page) -> set[str]:
    return {str(button.key) for button in page.at.button if str(button.key).startswith("lab_")}


def until(page: Page, condition: Callable[[], bool], seconds: float = 60) -> Page:
    """Lets the page look again and again, as it does by itself in a browser."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, page.explanation
        time.sleep(0.2)
        page.at.run()
        assert not page.exceptions
    return page


@pytest.mark.parametrize("init", ["xavier", "normal"])
def test_gradients_against_depth(passes: Passes, init: str) -> None:
    """Xiong et al. 2020: 0 for Post-LN and -1/2 for Pre-LN. With normal (0, 0.02) the effect is not there."""
    page = Page(**SMALL, view="laboratory", lab_init=init)
    assert not page.exceptions
    assert page.figures == {}
    assert "Press Start" in page.explanation
    before = torch.random.get_rng_state()
    page.press("lab_start")
    assert buttons(page) == {"lab_stop"}
    until(page, lambda: buttons(page) == {"lab_start"})
    table = page.at.dataframe[0].value
    assert table["Layers"].tolist() == [2, 2, 4, 4, 6, 6, 8, 8, 12, 12]
    found = {}
    for name, rows in table.groupby("Placement"):
        x, y = np.log(rows["Layers"]), np.log(rows["Gradient of the last W₂"])
        found[name] = np.polyfit(x, y, 1)[0]
    assert abs(found["Post-LN"]) < 0.2
    if init == "xavier":
        assert -0.65 < found["Pre-LN"] < -0.3
    else:
        assert abs(found["Pre-LN"]) < 0.2
    drawn = page.figures
    assert drawn.keys() == {"gradients_against_depth", "gradients_by_layer"}
    assert len(drawn["gradients_by_layer"]["data"][0]["y"]) == 12
    assert "theory −0.5" in page.explanation
    assert len(passes) == 1
    assert torch.equal(before, torch.random.get_rng_state())


def test_work_is_stopped_and_kept_while_other_views_are_looked_at(passes: Passes) -> None:
    page = Page(**SMALL, view="laboratory").press("lab_start")
    page.set("view", "attention").ok()
    page.set("view", "laboratory")
    until(page, lambda: bool(page.at.dataframe))
    page.press("lab_stop")
    assert buttons(page) == {"lab_start"}
    assert "stopped" in page.at.get("progress")[0].proto.text or "done" in page.at.get("progress")[0].proto.text
    assert len(page.at.dataframe[0].value) >= 1
    assert len(passes) == 1


def test_one_session_runs_one_piece_of_work_and_sees_no_other() -> None:
    page = Page(**SMALL, view="laboratory").press("lab_start")
    other = Page(**SMALL, view="laboratory")
    assert "Press Start" in other.explanation
    page.set("lab_init", "normal").press("lab_start")
    page.set("lab_init", "xavier")
    assert buttons(page) == {"lab_start"}  # the first was stopped when the second began
    page.set("lab_init", "normal")
    until(page, lambda: buttons(page) == {"lab_start"})


def trained(page: Page) -> Page:
    """Waits until a training has ended."""
    return until(page, lambda: "lab_keep" in buttons(page), seconds=120)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_an_encoder_learns_to_reverse_and_becomes_the_source_of_all_views(passes: Passes, placement: str) -> None:
    """Held-out accuracy and the weight on the right token are those that the page says, and the head is shown."""
    before = torch.random.get_rng_state()
    page = Page(**SMALL, view="laboratory", lab="learn", lab_norm=placement)
    assert "Press Start" in page.explanation
    trained(page.press("lab_start"))
    row = page.at.dataframe[0].value.iloc[0]
    assert row["Steps"] == 250
    assert row["Accuracy"] >= 0.99
    assert row["Weight where the answer stands"] >= 0.95
    drawn = page.matrix("lab_map")
    assert drawn["title"].endswith(f"L{row['Layer']} H{row['Head']} after 250 steps")
    assert drawn["rows"][1:-1] == ["a → d", "b → c", "c → b", "d → a"]
    assert [drawn["z"][query].argmax() for query in range(1, 5)] == [4, 3, 2, 1]
    assert page.figures["training_curves"]["data"][0]["x"][-1] == 250
    assert torch.equal(before, torch.random.get_rng_state())

    page.press("lab_keep").ok()
    assert page.link["source"] == "lab"
    assert page.rows == [["[CLS]", "a", "b", "c", "d", "[SEP]"]]
    assert "Trained in the laboratory" in page.status
    assert f"{placement.capitalize()}-LN" in page.status
    page.set("text", "x y z").ok()
    for view in ("layernorm", "residual", "shapes", "proof"):
        page.set("view", view).ok()
    page.set("view", "laboratory").set("view", "attention").ok()
    other = page.again()
    assert other.notes[0].startswith("The link asks for source = lab, which is not possible here.")


def test_a_training_is_paused_resumed_and_stopped(passes: Passes) -> None:
    page = Page(**SMALL, view="laboratory", lab="learn", task="shift").press("lab_start")
    until(page, lambda: bool(page.at.dataframe))
    page.press("lab_pause")
    assert buttons(page) == {"lab_resume", "lab_stop"}
    time.sleep(0.5)
    page.at.run()
    steps = page.at.dataframe[0].value["Steps"].iloc[0]
    time.sleep(0.5)
    page.at.run()
    assert page.at.dataframe[0].value["Steps"].iloc[0] == steps < 250
    page.press("lab_resume")
    until(page, lambda: page.at.dataframe[0].value["Steps"].iloc[0] > steps)
    if "lab_stop" in buttons(page):
        page.press("lab_stop")
    assert "lab_start" in buttons(page)


def test_the_race_runs_both_in_step() -> None:
    page = Page(**SMALL, view="laboratory", lab="race").press("lab_start")
    until(page, lambda: bool(page.at.dataframe))
    page.press("lab_stop")
    table = page.at.dataframe[0].value
    assert table["Placement"].tolist() == ["Pre-LN", "Post-LN"]
    assert table["Steps"].nunique() == 1
    names = {trace["name"] for trace in page.figures["training_curves"]["data"]}
    assert names == {name + part for name in ("Pre-LN", "Post-LN") for part in ("", ", layer 0", ", layer 7")}
    assert "8 layers" in page.explanation
    assert "no warm-up" in page.explanation
