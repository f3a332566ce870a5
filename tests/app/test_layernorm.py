"""The LayerNorm view: what each norm measures, one token opened, BatchNorm beside it, and common mistakes."""

import numpy as np
import pytest

import explorer
from components.theme import format_number
from tests.app.page import PARTS, SMALL, Page
from tests.inputs import words


def test_each_quantity_of_each_norm() -> None:
    page = Page(**SMALL, norm="pre", view="layernorm").ok()
    for part in ("distribution", "tokens"):
        page.set("norm_show", part)
        for quantity in page.control("quantity").options:
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


@pytest.mark.parametrize("part", PARTS["layernorm"])
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


@pytest.mark.parametrize("part", PARTS["layernorm"])
def test_every_part_of_the_deepest_encoder(part: str) -> None:
    page = Page(**(SMALL | {"layers": "24", "norm": "pre"}), view="layernorm", norm_show=part, sel="23.0").ok()
    assert len(page.norms) == 49
    assert page.value("norm_choice") == "L23 norm2"


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


def test_the_spread_of_every_norm_is_over_real_tokens() -> None:
    page = Page(view="layernorm", norm_show="distribution", quantity="var_in", sentence="1").ok()
    table = page.at.dataframe[0].value.set_index("Norm")
    drawn = page.matrix("norms")
    real = drawn["z"][:, :8]
    assert table.index.tolist() == drawn["rows"]
    np.testing.assert_allclose(table["Median"], np.median(real, axis=1), rtol=1e-5)
    np.testing.assert_allclose(table["90th percentile"], np.percentile(real, 90, axis=1), rtol=1e-5)
    np.testing.assert_allclose(table["Largest"], real.max(axis=1), rtol=1e-6)
    assert table.loc["L0 norm2", "Largest at"] == "[CLS]"


def test_where_eps_matters_is_shown_and_said() -> None:
    """With one feature every variance is 0: eps is all that is under the root."""
    page = Page(**(SMALL | {"d_model": "1", "heads": "1"}), view="layernorm", quantity="eps_share", text="a").ok()
    assert (page.matrix("norms")["z"] == 1).all()
    assert "100 % of what is under the root" in page.explanation
    page.set("norm_show", "token").ok()
    assert "eps matters here" in page.explanation
    trained = Page(view="layernorm", norm_show="token").ok()
    assert "eps is of no weight here" in trained.explanation


def test_layernorm_averages_tokens_and_batchnorm_features() -> None:
    link = SMALL | {"norm_show": "batchnorm", "pad_to": "12", "sentence": "1", "text": "one two three\nfour"}
    page = Page(**link, view="layernorm").ok()
    layer, batch = page.matrix("layer_rows"), page.matrix("batch_rows")
    real = ~np.array(layer["row_padding"], dtype=bool)
    np.testing.assert_array_equal(layer["z"], batch["z"].T)
    np.testing.assert_allclose(layer["side_values"][0][real], layer["z"][real].mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(layer["side_values"][1][real], layer["z"][real].std(axis=1), rtol=1e-5)
    assert batch["sides"] == ["mean", "std", "mean with pads", "std with pads"]
    other = Page(**(link | {"sentence": "0"}), view="layernorm").matrix("batch_rows")
    of_other = ~np.array(other["col_padding"], dtype=bool)
    every = np.concatenate([other["z"][:, of_other], batch["z"][:, real]], axis=1)
    np.testing.assert_allclose(batch["side_values"][0], every.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(batch["side_values"][1], every.std(axis=1), rtol=1e-5)
    padded = np.concatenate([other["z"], batch["z"]], axis=1)
    np.testing.assert_allclose(batch["side_values"][2], padded.mean(axis=1), atol=1e-6)
    table = page.at.dataframe[0].value
    assert (table["Padding changes LayerNorm by"] == 0).all()
    assert (table["Padding changes BatchNorm by"] > 1e-3).any()
    page.set("pad_to", 0).set("text", "no padding here").ok()
    assert page.matrix("batch_rows")["sides"] == ["mean", "std"]
    assert "There is no padding here." in page.explanation


@pytest.mark.parametrize("mistake", ["sample_std", "eps_outside", "minus_beta", "no_mask"])
def test_a_mistake_that_is_switched_on_is_seen_at_the_chosen_token(mistake: str) -> None:
    page = Page(view="layernorm", norm_show="mistakes", mistake=mistake, token="0", sel="0.0")
    right, wrong = (trace["y"] for trace in page.figures["token_strips"]["data"])
    table = page.at.dataframe[0].value
    largest = np.abs(wrong - right).max()
    assert abs(table["Difference"].iloc[0]) == pytest.approx(largest)
    if mistake != "no_mask":  # that one is held against BatchNorm
        run = explorer.run(model := explorer.load("minilm"), model.batch(list(page.at.text_area[0].value.split("\n"))))
        np.testing.assert_allclose(right, run.trace.norm("norm2", "out", 0)[0, 0], atol=1e-4)
    assert f"The largest difference is {format_number(float(largest))} at [CLS]" in page.explanation
    assert (largest > 1e-3) == (mistake != "eps_outside")
    assert page.link["mistake"] == mistake
