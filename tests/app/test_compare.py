"""A run is kept as A, something is changed, and every view shows A, B and B less A by value."""

from typing import Any

import numpy as np
import pytest

import explorer
from components.panels.layernorm import QUANTITIES as NORM_QUANTITIES
from components.panels.residual import QUANTITIES as STREAM_QUANTITIES
from components.panels.residual.checkpoints import checkpoint_name
from components.theme import format_number
from explorer.comparison import TOLERANCE, compare_parameters
from explorer.proof import proof
from tests.app.page import SHOWN_OF_TWO, TWO, Page
from tests.app.pairs import LINK, compared, holds, kept, link_of_a, made, settings_of_a, settings_of_b, subtracted

Passes = list[explorer.Run]

CHANGES: dict[str, list[tuple[str, Any]]] = {
    "nothing": [],
    "text": [("text", "one three two two\nfour five")],
    "layers": [("layers", 3)],
    "heads": [("heads", 4)],
    "width": [("d_model", 12)],
    "placement": [("norm", "pre")],
    "seed": [("seed", 1)],
    "mask": [("mask", False)],
    "padding": [("pad_to", 9)],
    "padding side": [("pad_side", "left")],
    "source": [("source", "minilm")],
    "precision": [("precision", "bfloat16")],
    "causal": [("causal", True)],
    "several": [("causal", True), ("heads", 1), ("norm", "pre"), ("text", "three\nfive four"), ("layers", 1)],
}
SENTENCES = pytest.mark.parametrize("sentence", ["0", "1"])
CHANGED = pytest.mark.parametrize("change", CHANGES)


def changed(change: str, **link: str) -> Page:
    """A page with A, after a change of B."""
    page = kept(**link)
    for key, value in CHANGES[change]:
        page.set(key, value).ok()
    return page


def bounds(picture: dict[str, Any]) -> float:
    """What an even scale around the values of a picture would reach to."""
    sizes = np.abs(picture["z"][np.isfinite(picture["z"])])
    return float(sizes.max(initial=0)) or 1.0


def test_the_button_keeps_what_the_controls_ask_for() -> None:
    for link in (
        {},
        {"seed": "3", "mask": "false", "off": "0.1"},
        {"source": "minilm", "layers": "1", "causal": "true"},
    ):
        page = Page(**(LINK | link), view="residual").press("keep_a").ok()
        assert page.link == kept(**link, view="residual").link
        assert page.control("view").options[0] == "A and B"
        assert page.status.count(" · ") == 3  # one line a run, and a name in each
        assert page.notes == []


# The views -----------------------------------------------------------------------------------------------------------


@CHANGED
@SENTENCES
def test_attention(change: str, sentence: str) -> None:
    page = changed(change, sentence=sentence)
    both = compared(page)
    heads = both.heads()
    for layer, head in ((0, 0), (both.n_layers - 1, both.n_heads - 1)):
        page.point("moved", layer, head).ok()
        assert page.link["sel"] == f"{layer}.{head}"
        a, b, difference = both.pattern(layer, head)
        for run, place, values in ((both.a, both.alignment.a, a), (both.b, both.alignment.b, b)):
            hidden = place > place[:, None] if run.causal else np.zeros(values.shape, dtype=bool)
            assert (values[hidden & np.isfinite(values)] == 0).all()
        drawn = page.three("head")
        # What a causal mask hides is blank, and was 0.
        holds(
            page,
            "head",
            [np.where(np.isnan(p["z"]), np.nan, v) for p, v in zip(drawn, (a, b, difference), strict=True)],
        )
        for run, picture, values in ((both.a, drawn[0], a), (both.b, drawn[1], b)):
            blank = np.isnan(picture["z"]) & np.isfinite(values)
            assert blank.any() == (run.causal and np.isfinite(values).any() and len(values) > 1)
            assert (values[blank] == 0).all()
        assert drawn[0]["low"] == 0
        assert drawn[0]["high"] == 1
        assert drawn[2]["high"] == pytest.approx(bounds(drawn[2]))
        assert drawn[2]["title"] == f"B − A · L{layer} H{head}"
    np.testing.assert_array_equal(
        page.matrix("moved")["z"], heads.pivot(index="layer", columns="head", values="moved").astype(np.float32)
    )
    table = page.at.dataframe[0].value.sort_values(["Layer", "Head"])
    np.testing.assert_array_equal(table["Weight that would have to move"], heads["moved"])
    words = {(True, True): "A and B", (True, False): "A", (False, True): "B"}
    assert table["There in"].tolist() == [words[pair] for pair in zip(heads["in_a"], heads["in_b"], strict=True)]


@CHANGED
def test_layernorm(change: str) -> None:
    page = changed(change, view="layernorm", sentence="1")
    both = compared(page)
    tables = [run.tables.layernorm() for run in (both.a, both.b)]
    tables = [table.assign(var_in=table["std_in"] ** 2) for table in tables]
    for quantity in NORM_QUANTITIES:
        page.set("quantity", quantity).ok()
        expected = both.aligned(*tables, ("norm", "layer"), quantity)
        holds(page, "norms", expected)
        drawn = page.three("norms")
        assert drawn[0]["high"] == pytest.approx(max(bounds(drawn[0]), bounds(drawn[1])))
        assert drawn[2]["high"] == pytest.approx(bounds(drawn[2]))
        table = page.at.dataframe[0].value
        known = np.isfinite(expected.a) | np.isfinite(expected.b)
        assert len(table) == known.sum()
        np.testing.assert_array_equal(np.sort(table["B − A"]), np.sort(expected.difference[known]))


@CHANGED
def test_the_stream(change: str) -> None:
    page = changed(change, view="residual", sentence="1")
    both = compared(page)
    tables = [run.tables.stream() for run in (both.a, both.b)]
    for quantity in STREAM_QUANTITIES:
        page.set("stream", quantity).ok()
        expected = both.aligned(*tables, ("point", "layer"), quantity)
        skipped = 0 if quantity == "norm" else 1
        holds(page, "stream", [values[skipped:] for values in expected])
        drawn = page.three("stream")
        assert drawn[2]["high"] == pytest.approx(bounds(drawn[2]))
        assert drawn[0]["high"] == (
            pytest.approx(max(bounds(drawn[0]), bounds(drawn[1]))) if quantity in ("norm", "added") else 1
        )

    page.set("stream_pair", "distance").ok()
    stream = both.stream()
    stream["row"] = [checkpoint_name(*row) for row in zip(stream["point"], stream["layer"], strict=True)]
    if both.a.config.d_model == both.b.config.d_model:
        drawn = page.matrix("distance")
        wanted = stream.pivot(index="row", columns="slot", values="relative")
        wanted = wanted.reindex(index=drawn["rows"], columns=range(len(drawn["cols"])))
        np.testing.assert_array_equal(drawn["z"], wanted.to_numpy(dtype=np.float32))
        assert drawn["low"] == 0
    else:
        assert "different widths" in page.explanation
        assert stream["relative"].isna().all()
    table = page.at.dataframe[0].value
    np.testing.assert_array_equal(np.sort(table["Share of the length in A"]), np.sort(stream["relative"]))

    page.set("stream_pair", "growth").ok()
    table = page.at.dataframe[0].value
    for name, run in (("A", both.a), ("B", both.b)):
        of_run = run.tables.stream(sentence=1).groupby(["layer", "point"], sort=False, dropna=False)
        rows = table[table["Run"] == name]
        np.testing.assert_allclose(rows["Mean L2 norm"], of_run["norm"].mean(), rtol=1e-6)
        np.testing.assert_allclose(rows["Mean L2 norm of what is added"], of_run["added"].mean(), rtol=1e-6)


@CHANGED
def test_a_tensor(change: str) -> None:
    for site, axis in (("attn.pattern", "key"), ("attn.scores", "key"), ("attn.q", None), ("ff.hidden", None)):
        page = changed(change, view="shapes", shape_show="tensor", site=site, sel="0.0")
        both, places = compared(page), [compared(page).alignment.a, compared(page).alignment.b]
        found = []
        for run, place in zip((both.a, both.b), places, strict=True):
            values = run.trace.tensor(site, 0)
            values = values[0, 0] if site.startswith("attn") else values[0]
            values = np.where(np.isfinite(values), values, np.nan)[place]
            values = values[:, place] if axis else values
            values[place == -1] = np.nan
            if axis:
                values[:, place == -1] = np.nan
            found.append(values)
        holds(page, "tensor", subtracted(*found))
        assert (page.matrix("tensor_a")["low"] == 0) == (site == "attn.pattern")


@CHANGED
def test_parameters_and_blocks(change: str) -> None:
    page = changed(change, view="shapes", shape_show="parameters")
    models = [made(settings)[0] for settings in (settings_of_a(page), settings_of_b(page))]
    expected = compare_parameters(*models).set_index("name")
    table = page.at.dataframe[0].value.set_index("Name")
    assert sorted(table.index) == sorted(expected.index)
    table = table.loc[expected.index]
    assert table["Status"].tolist() == expected["status"].tolist()
    for column, heading in {"n_a": "Numbers in A", "n_b": "Numbers in B"}.items():
        assert table[heading].equals(expected[column])
    np.testing.assert_array_equal(table["Largest difference"], expected["largest_difference"])
    said = [f"{format_number(n)} {status}" for status, n in expected["status"].value_counts().items()]
    assert all(part in page.explanation for part in said)
    n_a, n_b = (model.report.n_parameters for model in models)
    assert (expected["n_a"].sum(), expected["n_b"].sum()) == (n_a, n_b)

    page.set("shapes_of_two", "cost").ok()
    assert "shape_show" not in page.link
    table = page.at.dataframe[0].value
    assert [table[table["Run"] == name]["Parameters"].sum() for name in ("A", "B")] == [n_a, n_b]
    if n_a == n_b:
        assert f"Parameters: {format_number(n_a)} in both." in page.explanation
    else:
        assert f"Parameters: {format_number(n_a)} in A, {format_number(n_b)} in B." in page.explanation


@CHANGED
def test_the_proof_of_both(change: str) -> None:
    page = changed(change, view="proof")
    table = page.at.dataframe[0].value
    for name, settings in (("A", settings_of_a(page)), ("B", settings_of_b(page))):
        model, run = made(settings)
        claims = proof(run, model)
        rows = table[table["Run"] == name]
        assert len(rows) == len(claims)
        np.testing.assert_allclose(rows["Largest difference"], [claim.difference for claim in claims])
    assert set(table["Result"]) == {"holds"}


@CHANGED
def test_the_summary(change: str) -> None:
    page = changed(change, view="compare")
    both = compared(page)
    stream, found = both.stream(), both.parting()
    if found is None:
        assert f"the streams agree to {format_number(TOLERANCE)} of their length" in page.explanation
    else:
        assert f"They part at {checkpoint_name(found.point, found.layer)}: " in page.explanation
        if found.reason == "moved":
            assert f"“{found.token}” moves by {format_number(found.relative)} of its length" in page.explanation
    assert ("Every number of both is exactly the same." in page.explanation) == both.equal
    a, b = settings_of_a(page), settings_of_b(page)
    differing = {key for key in a.keys() & b.keys() if a[key] != b[key]}
    page.set("pair_table", "settings")
    table = page.at.dataframe[0].value
    assert len(table) >= len(differing)
    assert not (table["A"] == table["B"]).any()
    assert table.empty == (change == "nothing")
    for setting, value_a, value_b in table.itertuples(index=False):
        assert f"{setting.lower()}: {value_a} → {value_b}" in page.explanation
    page.set("pair_table", "tokens").ok()
    table = page.at.dataframe[0].value
    np.testing.assert_array_equal(np.sort(table["Share of the length in A"]), np.sort(stream["relative"]))
    known = table["Share of the length in A"].dropna()
    assert known.is_monotonic_decreasing
    page.set("pair_table", "heads").ok()
    known = page.at.dataframe[0].value["Weight that would have to move"].dropna()
    assert known.is_monotonic_decreasing


def test_long_texts_are_shown_where_they_differ() -> None:
    same = " ".join(["word"] * 40)
    page = Page(**(LINK | {"text": f"{same} dog"}), pair_table="settings").press("keep_a").set("view", "compare")
    table = page.set("text", f"{same} cat ran").ok().at.dataframe[0].value
    assert table.to_numpy().tolist() == [["Text", "… word word word dog”", "… word word word cat ran”"]]


@CHANGED
def test_outputs(change: str) -> None:
    page = changed(change, view="compare", pair_show="outputs")
    both = compared(page)
    found = [both.alignment.spread(run.output[0], side, axis=0) for run, side in ((both.a, "a"), (both.b, "b"))]
    holds(page, "outputs", subtracted(*found))
    table = page.at.dataframe[0].value
    np.testing.assert_array_equal(np.sort(table["Share of the length in A"]), np.sort(both.outputs()["relative"]))


@CHANGED
def test_the_picture_of_a_is_that_of_its_run_alone(change: str) -> None:
    page = changed(change, sel="0.1", sentence="1")
    alone = Page(**link_of_a(page), sel="0.1", sentence="1").ok().heatmap["z"]
    n_real = 3
    there = page.three("head")[0]["z"][np.ix_(*[compared(page).alignment.a >= 0] * 2)]
    np.testing.assert_array_equal(there[:n_real, :n_real], alone[:n_real, :n_real])


def test_heads_that_are_switched_off_in_b() -> None:
    """The buttons are those of B: A keeps its heads, and each press is one pass."""
    page = kept(sel="0.1").press("off_one").ok()
    assert page.link["off"] == "0.1"
    assert settings_of_a(page)["off"] == ()
    both = compared(page)
    assert both.b.heads_off == {(0, 1)}
    assert not both.a.heads_off
    assert page.matrix("head_b")["title"] == "B · L0 H1: off"
    assert page.matrix("head_a")["title"] == "A · L0 H1"
    table = page.at.dataframe[0].value
    assert table[(table["Layer"] == 0) & (table["Head"] == 1)]["Off in"].tolist() == ["B"]
    assert set(table["Off in"]) == {"B", "none"}
    page.point("moved", 1, 0).ok()
    holds(page, "head", both.pattern(1, 0))
    page.press("swap").ok()
    assert settings_of_a(page)["off"] == ((0, 1),)
    assert "off" not in page.link
    page.press("off_every").press("off_none").ok()
    assert "off" not in page.link


# A beside itself -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link",
    [
        {},
        {"sentence": "1", "mask": "false"},
        {"pad_side": "left", "pad_to": "9", "norm": "pre"},
        {"causal": "true", "precision": "bfloat16"},
        {"source": "minilm", "layers": "2"},
    ],
    ids=str,
)
def test_a_beside_itself_is_exactly_0_everywhere(link: dict[str, str]) -> None:
    for view, parts in TWO.items():
        for part in parts:
            page = kept(**(link | {"view": view} | ({SHOWN_OF_TWO[view]: part} if part else {})))
            for key in page.matrices:
                if key.endswith("difference") or key in ("moved", "distance"):
                    z = page.matrix(key)["z"]
                    assert np.isfinite(z).any()
                    assert (z[np.isfinite(z)] == 0).all(), key
            zeros = [
                c for c in page.at.dataframe[0].value if c in ("B − A", "L2 norm of B − A", "Share of the length in A")
            ]
            zeros += [c for c in page.at.dataframe[0].value if c.startswith("Weight that") or c == "Largest difference"]
            for column in zeros if view != "proof" else []:
                assert (page.at.dataframe[0].value[column].dropna() == 0).all(), column
    page = kept(**link, view="compare")
    assert "A and B have the same settings." in page.explanation
    assert "Every number of both is exactly the same." in page.explanation
    assert "All heads attend in exactly the same way." in page.explanation
    assert "A and B are exactly equal at every aligned token." in page.explanation


# Swap and forget -----------------------------------------------------------------------------------------------------


def pictures(page: Page) -> dict[str, dict[str, Any]]:
    """All maps on the page."""
    return {key: page.matrix(key) for key in page.matrices if not key.startswith("block")}


def each_part() -> list[tuple[str, str]]:
    return [(view, part) for view, parts in TWO.items() for part in parts]


@pytest.mark.parametrize(("view", "part"), each_part(), ids=str)
@pytest.mark.parametrize("change", ["placement", "layers", "mask", "causal"])
def test_swapped_every_difference_has_the_other_sign(change: str, view: str, part: str, passes: Passes) -> None:
    page = changed(change, view=view, sentence="1", sel="0.0", **({SHOWN_OF_TWO[view]: part} if part else {}))
    before, first = pictures(page), page.link
    a, b = settings_of_a(page), settings_of_b(page)
    n_passes = len(passes)
    page.press("swap").ok()
    assert len(passes) == n_passes
    assert {key: settings_of_b(page)[key] for key in a} == a
    assert settings_of_a(page) == {key: b[key] for key in settings_of_a(page)}
    after = pictures(page)
    assert after.keys() == before.keys()
    for key, picture in after.items():
        if key.endswith("_difference"):
            np.testing.assert_array_equal(picture["z"], -before[key]["z"])
            assert (picture["low"], picture["high"]) == (before[key]["low"], before[key]["high"])
        elif key.endswith(("_a", "_b")):
            other = before[key[:-1] + {"a": "b", "b": "a"}[key[-1]]]
            np.testing.assert_array_equal(picture["z"], other["z"])
            assert [picture[name] for name in ("low", "high", "floor")] == [other[n] for n in ("low", "high", "floor")]
        elif key == "moved":
            np.testing.assert_array_equal(picture["z"], before[key]["z"])
    again = page.again().ok()
    assert again.link == page.link
    assert pictures(again).keys() == after.keys()
    for key, picture in pictures(again).items():
        np.testing.assert_array_equal(picture["z"], after[key]["z"])
    page.press("swap").ok()
    assert page.link == first
    for key, picture in pictures(page).items():
        np.testing.assert_array_equal(picture["z"], before[key]["z"])
    assert len(passes) == n_passes


def test_swapped_what_only_one_text_has_changes_its_owner() -> None:
    page = changed("text")
    before = page.three("head")
    page.press("swap").ok()
    after = page.three("head")
    own = {"(A)": "(B)", "(B)": "(A)"}
    renamed = [" ".join(own.get(word, word) for word in name.split(" ")) for name in before[2]["rows"]]
    assert sorted(renamed) == sorted(after[2]["rows"])
    shared = [[i for i, name in enumerate(p["rows"]) if not name.endswith(")")] for p in (before[2], after[2])]
    for one, other in ((0, 1), (1, 0)):
        np.testing.assert_array_equal(
            before[one]["z"][np.ix_(shared[0], shared[0])], after[other]["z"][np.ix_(shared[1], shared[1])]
        )
    np.testing.assert_array_equal(
        before[2]["z"][np.ix_(shared[0], shared[0])], -after[2]["z"][np.ix_(shared[1], shared[1])]
    )


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"source": "minilm", "layers": "1"}, {"source": "built", "heads": "2", "d_model": "8"}),
        ({"source": "built", "heads": "2", "d_model": "8", "seed": "3"}, {"source": "minilm", "layers": "1"}),
        ({"source": "built"}, {"source": "minilm-preln", "layers": "2", "mask": "false"}),
    ],
    ids=["trained and built", "built and trained", "built and the twin"],
)
def test_swapping_twice_gives_the_first_link_back_whatever_the_sources(a: dict[str, str], b: dict[str, str]) -> None:
    kept_a = "{" + ",".join(f'"{key}":"{value}"' for key, value in a.items()) + "}"
    page = Page(**b, text="one two", a=kept_a).ok()
    first = page.link
    page.press("swap").ok()
    assert page.value("source") == a["source"]
    page.press("swap").ok()
    assert page.link == first


@pytest.mark.parametrize(
    "link",
    [
        {},
        {"view": "layernorm", "quantity": "mean_in", "norm_show": "distribution", "sentence": "1"},
        {"view": "residual", "stream_show": "paths", "stream": "added"},
        {"view": "shapes", "shape_show": "growth"},
        {"view": "shapes", "shape_show": "tensor", "site": "ff_out"},
        {"view": "proof"},
        {"view": "attention", "show": "ablation", "off": "0.1", "units": "words", "special": "hidden"},
        {"beside": "true", "view": "residual", "stream_pair": "growth"},
    ],
    ids=str,
)
def test_after_a_is_forgotten_all_is_as_before_it_was_kept(link: dict[str, str], passes: Passes) -> None:
    page = Page(**LINK, **link).ok()
    before, keys = page.link, page.matrices | page.figures.keys()
    maps = {key: page.component(key).bytes for key in page.matrices if key != "block"}
    page.press("keep_a").ok()
    for view in TWO:
        page.set("view", view)
    page.set("view", link.get("view", "attention"))
    page.press("forget_a").ok()
    assert page.link == before
    assert page.matrices | page.figures.keys() == keys
    assert {key: page.component(key).bytes for key in maps} == maps
    assert page.notes == []
    assert [button.key for button in page.at.button if button.key in ("swap", "forget_a")] == []


def test_the_view_of_both_goes_with_a() -> None:
    page = kept(view="compare")
    page.press("forget_a").ok()
    assert page.value("view") == "attention"
    assert "A and B" not in page.control("view").options
    page = Page(**LINK, view="compare").ok()
    assert page.value("view") == "attention"
    assert page.notes[0].startswith("The link asks for view = compare, which is not possible here.")


def test_b_is_kept_as_a_instead() -> None:
    page = changed("seed").press("keep_a").ok()
    assert settings_of_a(page)["seed"] == 1
    assert (page.three("head")[2]["z"] == 0).all()
    page.set("seed", 2).press("swap").ok()
    assert page.value("seed") == 1


# Views that have no comparison ---------------------------------------------------------------------------------------


def test_rollout_and_the_other_ways_to_show_one_head_have_no_comparison() -> None:
    """A16: there is nothing to choose them with."""
    page = kept(show="sums", sum="rollout")
    keys = {widget.key for kind in ("button_group", "selectbox") for widget in page.at.get(kind)}
    assert not keys & {"show", "sum", "units", "special"}
    page.press("forget_a").ok()
    z = page.matrix("sum_matrix")["z"][:5, :5]
    np.testing.assert_allclose(z.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("view", ["padding", "laboratory"])
def test_the_other_views_show_what_the_controls_ask_for_alone(view: str, passes: Passes) -> None:
    page = kept(view=view) if view == "padding" else kept().set("view", view)
    assert not page.exceptions
    assert not page.errors
    assert "a" in page.link
