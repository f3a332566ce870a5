"""The view of the residual stream: checkpoints, what is added, the stream as a picture, paths and sentences."""

import json
from pathlib import Path

import numpy as np
import pytest

import explorer
from components.address import DEFAULT_TEXT
from tests.app.page import PARTS, SMALL, Page
from tests.inputs import words

GOLDENS = Path(__file__).parents[1] / "goldens"
Passes = list[explorer.Run]


@pytest.fixture(scope="module")
def run(minilm: explorer.Model) -> explorer.Run:
    return explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")))


@pytest.mark.parametrize("part", PARTS["residual"])
@pytest.mark.parametrize(
    "link",
    [
        {"text": "a", "layers": "1", "heads": "1"},
        {"d_model": "1", "heads": "1", "d_ff": "1", "text": "a"},
        {"sentence": "1", "pad_side": "left", "pad_to": "20", "mask": "false"},
        {"norm": "pre", "point": "final", "layers": "24"},
        {"text": words(600), "layers": "1"},
    ],
    ids=str,
)
def test_every_part_of_the_smallest_and_the_largest(part: str, link: dict[str, str]) -> None:
    page = Page(**(SMALL | link), view="residual", stream_show=part).ok()
    for quantity in page.control("stream").options:
        page.set("stream", quantity).ok()
    if "Token" in (table := page.at.dataframe[0].value):
        assert "[PAD]" not in set(table["Token"])


def test_looking_at_the_stream_is_no_pass(passes: Passes) -> None:
    page = Page(view="residual")
    for part in PARTS["residual"]:
        page.set("stream_show", part).ok()
        page.point("stream_map", 2, 3, serial=2).ok()
    page.set("pooling", "cls").ok()
    assert len(passes) == 1


@pytest.mark.parametrize(
    ("quantity", "first", "unit"), [("norm", 0, "L2 norm"), ("turned", 1, "cosine"), ("added", 1, "L2 norm")]
)
def test_the_overview_is_the_table_of_the_stream(run: explorer.Run, quantity: str, first: int, unit: str) -> None:
    drawn = Page(view="residual", stream=quantity).ok().matrix("stream_map")
    table = run.tables.stream(sentence=0)[quantity].to_numpy().reshape(13, 16)
    np.testing.assert_allclose(drawn["z"], table[first:], rtol=1e-5)
    names = ["L0 pre", *(f"L{layer} {point}" for layer in range(6) for point in ("mid", "post"))]
    assert drawn["rows"] == names[first:]
    assert drawn["unit"] == unit
    assert drawn["rows"][drawn["chosen_row"]] == "L3 post"


def test_a_click_chooses_checkpoint_and_token_for_all_views() -> None:
    page = Page(view="residual", stream_show="checkpoint").point("stream_map", 3, 5).ok()
    assert page.link == {
        "view": "residual", "stream_show": "checkpoint", "sel": "1.1", "point": "mid", "token": "5"
    }  # fmt: skip
    assert page.matrix("picture")["title"] == "The stream at L1 mid"
    assert page.announced("picture")["row"] == 5
    page.set("stream_show", "token").ok()
    assert page.announced("followed")["row"] == 3
    page.point("followed", 0, None).ok()
    assert (page.link["point"], page.link["sel"]) == ("pre", "0.1")
    page.set("view", "layernorm").ok()
    assert page.value("norm_choice") == "L0 norm2"


def test_what_enters_a_layer_is_what_left_the_one_before() -> None:
    assert Page(view="residual", point="pre", sel="3.0").ok().value("checkpoint") == "L2 post"


def test_a_final_norm_that_is_not_there_gives_way_and_is_noted() -> None:
    page = Page(view="residual", point="final").ok()
    assert page.value("checkpoint") == "L3 post"
    assert page.notes == ["The link asks for point = final, which is not possible here. post is used."]
    pre = Page(**SMALL, norm="pre", view="residual", point="final", stream="added").ok()
    assert pre.value("checkpoint") == "final norm"
    assert pre.notes == []
    assert pre.matrix("stream_map")["chosen_row"] is None  # nothing is added there


def test_the_stream_as_a_picture_is_the_stream(run: explorer.Run) -> None:
    drawn = Page(view="residual", stream_show="checkpoint", point="mid").ok().matrix("picture")
    np.testing.assert_array_equal(drawn["z"], run.trace.resid("mid", 3)[0])
    assert drawn["high"] == pytest.approx(np.percentile(np.abs(run.trace.resid("mid", 3)[0]), 99), rel=1e-6)
    assert drawn["beyond"] == [True, True]
    page = Page(view="residual", stream_show="token").ok()
    drawn = page.matrix("followed")
    np.testing.assert_array_equal(drawn["z"][0], run.trace.resid("pre", 0)[0, 10])
    np.testing.assert_array_equal(drawn["z"][8], run.trace.resid("post", 3)[0, 10])
    table = page.at.dataframe[0].value
    assert table["Checkpoint"].tolist() == drawn["rows"]
    at = np.abs(drawn["z"]).argmax(axis=1)
    assert table["Dimension furthest from 0"].tolist() == at.tolist()


def test_the_colours_of_a_padded_sentence_are_those_of_its_real_tokens() -> None:
    page = Page(**SMALL, view="residual", stream_show="checkpoint", sentence="1", pad_to="20").ok()
    drawn = page.matrix("picture")
    real = drawn["z"][~np.array(drawn["row_padding"], dtype=bool)]
    assert drawn["high"] == pytest.approx(np.percentile(np.abs(real), 99), rel=1e-5)


def test_directions_are_means_over_the_real_tokens(run: explorer.Run) -> None:
    page = Page(view="residual", stream_show="directions").ok()
    stream = run.tables.stream(sentence=0)
    turned = stream["turned"].to_numpy().reshape(13, 16)
    table = page.at.dataframe[0].value
    np.testing.assert_allclose(table["Mean cosine with the checkpoint before"][1:], turned[1:].mean(axis=1))
    similarity = run.tables.similarity(sentence=0)["cosine"]
    np.testing.assert_allclose(table["Mean cosine between tokens"], similarity)
    assert "they have become more alike" in page.explanation


def test_paths_are_those_of_the_ends_of_all_layers(run: explorer.Run) -> None:
    page = Page(view="residual", stream_show="paths").ok()
    ends = np.stack([run.trace.resid("pre", 0)[0], *run.trace.resid("post")[:, 0]]).astype(float)  # [7, 16, 384]
    flat = ends.reshape(-1, 384)
    total = ((flat - flat.mean(axis=0)) ** 2).sum()
    table = page.at.dataframe[0].value
    assert table["Checkpoint"].tolist() == ["L0 pre", *(f"L{layer} post" for layer in range(6))]
    assert set(table["Token"]) == {"it"}
    drawn = {trace["name"]: trace for trace in page.figures["token_paths"]["data"]}
    np.testing.assert_allclose(drawn["it"]["x"], table["First axis"], rtol=1e-4)
    lines = np.stack([drawn["path of a token"][axis].reshape(16, 8)[:, :7] for axis in "xy"])
    share = (lines**2).sum(axis=(1, 2)) / total
    said = page.explanation.split("They hold ")[1].split(" %")[0]
    assert float(said) == pytest.approx(100 * share.sum(), rel=1e-3)


@pytest.mark.parametrize("case", ["batch_pad", "repeat", "emoji"])
def test_sentence_vectors_are_those_of_the_reference(case: str) -> None:
    """The cosines on the page, and the vectors that it gives, against `emb_mean`, padded and not."""
    arrays = np.load(GOLDENS / "minilm.npz")
    texts = json.loads((GOLDENS / "minilm.json").read_text())["cases"][case]["texts"]
    expected = arrays[f"{case}/emb_mean"]
    for pad_to in ("0", "40"):
        page = Page(view="residual", stream_show="sentences", text="\n".join(texts), pad_to=pad_to).ok()
        np.testing.assert_allclose(page.matrix("sentences")["z"], expected @ expected.T, atol=2e-5)


def test_sentences_are_compared_by_mean_or_cls_and_chosen_by_click() -> None:
    page = Page(view="residual", stream_show="sentences", text="A cat sat.\nA kitten sat.\n\nStocks fell.").ok()
    by_mean = page.matrix("sentences")["z"]
    assert by_mean[0, 1] > 0.6 > by_mean[0, 2]
    assert np.diagonal(by_mean).tolist() == [1, 1, 1]
    assert page.matrix("sentences")["rows"] == ["1: A cat sat.", "2: A kitten sat.", "4: Stocks fell."]
    table = page.at.dataframe[0].value
    assert table.iloc[0].tolist()[:2] == ["1: A cat sat.", "2: A kitten sat."]
    assert len(table) == 3
    page.set("pooling", "cls").ok()
    assert not np.allclose(page.matrix("sentences")["z"], by_mean, atol=1e-3)
    page.point("sentences", 2, 0).ok()
    assert page.link["sentence"] == "2"


def test_one_sentence_says_how_to_compare() -> None:
    page = Page(**SMALL, view="residual", stream_show="sentences", text="alone").ok()
    assert page.matrix("sentences")["z"].tolist() == [[1]]
    assert "Type a second sentence on a line of its own to compare." in page.explanation
    assert "untrained" in page.explanation
