"""Every view of every kind of encoder has a figure, numbers and a sentence that says how to read them."""

from types import ModuleType

import pytest

from explorer.model import attention, norms
from tests.app.page import SMALL, VIEWS, Page
from tests.faults import by_sample_std, scaled_by_the_width, unmasked
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
    if "Token" in table:
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


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize(
    ("module", "name", "fault", "says"),
    [
        (attention, "masked_scores", scaled_by_the_width, "softmax of scores"),
        (attention, "masked_scores", unmasked, "padded key"),
        (norms, "layer_norm", by_sample_std, "LN"),
    ],
    ids=["wrong scale", "dropped mask", "sample std"],
)
def test_the_proof_is_of_this_run_and_says_which_claim_fails(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, fault: object, says: str, placement: str
) -> None:
    page = Page(**SMALL, norm=placement, view="proof", text="proved once\nshort").ok()
    table = page.at.dataframe[0].value
    assert set(table["Result"]) == {"holds"}
    assert page.at.subheader[0].value == f"All {len(table)} claims hold for this run."
    monkeypatch.setattr(module, name, fault)
    page.set("text", "proved to be wrong\nshort").ok()
    table = page.at.dataframe[0].value
    failed = table[table["Result"] == "does not hold"]
    assert 0 < len(failed) < len(table)
    assert failed["Claim"].str.contains(says).any()
    assert (failed["Largest difference"] > failed["Tolerance"]).all()
    numbers = ", ".join(str(number) for number in failed["No."])
    assert page.at.subheader[0].value == f"{len(failed)} of {len(table)} claims do not hold for this run: {numbers}."
    assert page.figures["residue_bars"]["data"][0]["text"].count("does not hold") == len(failed)


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


def test_a_long_table_has_its_first_rows_on_the_page_and_all_in_its_file() -> None:
    text = words(200)
    page = Page(**SMALL, text=text, view="padding", padded_to="260").ok()
    table = page.at.dataframe[0].value
    assert len(table) == 1000
    assert "the first 1,000 of 1,010 rows; the file has all" in page.explanation
