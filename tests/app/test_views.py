"""Every view of every kind of encoder has a figure, numbers and a sentence that says how to read them."""

import numpy as np
import pytest

import explorer
from components.theme import format_number
from explorer.model import attention
from tests.app.page import NORM_FIGURES, SMALL, VIEWS, Page
from tests.inputs import words

TEXTS = {"one word": "Hello", "2,000 words": words(2_000)}


@pytest.mark.parametrize("length", TEXTS)
@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view(view: str, placement: str, heads: int, length: str) -> None:
    page = Page(**(SMALL | {"norm": placement, "heads": str(heads), "text": TEXTS[length], "view": view})).ok()
    assert f"2 layers × {heads} head" in page.status
    assert f"{placement.capitalize()}-LN" in page.status
    assert len(page.rows) == 1
    if length == "one word":
        assert page.rows == [["[CLS]", "Hello", "[SEP]"]]
        assert page.notes == []
    else:
        assert len(page.rows[0]) == 512
        assert page.notes == [
            "Line 1 is too long for this encoder: it reads 512 tokens, so the last 1,490 were left out."
        ]
    if view == "layernorm":
        assert ("final norm" in page.norms) == (placement == "pre")
    if view == "residual":
        assert f"{placement.capitalize()}-LN: " in page.explanation


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_the_trained_encoder(view: str) -> None:
    page = Page(view=view).ok()
    assert page.notes == []


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_the_trained_encoder_at_its_longest(view: str) -> None:
    page = Page(view=view, layers="1", text=f"short\n{words(2_000)}").ok()
    assert len(page.notes) == 1
    assert page.notes[0].startswith("Line 2 is too long for this encoder: it reads 512 tokens, so the last ")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "link", [{"pad_side": "left"}, {"mask": "false"}, {"pad_side": "left", "mask": "false"}], ids=str
)
def test_every_view_of_a_padded_sentence(view: str, link: dict[str, str]) -> None:
    page = Page(**(SMALL | link | {"view": view, "sentence": "1", "pad_to": "20"})).ok()
    row = page.rows[1]
    side = row[:12] if "pad_side" in link else row[-12:]
    assert len(row) == 20
    assert set(side) == {"[PAD]"}
    assert row.count("[PAD]") == 12
    table = page.at.dataframe[0].value
    if view not in ("shapes", "proof"):
        assert "[PAD]" not in set(table["Token"])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "link",
    [
        {"activation": "gelu", "positions": "learned", "init": "normal"},
        {"activation": "silu", "positions": "none", "final_norm": "true"},
        {"norm": "pre", "final_norm": "false"},
        {"d_model": "7", "heads": "7", "d_ff": "1"},
        {"d_model": "1", "heads": "1", "d_ff": "1"},
        {"layers": "24"},
    ],
    ids=str,
)
def test_every_view_of_unusual_architectures(view: str, link: dict[str, str]) -> None:
    page = Page(**(SMALL | link | {"view": view})).ok()
    assert page.notes == []


def test_each_quantity_of_each_norm() -> None:
    page = Page(**SMALL, norm="pre", view="layernorm").ok()
    for quantity in ("mean_in", "std_out", "mean_out", "var_in", "std_in"):
        page.set("quantity", quantity).ok()
    for name in page.norms:
        page.set("norm_choice", name).ok()
        assert page.figures["norm_detail"]["layout"]["title"]["text"] == name


def test_the_norm_that_is_chosen_sets_the_layer_of_every_view() -> None:
    page = Page(view="layernorm", sel="1.6")
    assert page.value("norm_choice") == "L1 norm2"
    page.set("norm_choice", "L4 norm1")
    assert page.link == {"view": "layernorm", "sel": "4.6", "norm_at": "norm1"}
    page.set("view", "attention").ok()
    assert page.heatmap["title"] == "L4 H6"
    page.set("view", "layernorm")
    assert page.value("norm_choice") == "L4 norm1"
    page.set("norm_choice", "embedding norm").ok()
    assert page.link == {"view": "layernorm", "sel": "4.6", "norm_at": "embed"}


def test_the_variance_of_cls_and_its_dimension_are_found_with_one_click() -> None:
    """128 before the second norm of layer 0, from dimension 99, against a median of 0.69 there."""
    page = Page(view="layernorm", quantity="var_in").ok()
    assert "The largest variance going in is 128" in page.explanation
    assert "at [CLS] in L0 norm2" in page.explanation
    drawn = page.matrix("norms")
    row, col = np.unravel_index(np.nanargmax(drawn["z"]), drawn["z"].shape)
    assert (drawn["rows"][row], drawn["cols"][col]) == ("L0 norm2", "[CLS]")
    assert np.median(drawn["z"][row]) == pytest.approx(0.69, abs=0.1)
    page.point("norms", int(row), int(col)).ok()
    assert page.link == {
        "view": "layernorm", "quantity": "var_in", "sel": "0.1", "token": "0", "norm_show": "token"
    }  # fmt: skip
    assert "Dimensions with most of the variance: 99 (" in page.explanation
    table = page.at.dataframe[0].value
    assert table["Dimension"].iloc[0] == 99
    assert table["Share of the variance"].iloc[0] > 0.9
    assert table["Share of the variance"].sum() == pytest.approx(1)
    strips = page.figures["token_strips"]["data"]
    assert strips[0]["y"].argmax() == 99 or strips[0]["y"].argmin() == 99
    assert [note["text"] for note in page.figures["token_strips"]["layout"]["annotations"][:1]] == ["99"]


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_formula_with_its_numbers_is_right(placement: str) -> None:
    page = Page(**SMALL, norm=placement, view="layernorm", norm_show="token", token="1").ok()
    first = page.at.dataframe[0].value.iloc[0]
    gamma, beta = first["Gamma"], first["Beta"]
    values = page.figures["token_strips"]["data"][0]["y"]
    out = (first["Before"] - values.mean()) / np.sqrt(values.var() + 1e-5) * gamma + beta
    assert first["After"] == pytest.approx(out, rel=1e-4)
    assert f"= {format_number(float(first['After']))}." in page.explanation


def test_gamma_and_beta_of_the_trained_encoder() -> None:
    page = Page(view="layernorm", norm_show="parameters").ok()
    gamma, beta, _ = explorer.load("minilm").norm_parameters("norm2", 3)
    drawn = page.figures["gain_curves"]["data"]
    np.testing.assert_array_equal(drawn[0]["y"], np.sort(gamma))
    np.testing.assert_array_equal(drawn[1]["y"], np.sort(beta))
    np.testing.assert_array_equal(gamma[drawn[0]["customdata"]], drawn[0]["y"])


@pytest.mark.parametrize("part", NORM_FIGURES)
@pytest.mark.parametrize(
    "link",
    [
        {"norm": "pre", "norm_at": "final"},
        {"d_model": "1", "heads": "1", "d_ff": "1", "text": "a"},
        {"sentence": "1", "pad_side": "left", "pad_to": "20", "mask": "false"},
        {"text": words(600), "layers": "1"},
    ],
    ids=str,
)
def test_every_part_of_every_norm(part: str, link: dict[str, str]) -> None:
    page = Page(**(SMALL | link), view="layernorm", norm_show=part).ok()
    for name in page.norms:
        page.set("norm_choice", name).ok()


def test_what_each_mistake_changes_is_said_in_numbers() -> None:
    """Fresh norms have beta 0, so minus beta changes nothing. Padding changes the unmasked BatchNorm alone."""
    page = Page(**SMALL, view="layernorm", norm_show="mistakes", pad_to="20").ok()
    table = page.at.dataframe[0].value.set_index("Mistake")["Largest difference"]
    assert table["Minus β"] == 0
    assert table["Sample std"] > 1e-2
    assert table["ε outside the root"] > 0
    assert table["No mask"] > 1e-2
    page.set("text", "no padding here").set("pad_to", 0).ok()
    assert page.at.dataframe[0].value.set_index("Mistake")["Largest difference"]["No mask"] == 0


def test_the_proof_is_of_this_run_and_says_which_claim_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(**SMALL, view="proof", text="proved once").ok()
    table = page.at.dataframe[0].value
    assert set(table["Result"]) == {"holds"}
    assert page.at.subheader[0].value == f"All {len(table)} claims hold for this run."
    masked_scores = attention.masked_scores

    def wrong(q, k, mask):  # scaled by the width of the model
        return masked_scores(q, k, mask) / 2**0.5

    monkeypatch.setattr(attention, "masked_scores", wrong)
    page.set("text", "proved wrong").ok()
    table = page.at.dataframe[0].value
    failed = table[table["Result"] == "does not hold"]
    assert 0 < len(failed) < len(table)
    numbers = ", ".join(str(number) for number in failed["No."])
    assert page.at.subheader[0].value == f"{len(failed)} of {len(table)} claims do not hold for this run: {numbers}."
    assert "does not hold" in page.figures["residue_bars"]["data"][0]["text"]


def test_the_shapes_view_shows_the_layer_that_is_chosen() -> None:
    page = Page(**SMALL, view="shapes", text="a b c\nd").ok()
    table = page.at.dataframe[0].value
    pattern = table[table["Site"] == "layers.1.attn.pattern"]["Shape"].item()
    assert pattern == "[2, 2, 5, 5]"
    for part in ("batch 2 (sentences)", "pos 5 (tokens)", "d_model 8", "head 2", "d_head 4", "d_ff 16"):
        assert part in page.explanation


def test_the_share_of_weight_that_padding_takes_without_the_mask() -> None:
    """The number is that of the grid and heatmap, and it is there only where there is padding to speak of."""
    page = Page(mask="false", sentence="1", pad_to="16").ok()
    weights = page.heatmap["z"][:8]
    share = 100 * weights[:, 8:].sum(axis=1).mean()
    assert 1 < share < 99
    sentence = page.explanation[page.explanation.index("The mask is off") :]
    assert sentence.startswith("The mask is off: in this head, real tokens give ")
    assert sentence.endswith(" % of their weight to padding.")
    assert float(sentence.split("give ")[1].split(" %")[0]) == pytest.approx(share, rel=1e-3)
    assert "(mask off)" in " ".join(page.status.split())
    other = page.pick(0, 0).ok()
    assert sentence not in other.explanation
    page.set("mask", True).ok()
    assert "The mask is off" not in page.explanation
    assert "Padding gets no weight" in page.explanation
    assert "mask off" not in page.status
    page.set("sentence", 0)
    assert "adding" not in page.explanation
