"""The padding view: three ways of one sentence, the mask, batches and pooling, by value."""

import numpy as np
import pytest

import explorer
from components.address import DEFAULT_TEXT
from components.panels.padding.sentences import TWENTY
from components.theme import format_number
from explorer import Model
from explorer.stats.batching import all_buckets, padding_cost, suggestion
from explorer.stats.masking import WAYS
from explorer.stats.residual import cosine, sentence_vectors
from tests.app.page import PARTS, SMALL, Page

TEXTS = DEFAULT_TEXT.split("\n")
ANIMAL, STREET = 16, 8
"""Tokens of the two sentences that the page opens with."""


def run(model: Model, text: str, **padding: object) -> explorer.Run:
    """One sentence by itself."""
    use_mask = padding.pop("use_mask", True)
    return explorer.run(model, model.batch([text], **padding), use_mask=use_mask)


def angle(one: np.ndarray, other: np.ndarray) -> float:
    """The cosine between two vectors."""
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


# Three ways ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("width", [17, 24, 61])
def test_three_ways_of_one_sentence(minilm: Model, side: str, width: int) -> None:
    page = Page(view="padding", padded_side=side, padded_to=str(width), sel="2.5", token="3").ok()
    masked, unmasked = page.matrix("ways_masked"), page.matrix("ways_unmasked")
    assert masked["z"].shape == (13, ANIMAL)
    assert masked["z"].max() <= 1e-5
    assert unmasked["z"].max() > 1e-2
    for drawn in (masked, unmasked):
        assert drawn["rows"][:2] == ["L0 pre", "L0 mid"]
        assert drawn["cols"][0] == "[CLS]"
        assert drawn["cols"][-1] == "[SEP]"
        assert (drawn["high"], drawn["floor"]) == (masked["high"], masked["floor"])
        assert not any(drawn["col_padding"])
        assert (drawn["z"][0] == 0).all()
    alone = run(minilm, TEXTS[0])
    wrong = run(minilm, TEXTS[0], pad_to=width, padding_side=side, use_mask=False)
    real = slice(0, ANIMAL) if side == "right" else slice(width - ANIMAL, width)
    expected = np.abs(wrong.trace.resid("post", 2)[0, real] - alone.trace.resid("post", 2)[0]).max(axis=-1)
    np.testing.assert_allclose(unmasked["z"][6], expected, rtol=1e-5)
    largest = float(masked["z"].max())
    assert masked["title"] == (
        f"Padded and masked: {f'at most {format_number(largest)}' if largest else 'exactly the same'}"
    )
    assert unmasked["title"] == f"Padded, not masked: at most {format_number(float(unmasked['z'].max()))}"
    assert "It enters with the attention of layer 0: before that it is exactly 0" in page.explanation
    assert f"Beside {width - ANIMAL} padding tokens" in page.explanation
    assert f"{format_number(float(expected[3]))} not masked" in page.explanation
    table = page.at.dataframe[0].value
    assert len(table) == 13 * ANIMAL
    assert "[PAD]" not in set(table["Token"])


def test_an_exact_0_has_a_colour_of_its_own() -> None:
    page = Page(view="padding", padded_to="70")
    values = np.concatenate([page.matrix(key)["z"] for key in PARTS["padding"]["ways"]])
    above = values[values > 0].min()
    header = page.matrix("ways_masked")
    assert header["high"] * header["floor"] < above / 5
    assert page.announced("ways_masked")["scale"] == "log"


def test_a_click_chooses_checkpoint_and_token_and_runs_nothing(passes: list[explorer.Run]) -> None:
    page = Page(view="padding", sentence="1", pad_side="left")
    done = len(passes)
    page.point("ways_unmasked", 3, 5).ok()
    assert page.link["sel"] == "1.1"
    assert page.link["point"] == "mid"
    assert page.link["token"] == str(8 + 5)  # the page pads this sentence on the left
    assert page.matrix("ways_masked")["chosen_row"] == 3
    assert page.announced("ways_masked")["col"] == 5
    assert len(passes) == done


def test_equal_settings_are_one_run_and_looking_is_none(passes: list[explorer.Run]) -> None:
    page = Page(view="padding")
    assert [(len(done.batch.sentences), done.use_mask) for done in passes] == [
        (2, True), (1, True), (1, True), (1, False)
    ]  # fmt: skip
    for part in ("maps", "mask", "batch", "ways"):
        page.set("pad_show", part).ok()
    page.set("pad_show", "mask").set("hide", "zero_after").ok()
    page.set("pad_show", "maps").set("padding_head", "L5 H2").ok()
    assert page.link["sel"] == "5.2"
    page.set("padded_to", 24).ok()  # what stands in for 0
    page.again()
    assert len(passes) == 4
    page.set("padded_to", 30).ok()
    assert len(passes) == 6  # the sentence alone is kept
    page.set("padded_to", 0).ok()
    assert len(passes) == 6
    page.set("sentence", 1).ok()
    assert len(passes) == 9


def test_the_usual_width_always_shows_padding() -> None:
    widths = {}
    for text, sentence in ((DEFAULT_TEXT, "0"), (DEFAULT_TEXT, "1"), ("One.", "0")):
        page = Page(view="padding", pad_show="maps", text=text, sentence=sentence).ok()
        widths[text, sentence] = len(page.matrix("map_masked")["cols"])
    assert list(widths.values()) == [ANIMAL + 8, ANIMAL, 4 + 2]


def test_a_width_that_is_too_small_or_too_large_is_brought_into_bounds() -> None:
    page = Page(view="padding", pad_show="maps", padded_to="3").ok()
    assert len(page.matrix("map_masked")["cols"]) == ANIMAL + 1
    assert page.notes == ["The link asks for padded_to = 3, which is not possible here. 17 is used."]
    page = Page(**SMALL, view="padding", text="a b", padded_to="512").ok()
    assert page.notes == []


def test_a_sentence_that_fills_the_encoder_leaves_nothing_to_pad() -> None:
    page = Page(**SMALL, view="padding", text=" ".join(f"word{i}" for i in range(600)))
    for part in PARTS["padding"]:
        page.set("pad_show", part).ok()
        if part != "batch":
            assert "512 places" in page.explanation


def test_too_much_memory_is_refused_in_place_of_the_picture() -> None:
    page = Page(
        **(SMALL | {"layers": "24", "d_model": "128", "heads": "128"}), view="padding", text="a b", padded_to="512"
    )
    assert not page.exceptions
    assert "MiB are allowed" in page.errors[0]
    page.set("padded_to", 0).ok()


# Attention -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["right", "left"])
def test_pad_columns_are_exactly_0_and_pad_rows_sum_to_1(minilm: Model, side: str) -> None:
    page = Page(view="padding", pad_show="maps", sentence="1", padded_to="13", padded_side=side).ok()
    alone, masked, unmasked = (page.matrix(f"map_{way}") for way in ("alone", "masked", "unmasked"))
    pads = np.array([place >= STREET if side == "right" else place < 13 - STREET for place in range(13)])
    assert [name == "[PAD]" for name in masked["cols"]] == pads.tolist()
    assert masked["row_padding"] == masked["col_padding"] == pads.astype(int).tolist()
    assert unmasked["row_padding"] == pads.astype(int).tolist()
    assert not any(unmasked["col_padding"])  # it is shown with its weight
    assert (masked["z"][:, pads] == 0).all()
    np.testing.assert_allclose(masked["z"][:, ~pads].sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(masked["z"][~pads][:, ~pads], alone["z"], atol=1e-5)
    share = 100 * unmasked["z"][~pads][:, pads].sum(axis=1).mean()
    assert share > 1
    wrong = run(minilm, TEXTS[1], pad_to=13, padding_side=side, use_mask=False)
    np.testing.assert_array_equal(unmasked["z"], wrong.trace.pattern(3)[0, 1])
    assert "column of padding is exactly 0" in page.explanation
    assert "over the 8 real keys each sums to 1." in page.explanation
    said = page.explanation.split("in this head real tokens give ")[1].split(" %")[0]
    assert float(said) == pytest.approx(share, rel=1e-3)
    table = page.at.dataframe[0].value
    assert len(table) == 72
    assert (table["Masked: weight on padding"] == 0).all()
    here = table[(table["Layer"] == 3) & (table["Head"] == 1)].iloc[0]
    assert 100 * here["Not masked: weight on padding"] == pytest.approx(share, rel=1e-4)


def test_padding_is_no_choice_of_a_token() -> None:
    page = Page(view="padding", pad_show="maps", sentence="1", token="2").ok()
    page.point("map_masked", 12, None).ok()
    assert page.link["token"] == "2"
    page.point("map_masked", 6, None).ok()
    assert page.link["token"] == "6"


# The mask ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_mask_is_broadcast_and_each_way_of_hiding_is_what_it_says(minilm: Model, side: str) -> None:
    page = Page(view="padding", pad_show="mask", sentence="1", padded_to="16", padded_side=side).ok()
    pads = np.array([place >= STREET if side == "right" else place < STREET for place in range(16)])
    assert page.matrix("mask_rows")["title"] == "mask [2, 16]"
    assert page.matrix("mask_rows")["z"].tolist() == [[0] * 16, pads.astype(float).tolist()]
    assert page.matrix("mask_broadcast")["title"] == "broadcast to [1, 12, 16, 16]"
    assert page.matrix("mask_broadcast")["z"].tolist() == [pads.astype(float).tolist()] * 16
    masked = run(minilm, TEXTS[1], pad_to=16, padding_side=side)
    before = page.matrix("mask_before")["z"]
    assert np.isfinite(before).all()
    np.testing.assert_allclose(before[:, ~pads], masked.trace.scores(3)[0, 1][:, ~pads], atol=1e-5)
    found = {}
    for hide in WAYS:
        page.set("hide", hide).ok()
        weights, after = page.matrix("mask_weights"), page.matrix("mask_after")["z"]
        found[hide] = weights["z"]
        np.testing.assert_allclose(weights["side_values"][0], weights["z"].sum(axis=1), atol=1e-5)
        np.testing.assert_array_equal(after[:, ~pads], before[:, ~pads])
        if hide == "minus_infinity":
            assert np.isnan(after[:, pads]).all()  # −∞ has no colour
        else:
            np.testing.assert_array_equal(after[:, pads], 0 if hide == "zero_before" else before[:, pads])
    np.testing.assert_allclose(found["minus_infinity"], masked.trace.pattern(3)[0, 1], atol=1e-6)
    assert found["zero_after"][~pads].sum(axis=1).min() < 0.99
    assert (found["zero_after"][:, pads] == 0).all()
    assert found["zero_before"][~pads][:, pads].min() > 0
    np.testing.assert_allclose(found["zero_before"].sum(axis=1), 1, atol=1e-5)


def test_the_damage_is_a_number_in_the_text() -> None:
    page = Page(view="padding", pad_show="mask", hide="zero_after").ok()
    sums = page.matrix("mask_weights")["side_values"][0][:ANIMAL]
    assert f"to as little as {format_number(float(sums.min()))}," in page.explanation


def test_fill_values_in_half_precision_are_on_the_page_as_words() -> None:
    page = Page(view="padding", pad_show="mask").ok()
    table = page.at.dataframe[0].value
    assert len(table) == 9
    rows = table.set_index(["Fill value", "Precision"])
    assert rows.loc[("−1e9", "float16"), "Stored as"] == -np.inf
    assert rows.loc[("−1e9", "float16"), "masked_fill"].startswith("refuses: ")
    assert rows.loc[("−∞", "float32"), "A row without any key"] == "NaN"
    assert rows.loc[("−1e9", "float32"), "A row without any key"] == "0.04167 on each of 24 keys"
    assert not table.select_dtypes("number").isna().any().any()
    assert "In float16, −1e9 is stored as −∞, and masked_fill refuses: value cannot be converted" in page.explanation


# Causal attention ----------------------------------------------------------------------------------------------------


def test_the_triangle_is_part_of_the_mask(minilm: Model) -> None:
    page = Page(view="padding", pad_show="mask", sentence="1", padded_to="12", causal="true").ok()
    place = np.arange(12)
    hidden = (place[None, :] > place[:, None]) | (place >= STREET)[None, :]
    assert page.matrix("mask_broadcast")["z"].tolist() == hidden.astype(float).tolist()
    batch = minilm.batch([TEXTS[1]], pad_to=12)
    causal = explorer.run(minilm, batch, causal=True)
    assert np.isfinite(page.matrix("mask_before")["z"]).all()
    np.testing.assert_array_equal(np.isnan(page.matrix("mask_after")["z"]), hidden)
    np.testing.assert_allclose(page.matrix("mask_weights")["z"], causal.trace.pattern(3)[0, 1], atol=1e-6)
    assert f"hides the {12 * 11 // 2} pairs whose key stands after the query" in page.explanation
    page.set("hide", "nothing").ok()
    assert "of their weight to hidden keys" in page.explanation


def test_padding_on_the_right_is_never_seen_where_attention_is_causal() -> None:
    page = Page(view="padding", padded_to="20", causal="true").ok()
    assert page.matrix("ways_unmasked")["z"].max() <= 1e-5
    assert "padding stands after them all" in page.explanation
    page.set("pad_show", "maps").ok()
    assert (page.matrix("map_unmasked")["z"][:ANIMAL, ANIMAL:] == 0).all()


def test_rows_without_a_key_are_marked_and_refused_with_the_reason() -> None:
    page = Page(view="padding", pad_show="mask", sentence="1", padded_side="left", padded_to="11", causal="true")
    assert not page.exceptions
    assert "3 queries without a key" in page.errors[0]
    assert page.matrices == {"mask_rows", "mask_broadcast"}
    drawn = page.matrix("mask_broadcast")
    assert [name.startswith("✕ ") for name in drawn["rows"]] == [True] * 3 + [False] * STREET
    assert drawn["side_values"].tolist() == [[0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]]
    assert np.isfinite(drawn["z"]).all()
    assert "So 3 rows, marked ✕, have no key left." in page.explanation
    assert page.at.dataframe[0].value["Keys"].tolist() == [0, 0, 0, *range(1, STREET + 1)]
    for part in ("ways", "maps", "pooling"):
        page.set("pad_show", part)
        assert not page.exceptions
        assert "without a key" in page.errors[0]
        assert not page.matrices
    page.set("padded_side", "right").ok()


def test_bidirectional_left_padding_says_what_causal_attention_would_do_to_it() -> None:
    page = Page(view="padding", pad_show="mask", sentence="1", padded_side="left", padded_to="11").ok()
    assert "With causal attention the 3 rows at the top would have no key at all" in page.explanation


# Batches -------------------------------------------------------------------------------------------------------------


def test_twenty_sentences_are_one_click_away(minilm: Model) -> None:
    """Lengths 1 to 20 in one batch: the share spent on padding, the buckets, and each sentence's own map."""
    page = Page(view="padding", pad_show="batch").ok()
    page.press("twenty").ok()
    assert page.value("text") == TWENTY.rstrip()
    assert [len(line.split()) for line in TWENTY.splitlines()] == list(range(1, 21))
    batch = minilm.batch(TWENTY.splitlines())
    padding = batch.key_padding_mask.numpy()
    drawn = page.matrix("pad_batch")
    np.testing.assert_array_equal(np.isnan(drawn["z"]), padding)
    assert drawn["side_values"].tolist() == [(~padding).sum(axis=1).tolist(), padding.sum(axis=1).tolist()]
    lengths = (~padding).sum(axis=1).tolist()
    cost = padding_cost(minilm.config, lengths, padding.shape[1])
    assert f"of which {format_number(100 * cost.token_share)} % are padding" in page.explanation
    assert f"{format_number(100 * cost.flop_share)} % of the FLOPs are spent on it" in page.explanation
    choices = all_buckets(minilm.config, lengths)
    best = suggestion(choices)
    assert f"into {len(best.batches)} batches" in page.explanation
    assert f"need {format_number(100 * best.saving)} % fewer FLOPs" in page.explanation
    table = page.at.dataframe[0].value
    assert table["Batches"].tolist() == list(range(1, len(choices) + 1))
    np.testing.assert_allclose(table["FLOPs saved"], [choice.saving for choice in choices])
    assert table["Suggested"].tolist().index("yes") == len(best.batches) - 1
    whole = explorer.run(minilm, batch)
    for sentence in (0, 7, 19):
        page.point("pad_batch", sentence, None, serial=sentence + 1).ok()
        real = ~padding[sentence]
        own = page.matrix("own_map")
        np.testing.assert_allclose(own["z"], whole.trace.pattern(3)[sentence, 1][np.ix_(real, real)], atol=1e-6)
        np.testing.assert_allclose(own["z"].sum(axis=1), 1, atol=1e-5)
        assert "[PAD]" not in own["cols"]


def test_positions_count_real_tokens_on_the_left_too() -> None:
    page = Page(view="padding", pad_show="batch", pad_side="left").ok()
    row = page.matrix("pad_batch")["z"][1]
    assert np.isnan(row[:STREET]).all()
    assert row[STREET:].tolist() == list(range(STREET))


def test_a_batch_without_padding_says_so() -> None:
    page = Page(**SMALL, view="padding", pad_show="batch", text="a b").ok()
    assert "This batch has no padding: it is one sentence." in page.explanation


# Pooling -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_mean_that_counts_padding_is_off(minilm: Model, side: str) -> None:
    page = Page(view="padding", pad_show="pooling", padded_to="40", padded_side=side).ok()
    batch = minilm.batch(TEXTS, pad_to=40, padding_side=side)
    masked = explorer.run(minilm, batch)
    vectors = sentence_vectors(masked.output, batch.key_padding_mask.numpy())
    right, wrong = page.matrix("pool_right"), page.matrix("pool_wrong")
    assert right["z"][0, 1] == pytest.approx(angle(*vectors.mean), abs=1e-6)
    alone = [sentence_vectors(run(minilm, text).output, np.zeros((1, n), bool)).mean[0] for text, n in
             zip(TEXTS, (ANIMAL, STREET), strict=True)]  # fmt: skip
    assert right["z"][0, 1] == pytest.approx(angle(*alone), abs=1e-5)
    assert wrong["z"][0, 1] == pytest.approx(angle(*masked.output.mean(axis=1)), abs=1e-6)
    assert abs(wrong["z"][0, 1] - right["z"][0, 1]) > 0.01
    assert (right["low"], right["high"]) == (wrong["low"], wrong["high"]) == (-1, 1)
    table = page.at.dataframe[0].value
    assert table["Padding tokens"].tolist() == [40 - ANIMAL, 40 - STREET]
    expected = np.linalg.norm(masked.output.mean(axis=1) - vectors.mean, axis=-1)
    np.testing.assert_allclose(table["Pads counted: distance"], expected, rtol=1e-4)
    unmasked = explorer.run(minilm, batch, use_mask=False)
    cls = sentence_vectors(unmasked.output, batch.key_padding_mask.numpy()).cls
    np.testing.assert_allclose(table["[CLS], mask off: cosine"], cosine(cls, vectors.cls), rtol=1e-5)


def test_the_longest_sentence_has_the_right_mean_either_way() -> None:
    table = Page(view="padding", pad_show="pooling").ok().at.dataframe[0].value
    assert table["Padding tokens"].tolist() == [0, ANIMAL - STREET]
    assert table["Pads counted: distance"][0] == 0
    assert table["Pads counted: cosine"][0] == 1
    assert table["Pads counted: distance"][1] > 0.1


# All of it -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS["padding"])
@pytest.mark.parametrize(
    "link", [{}, {"pad_side": "left", "pad_to": "30"}, {"mask": "false"}, {"norm": "pre"}], ids=str
)
def test_every_part_of_a_small_encoder(part: str, link: dict[str, str]) -> None:
    page = Page(**SMALL, **link, view="padding", pad_show=part, sentence="1").ok()
    assert page.notes == []
    for chart in page.matrices:
        drawn = page.matrix(chart)
        hidden = np.zeros(drawn["z"].shape, dtype=bool)
        hidden |= np.array(drawn["row_padding"], dtype=bool)[:, None] | np.array(drawn["col_padding"], dtype=bool)
        if chart not in ("mask_after", "pad_batch"):  # −∞, and padding, have no colour there
            assert np.isfinite(drawn["z"][~hidden]).all()


def test_padding_of_one_batch_makes_short_sentences_look_alike(minilm: Model) -> None:
    page = Page(view="padding", pad_show="pooling", text=TWENTY.rstrip()).ok()
    pairs = np.triu_indices(20, k=1)
    right, wrong = (float(page.matrix(key)["z"][pairs].mean()) for key in ("pool_right", "pool_wrong"))
    assert wrong > right + 0.1
    said = page.explanation.split("two different sentences goes from ")[1]
    assert float(said.split(" to ")[0]) == pytest.approx(right, abs=1e-4)
    assert float(said.split(" to ")[1].split(":")[0]) == pytest.approx(wrong, abs=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("part", PARTS["padding"])
def test_every_part_in_half_precision(part: str, precision: str) -> None:
    page = Page(view="padding", pad_show=part, precision=precision).ok()
    if part == "ways":
        assert "It enters with the attention of layer 0" in page.explanation


@pytest.mark.parametrize("part", PARTS["padding"])
def test_the_numbers_of_every_part_are_downloads(part: str) -> None:
    page = Page(**SMALL, view="padding", pad_show=part).ok()
    assert next(button.label for button in page.at.get("download_button")) == "This table as CSV"
