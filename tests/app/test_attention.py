"""The attention view: every way to look at it, by value, with what is merged, hidden, filtered or switched off."""

import numpy as np
import pytest

import explorer
from components.theme import format_number
from explorer.stats.reduce import merge_words, part_of
from explorer.stats.rollout import attention_rollout
from tests.app.page import PARTS, SMALL, Page
from tests.inputs import words

Passes = list[explorer.Run]
PAIR = "The cat sat. [SEP] A dog slept on."
TEXT = "Unbelievably, Zürich's café 👍 sleeps.\nShort."
LOOKS = [
    {},
    {"pad_side": "left"},
    {"mask": "false"},
    {"units": "words"},
    {"special": "hidden", "units": "words"},
    {"special": "renormalised", "mask": "false", "pad_side": "left"},
]


def expected_run(page: Page, text: str, **settings: object) -> explorer.Run:
    model = explorer.load("minilm")
    return explorer.run(model, model.batch(text.split("\n")), **settings)


@pytest.mark.parametrize("show", PARTS["attention"])
@pytest.mark.parametrize("look", LOOKS, ids=str)
@pytest.mark.parametrize("sentence", ["0", "1"])
def test_every_way_to_look_at_a_padded_sentence(show: str, look: dict[str, str], sentence: str) -> None:
    page = Page(show=show, text=TEXT, sentence=sentence, pad_to="24", token="5", **look).ok()
    assert all(note.startswith("[UNK] stands for a word") for note in page.notes)
    assert "nan" not in page.explanation.lower()
    for key in page.matrices:
        drawn = page.matrix(key)
        for name in {*drawn["rows"], *drawn["cols"]} - {"[CLS]", "[SEP]", "[PAD]", "[UNK]"}:
            assert name
        rows, cols = (~np.array(drawn[f"{side}_padding"], dtype=bool) for side in ("row", "col"))
        assert np.isfinite(drawn["z"][np.ix_(rows, cols)]).all()


@pytest.mark.parametrize("show", PARTS["attention"])
@pytest.mark.parametrize(
    "link",
    [
        {"text": "Hello"},
        {"text": "[SEP]"},
        {"text": words(2_000), "token": "600", "layers": "1"},
        {"heads": "1", "layers": "1", "text": "a"},
        {"text": "the cat the", "d_model": "5", "heads": "5"},
        {"norm": "pre", "text": "a b [SEP] c d", "pair": "aa"},
    ],
    ids=str,
)
def test_every_way_to_look_at_the_smallest_and_the_largest(show: str, link: dict[str, str]) -> None:
    page = Page(**(SMALL | link), show=show, off="0.0", special="hidden", score="previous").ok()
    if show != "token":
        assert page.announced("grid")["score"]


def test_looking_in_every_way_is_no_pass_and_heads_off_is_one(passes: Passes) -> None:
    page = Page()
    for show in 2 * [*PARTS["attention"]]:
        page.set("show", show).ok()
    for key, values in {
        "scale": ["sqrt", "log"],
        "units": ["words"],
        "special": ["hidden", "renormalised"],
        "score": ["entropy", "next"],
    }.items():
        page.set("show", "map")
        for value in values:
            page.set(key, value).ok()
    page.set("show", "sums")
    for name in ("mean", "maximum", "residual", "product"):
        page.set("sum", name).ok()
    assert len(passes) == 1
    page.set("show", "ablation").press("off_one").ok()
    assert len(passes) == 2
    page.press("off_none").press("off_one").pick(0, 3).ok()
    assert len(passes) == 2


# What is merged, hidden and filtered ---------------------------------------------------------------------------------


def test_words_are_shown_as_typed_with_keys_added_and_queries_averaged() -> None:
    page = Page(text=TEXT, units="words").ok()
    run = expected_run(page, TEXT)
    drawn = page.heatmap
    n_real = int((~run.batch.key_padding_mask[0]).sum())
    typed = ["[CLS]", "Unbelievably", ",", "Zürich", "'", "s", "café", "👍", "sleeps", ".", "[SEP]"]
    assert drawn["rows"] == drawn["cols"] == typed
    assert len(typed) < n_real
    merged = merge_words(run.trace.pattern(3)[0, 1], run.batch.word_spans(0))
    np.testing.assert_allclose(drawn["z"], merged, atol=1e-6)
    np.testing.assert_allclose(drawn["z"].sum(axis=1), 1, atol=1e-5)
    assert "pieces of a word are merged" in page.explanation
    assert page.grid[0]["tokens"] == page.grid[0]["keys"] == typed


def test_hiding_special_tokens_says_what_share_they_had_and_leaves_the_rest_as_it_is() -> None:
    page = Page(special="hidden").ok()
    full = Page().heatmap["z"]
    drawn = page.heatmap
    assert drawn["rows"] == Page().heatmap["rows"][1:-1]
    np.testing.assert_array_equal(drawn["z"], full[1:-1, 1:-1])
    share = 100 * full[1:-1][:, [0, -1]].sum(axis=1, dtype=np.float64).mean()
    assert f"What is hidden takes {format_number(share)} % of the weight" in page.explanation
    page.set("special", "renormalised").ok()
    np.testing.assert_allclose(page.heatmap["z"].sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(page.heatmap["z"][0], full[1, 1:-1] / full[1, 1:-1].sum(), atol=1e-6)
    assert "so that they sum to 1" in page.explanation


@pytest.mark.parametrize(("part", "rows", "cols"), [("aa", 0, 0), ("ab", 0, 1), ("ba", 1, 0), ("bb", 1, 1)])
def test_the_parts_of_a_sentence_pair(part: str, rows: int, cols: int) -> None:
    page = Page(text=f"{PAIR}\nno pair", pair=part).ok()
    a, b = ["[CLS]", "the", "cat", "sat", ".", "[SEP]"], ["a", "dog", "slept", "on", ".", "[SEP]"]
    drawn = page.heatmap
    assert (drawn["rows"], drawn["cols"]) == ((a, b)[rows], (a, b)[cols])
    place = slice(0, 6), slice(6, 12)
    full = Page(text=PAIR).heatmap["z"]
    np.testing.assert_array_equal(drawn["z"], full[place[rows], place[cols]])
    other = page.set("sentence", 1).ok()
    assert other.heatmap["rows"][:4] == ["[CLS]", "no", "pair", "[SEP]"]
    assert page.set("sentence", 0).heatmap["rows"] == drawn["rows"]


def test_a_pair_has_segments_and_its_grid_is_filtered_too() -> None:
    page = Page(text=PAIR, pair="ab").ok()
    whole = Page(text=PAIR)
    header, pixels = page.grid
    assert (header["rows"], header["cols"]) == (6, 6)
    np.testing.assert_array_equal(pixels, whole.grid[1][:, :, :6, 6:])


def test_where_hiding_leaves_nothing_everything_is_shown() -> None:
    page = Page(**SMALL, text="[SEP]", special="hidden").ok()
    assert page.heatmap["rows"] == ["[CLS]", "[SEP]", "[SEP]"]


# Token, sums, query and key ------------------------------------------------------------------------------------------


def test_a_token_in_every_head_and_what_a_click_on_it_chooses() -> None:
    page = Page(show="token").ok()
    run = expected_run(page, "The animal didn't cross the street because it was too tired.")
    patterns = run.trace.pattern()[:, 0].reshape(72, 16, 16)
    looks, looked_at = page.matrix("looks"), page.matrix("looked_at")
    assert looks["title"] == "Where “it” looks"
    np.testing.assert_allclose(looks["z"], patterns[:, 10], atol=1e-6)
    np.testing.assert_allclose(looked_at["z"], patterns[:, :, 10], atol=1e-6)
    assert looks["rows"][37] == "L3 H1"
    assert looks["chosen_row"] == 37
    page.point("looks", 5 * 12 + 7, 3).ok()
    assert page.link["sel"] == "5.7"
    page.point("looked_at", None, 2, serial=1).ok()
    assert page.link["token"] == "2"
    assert page.matrix("looks")["title"] == "Where “animal” looks"
    assert page.value("token_choice") == "2 animal"
    page.set("token_choice", "8 street").ok()
    assert page.link["token"] == "8"


def test_a_click_on_a_row_of_the_head_chooses_its_token_and_padding_none() -> None:
    page = Page(pad_to="20", units="words")
    page.point("head", 2, 5).ok()
    assert page.link["token"] == "2"
    assert page.announced("head")["row"] == 2
    page.point("head", 18, None, serial=2).ok()
    assert page.announced("head")["row"] == 15  # the nearest real token


def test_rollout_is_of_real_tokens_alone() -> None:
    page = Page(show="sums", sentence="1").ok()
    run = expected_run(page, "The animal didn't cross the street because it was too tired.\nThe street was too wide.")
    drawn = page.matrix("sum_matrix")
    expected = attention_rollout(run.trace.pattern()[:, 1, :, :8, :8])[3]
    np.testing.assert_allclose(drawn["z"][:8, :8], expected, atol=1e-6)
    assert drawn["row_padding"] == drawn["col_padding"] == [0] * 8 + [1] * 8
    assert "R[l] = Ã[l] R[l − 1]" in page.explanation
    np.testing.assert_allclose(page.at.dataframe[0].value["Sum of the row"], 1, atol=1e-5)
    page.set("sum", "maximum").ok()
    np.testing.assert_allclose(page.matrix("sum_matrix")["z"][:8, :8], run.trace.pattern(3)[1, :, :8, :8].max(0))


def test_products_of_a_query_and_its_keys_sum_to_the_score() -> None:
    page = Page(show="queries").ok()
    run = expected_run(page, "The animal didn't cross the street because it was too tired.")
    drawn = page.matrix("products")
    np.testing.assert_allclose(drawn["z"].sum(axis=1), drawn["side_values"][0], atol=1e-4)
    np.testing.assert_allclose(drawn["side_values"][0], run.trace.scores(3)[0, 1, 10], atol=1e-4)
    np.testing.assert_allclose(drawn["side_values"][1], run.trace.pattern(3)[0, 1, 10], atol=1e-6)
    assert drawn["low"] == -drawn["high"]
    assert np.abs(drawn["z"]).max() == pytest.approx(drawn["high"])
    page.point("products", 2, 0).ok()
    assert page.matrix("products")["title"] == "L3 H1, query “animal”"


# Scores and heads off ------------------------------------------------------------------------------------------------


def test_a_score_in_the_grid_is_that_of_the_table() -> None:
    page = Page(score="previous", table="heads").ok()
    score = page.announced("grid")["score"]
    table = page.at.dataframe[0].value
    assert score["full"][0][2] == format_number(
        table.query("Layer == 0 and Head == 2").iloc[0]["On the previous token"]
    )
    assert score["bars"][0][2] > 0.99
    assert score["label"] == "On the previous token"


@pytest.mark.parametrize("show", ["map", "lines", "sums", "queries"])
def test_the_formula_of_a_score_is_shown_where_the_grid_carries_it(show: str) -> None:
    page = Page(**SMALL, show=show).ok()
    assert "Numbers in the grid" not in page.explanation
    page.set("score", "previous").ok()
    formula = "On the previous token: mean over queries q that have one of w[q, q − 1]."
    assert f"Numbers in the grid, {formula}" in page.explanation


def test_a_head_that_is_switched_off_is_off_in_the_second_map_alone() -> None:
    page = Page(show="ablation", sel="1.8").ok()
    assert page.link.get("off") is None
    np.testing.assert_array_equal(page.matrix("before")["z"], page.matrix("after")["z"])
    page.press("off_one").ok()
    assert page.link["off"] == "1.8"
    page.pick(2, 0).ok()
    text = "The animal didn't cross the street because it was too tired.\nThe street was too wide."
    run, after = expected_run(page, text), expected_run(page, text, heads_off={(1, 8)})
    np.testing.assert_allclose(page.matrix("before")["z"], run.trace.pattern(2)[0, 0], atol=1e-6)
    np.testing.assert_allclose(page.matrix("after")["z"], after.trace.pattern(2)[0, 0], atol=1e-6)
    assert not np.allclose(page.matrix("before")["z"], page.matrix("after")["z"], atol=1e-4)
    assert "Off: 1 of 72 heads." in page.explanation
    assert page.announced("grid")["off"] == [[1, 8]]
    moved = page.matrix("moved")
    assert (moved["z"][0] == 0).all()
    assert (moved["z"][1:] > 0).all()
    one, other = run.trace.resid("post", 5)[0, 10], after.trace.resid("post", 5)[0, 10]
    assert moved["z"][5, 10] == pytest.approx(np.linalg.norm(other - one) / np.linalg.norm(one), rel=1e-3)
    cosines = page.at.dataframe[0].value["Cosine before and after"]
    assert len(cosines) == 16
    assert cosines.max() < 1


def test_all_heads_off_leave_a_layer_only_its_bias() -> None:
    page = Page(**SMALL, show="ablation").press("off_every").ok()
    assert page.link["off"] == "0.0_0.1_1.0_1.1"
    assert "Off: 4 of 4 heads." in page.explanation
    assert page.again().ok().matrix("after")["z"].tolist() == page.matrix("after")["z"].tolist()
    page.press("off_none").ok()
    assert "off" not in page.link


def test_a_head_that_is_off_and_gone_comes_back_with_its_layer() -> None:
    page = Page(**(SMALL | {"layers": "3"}), show="ablation", off="2.1").ok()
    assert page.announced("grid")["off"] == [[2, 1]]
    page.set("layers", 2).ok()
    assert "off" not in page.announced("grid")
    page.set("layers", 3).ok()
    assert page.announced("grid")["off"] == [[2, 1]]


def test_part_of_is_what_the_page_hides() -> None:
    """The page and a script that hides the same tokens show the same numbers."""
    run = expected_run(Page(special="renormalised"), "The street was too wide.")
    kept = np.arange(1, 7)
    part, left_out = part_of(run.trace.pattern(3)[0, 1], kept, kept, renormalise=True)
    page = Page(special="renormalised", text="The street was too wide.")
    np.testing.assert_allclose(page.heatmap["z"], part, atol=1e-6)
    assert format_number(100 * float(left_out.mean())) in page.explanation
