"""The diagram without a browser: what stands where in it, and what is believed of what comes back."""

import ast
import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from components.diagram import block_layout, layout, mount, read_pick
from components.diagram.layout import Arrow, Control, Layout, Rect, Text
from components.theme import DARK, LIGHT
from explorer.tape import SITES

FOLDER = Path(layout.__file__).parent
SUBLAYERS = {
    "pre": ["LayerNorm", "Multi-head attention", "Add", "LayerNorm", "Feed-forward", "Add"],
    "post": ["Multi-head attention", "Add", "LayerNorm", "Feed-forward", "Add", "LayerNorm"],
}
INSIDE = ["attn.q", "attn.k", "attn.scores", "attn.pattern", "attn.v", "attn.z"]
SMALL = {"batch": 2, "pos": 16, "d_model": 384, "d_ff": 1536, "head": 12}
LARGE = {"batch": 64, "pos": 512, "d_model": 1024, "d_ff": 4096, "head": 128}
ONE_HEAD = LARGE | {"head": 1}
EXTREMES = [
    dict(zip(("norm_placement", "embedding_norm", "final_norm", "positions"), case, strict=True))
    for case in itertools.product(("pre", "post"), (False, True), (False, True), (False, True))
]


def live(counts: dict[str, int]) -> dict[str, dict[str, int]]:
    """Axes and sizes of every site of the catalogue, without its layer, and of the token ids."""
    size = counts | {"query": counts["pos"], "key": counts["pos"], "d_head": counts["d_model"] // counts["head"]}
    sites = {site.removeprefix("layers.*."): axes.split() for site, axes in SITES.items()}
    sites["token ids"] = ["batch", "pos"]
    return {site: {axis: size[axis] for axis in axes} for site, axes in sites.items()}


def diagram(placement: str = "post", counts: dict[str, int] = SMALL, **options: object) -> Layout:
    given = {
        "norm_placement": placement,
        "final_norm": placement == "pre",
        "embedding_norm": False,
        "positions": True,
        "n_layers": 6,
        "sizes": live(counts),
    }
    return block_layout(**(given | options))


def steps(drawn: Layout) -> list[str]:
    """The texts of the boxes, from top to bottom as drawn."""
    return [box.text for box in sorted(drawn.boxes, key=lambda box: box.rect.y)]


def control(drawn: Layout, site: str) -> Control:
    (found,) = [part for part in drawn.controls if part.site == site]
    return found


def shape(drawn: Layout, site: str) -> str:
    label = control(drawn, site).label
    assert label is not None
    return label.shape.text


def box(drawn: Layout, text: str, nth: int = 0) -> Rect:
    return [part.rect for part in drawn.boxes if part.text == text][nth]


def texts(drawn: Layout) -> list[Text]:
    """Everything that is written."""
    labels = [part.label for part in drawn.controls if part.label]
    titles = [line for part in drawn.boxes for line in part.title]
    return [drawn.repeats, *([drawn.output] if drawn.output else []), *titles] + [
        text for label in labels for text in (label.name, label.shape) if text.text
    ]


def overlaps(a: Rect, b: Rect) -> bool:
    """Whether they share more than an edge."""
    edge = 1e-6
    across = a.x < b.x + b.width - edge and b.x < a.x + a.width - edge
    return across and a.y < b.bottom - edge and b.y < a.bottom - edge


def within(inner: Rect, outer: Rect) -> bool:
    right = inner.x + inner.width <= outer.x + outer.width + 1e-6
    return outer.x <= inner.x and right and outer.y <= inner.y and inner.bottom <= outer.bottom + 1e-6


# ---- what stands in which order


def test_pre_ln_puts_the_norm_before_each_sublayer_and_one_after_the_stack() -> None:
    expected = ["Embedding + positions", *SUBLAYERS["pre"], "Final LayerNorm"]
    assert steps(diagram("pre")) == expected
    assert steps(diagram("pre", final_norm=False)) == expected[:-1]


def test_post_ln_adds_and_then_norms() -> None:
    expected = ["Embedding + positions", *SUBLAYERS["post"]]
    assert steps(diagram("post")) == expected
    assert steps(diagram("post", embedding_norm=True)) == [expected[0], "LayerNorm", *expected[1:]]
    assert steps(diagram("post", positions=False))[0] == "Embedding"


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("pre", "resid_pre norm1.out attn_out INSIDE resid_mid norm2.out ff_out ff.hidden resid_post final_norm.out"),
        ("post", "resid_pre attn_out INSIDE norm1.in resid_mid ff_out ff.hidden norm2.in resid_post"),
    ],
)
def test_every_value_can_be_chosen_from_top_to_bottom(placement: str, expected: str) -> None:
    sites = expected.replace("INSIDE", " ".join(INSIDE)).split()
    assert list(diagram(placement).sites) == ["token ids", *sites]
    assert list(diagram(placement, embedding_norm=True).sites) == ["token ids", "embed.sum", *sites]


def test_a_box_and_the_value_that_leaves_it_are_one_control() -> None:
    drawn = diagram("post")
    leaves = [(part.site, part.box.text) for part in drawn.controls if part.box]
    assert leaves == [
        ("resid_pre", "Embedding + positions"),
        ("attn_out", "Multi-head attention"),
        ("norm1.in", "Add"),
        ("resid_mid", "LayerNorm"),
        ("ff_out", "Feed-forward"),
        ("norm2.in", "Add"),
        ("resid_post", "LayerNorm"),
    ]
    for part in drawn.controls:
        if part.box:
            assert part.label is not None
            assert part.label.name.y > part.box.rect.bottom


def test_the_kinds_that_have_a_colour_are_kinds_of_boxes() -> None:
    kinds = {part.kind for part in diagram("pre").boxes}
    assert kinds == {"embed", "norm", "attention", "feed-forward", "add"}
    assert set(mount.SERIES) < kinds


# ---- where the residual paths leave and come back


def test_the_residual_path_goes_around_norm_and_sublayer_in_pre_ln() -> None:
    drawn = diagram("pre")
    sublayers = ("Multi-head attention", "Feed-forward")
    sources = ("Embedding + positions", "Add")
    assert len(drawn.residual_paths) == 2
    for nth, (path, sublayer, source) in enumerate(zip(drawn.residual_paths, sublayers, sources, strict=True)):
        leaves, returns = path.points[0][1], path.points[-1][1]
        norm = box(drawn, "LayerNorm", nth)
        assert box(drawn, source).bottom < leaves < norm.y < box(drawn, sublayer).y
        assert returns == box(drawn, "Add", nth).middle


def test_the_residual_path_goes_around_the_sublayer_alone_in_post_ln() -> None:
    drawn = diagram("post")
    sublayers = ("Multi-head attention", "Feed-forward")
    sources = ("Embedding + positions", "LayerNorm")
    assert len(drawn.residual_paths) == 2
    for nth, (path, sublayer, source) in enumerate(zip(drawn.residual_paths, sublayers, sources, strict=True)):
        leaves, returns = path.points[0][1], path.points[-1][1]
        assert box(drawn, source).bottom < leaves < box(drawn, sublayer).y
        assert returns == box(drawn, "Add", nth).middle < box(drawn, "LayerNorm", nth).y


@pytest.mark.parametrize("options", EXTREMES)
def test_a_residual_path_leaves_the_layer_s_stream_and_ends_at_the_edge_of_add(options: dict) -> None:
    drawn = diagram(counts=LARGE, **options)
    adds = [part.rect for part in drawn.boxes if part.kind == "add"]
    stream = {x for arrow in drawn.arrows if arrow.kind == "stream" for x, _ in arrow.points}
    for path, add, site in zip(drawn.residual_paths, adds, ("resid_pre", "resid_mid"), strict=True):
        label = control(drawn, site).label
        assert label is not None
        assert {path.points[0][0]} == stream
        assert path.points[0][1] == pytest.approx(label.name.y)  # where the value is named
        assert path.points[-1] == (add.x, add.middle)
        assert all(drawn.frame.y < y < drawn.frame.bottom for _, y in path.points)
        sides = [part.rect for part in drawn.boxes if path.points[0][1] < part.rect.y < add.y]
        assert all(path.points[1][0] < side.x for side in sides)  # around them, not through them


# ---- what is written


@pytest.mark.parametrize(
    ("site", "written"),
    [
        ("token ids", "batch 2 · pos 16"),
        ("resid_pre", "batch 2 · pos 16 · d_model 384"),
        ("attn.q", "batch 2 · head 12 · query 16 · d_head 32"),
        ("attn.k", "batch 2 · head 12 · key 16 · d_head 32"),
        ("attn.v", "batch 2 · head 12 · key 16 · d_head 32"),
        ("attn.scores", "batch 2 · head 12 · query 16 · key 16"),
        ("attn.pattern", "batch 2 · head 12 · query 16 · key 16"),
        ("attn.z", "batch 2 · head 12 · query 16 · d_head 32"),
        ("attn_out", "batch 2 · pos 16 · d_model 384"),
        ("ff.hidden", "batch 2 · pos 16 · d_ff 1,536"),
        ("resid_post", "batch 2 · pos 16 · d_model 384"),
    ],
)
def test_live_shapes_have_the_axes_and_sizes_of_the_run(site: str, written: str) -> None:
    for placement in ("pre", "post"):
        assert shape(diagram(placement), site) == written


def test_names_are_those_of_the_glossary() -> None:
    names = {part.site: part.label.name.text for part in diagram("pre").controls if part.label}
    assert names["attn.pattern"] == "weights"
    assert names["ff.hidden"] == "hidden"
    assert names["final_norm.out"] == "output"
    assert all(names[site] == site for site in ("resid_pre", "resid_mid", "resid_post", "attn_out", "ff_out"))


def test_a_control_says_what_it_opens_and_its_axes() -> None:
    said = control(diagram("post"), "attn.pattern").said
    assert said == "Open attn.pattern, weights within Multi-head attention: batch 2, head 12, query 16, key 16"
    assert control(diagram("post"), "resid_mid").said.startswith("Open resid_mid, what leaves LayerNorm: batch 2")
    assert diagram("pre", n_layers=1).said.startswith("The encoder block, Pre-LN, 1 layer, ")
    assert diagram("post").repeats.text == "layer × 6"


def test_without_a_final_norm_the_last_layer_s_stream_is_the_output() -> None:
    drawn = diagram("post")
    assert drawn.output is not None
    assert drawn.output.text == "output"
    assert drawn.output.box.y > drawn.frame.bottom
    assert diagram("pre").output is None


def test_a_site_without_sizes_cannot_be_chosen() -> None:
    missing = ("token ids", "attn_out", "attn.q", "resid_pre")
    sizes = {site: axes for site, axes in live(SMALL).items() if site not in missing}
    drawn = diagram("post", sizes=sizes)
    assert not set(missing) & set(drawn.sites)
    assert steps(drawn) == steps(diagram("post"))
    assert [arrow for arrow in drawn.arrows if arrow.kind == "stream"] == [
        arrow for arrow in diagram("post").arrows if arrow.kind == "stream"
    ]
    (quiet,) = [part for part in drawn.controls if part.label and part.site is None]
    assert (quiet.label.name.text, quiet.label.shape.text, quiet.said) == ("q", "", "")
    nothing = diagram("pre", sizes={})
    assert nothing.sites == ()
    assert steps(nothing) == steps(diagram("pre"))


def test_an_unknown_placement_is_refused() -> None:
    with pytest.raises(ValueError, match="'sandwich'"):
        diagram("sandwich")


# ---- nothing hides anything


@pytest.mark.parametrize("counts", [SMALL, LARGE, ONE_HEAD], ids=["small", "large", "one head"])
@pytest.mark.parametrize("options", EXTREMES)
def test_nothing_overlaps_and_everything_is_inside(options: dict, counts: dict[str, int]) -> None:
    drawn = diagram(counts=counts, n_layers=128, **options)
    whole = Rect(0, 0, drawn.width, drawn.height)
    written = texts(drawn)
    boxes = [part.rect for part in drawn.boxes]
    areas = [part.label.area for part in drawn.controls if part.label]
    for these in ([text.box for text in written], boxes, areas):
        assert not [pair for pair in itertools.combinations(these, 2) if overlaps(*pair)]
        assert all(within(one, whole) for one in these)
    titles = {line for part in drawn.boxes for line in part.title}
    rows = {part.label.area for part in drawn.controls if part.label and not part.box and part.site != "token ids"}
    for text in written:
        if text in titles:
            assert any(within(text.box, rect) for rect in boxes)
            assert not any(overlaps(text.box, area) for area in areas)
        elif not any(within(text.box, row) for row in rows):
            assert not any(overlaps(text.box, rect) for rect in boxes)
    for part in drawn.controls:
        if part.label:
            assert within(part.label.name.box, part.label.area)
            assert within(part.label.shape.box, part.label.area)
    assert within(drawn.repeats.box, drawn.tag)
    assert not any(overlaps(drawn.tag, one) for one in [*boxes, *areas])


@pytest.mark.parametrize("options", EXTREMES)
def test_arrows_cross_no_text_and_stay_inside(options: dict) -> None:
    drawn = diagram(counts=LARGE, n_layers=128, **options)
    written = [text.box for text in texts(drawn)]
    for arrow in drawn.arrows:
        for one in segments(arrow):
            assert within(one, Rect(0, 0, drawn.width, drawn.height))
            assert not any(overlaps(one, text) for text in written)


def segments(arrow: Arrow) -> list[Rect]:
    """The straight parts of an arrow, one unit thick."""
    return [
        Rect(min(x0, x1) - 0.5, min(y0, y1) - 0.5, abs(x1 - x0) + 1, abs(y1 - y0) + 1)
        for (x0, y0), (x1, y1) in itertools.pairwise(arrow.points)
    ]


@pytest.mark.parametrize("options", EXTREMES)
def test_the_frame_holds_the_layer_and_what_enters_and_leaves_it(options: dict) -> None:
    drawn = diagram(counts=LARGE, **options)
    framed = [part.text for part in drawn.boxes if within(part.rect, drawn.frame)]
    assert framed == SUBLAYERS[options["norm_placement"]]
    for site in drawn.sites:
        label = control(drawn, site).label
        outside = site in ("token ids", "embed.sum", "final_norm.out")
        assert within(label.area, drawn.frame) != outside
        assert overlaps(label.area, drawn.frame) != outside


@pytest.mark.parametrize("options", EXTREMES)
def test_no_text_is_small_and_the_drawing_fills_its_height(options: dict) -> None:
    drawn = diagram(counts=LARGE, **options)
    assert min(text.size for text in texts(drawn)) >= 12
    assert min(line.size for part in drawn.boxes for line in part.title) > 14
    assert (drawn.width, drawn.height) == (560, 500)
    ends = [y for arrow in drawn.arrows if arrow.kind == "stream" for _, y in arrow.points]
    assert (min(ends), max(ends)) == (pytest.approx(4), pytest.approx(496))


def test_inside_attention_the_arrows_say_what_is_computed_from_what() -> None:
    drawn = diagram("post")
    heights = {site: control(drawn, site).label.name.y for site in INSIDE}

    def site_at(y: float) -> str:
        return min(heights, key=lambda site: abs(heights[site] - y))

    inside = [arrow for arrow in drawn.arrows if arrow.kind == "inside"]
    flow = [(site_at(arrow.points[0][1]), site_at(arrow.points[-1][1])) for arrow in inside if arrow.head]
    assert flow == [("attn.q", "attn.scores"), ("attn.scores", "attn.pattern"), ("attn.pattern", "attn.z")]
    assert [site_at(arrow.points[0][1]) for arrow in inside if not arrow.head] == ["attn.k", "attn.v"]


# ---- what comes back


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"site": "attn.pattern"}, "attn.pattern"),
        ({"site": "token ids"}, "token ids"),
        ({"site": "attn.pattern", "layer": 9}, "attn.pattern"),
        ({"site": "final_norm.out"}, None),  # this encoder has none
        ({"site": "layers.0.attn.pattern"}, None),
        ({"site": "ATTN.PATTERN"}, None),
        ({"site": "attn.pattern "}, None),
        ({"site": ""}, None),
        ({"site": "<img src=x onerror=alert(1)>"}, None),
        ({"site": "__class__"}, None),
        ({"site": 3}, None),
        ({"site": True}, None),
        ({"site": ["attn.pattern"]}, None),
        ({"site": {"attn.pattern": 1}}, None),
        ({"site": None}, None),
        ({"SITE": "attn.pattern"}, None),
        ({}, None),
        (["attn.pattern"], None),
        ("attn.pattern", None),
        (None, None),
    ],
)
def test_a_pick_is_a_site_of_the_diagram_or_nothing(value: object, expected: str | None) -> None:
    assert read_pick(value, diagram("post").sites) == expected


@pytest.mark.parametrize(("value", "expected"), [({"site": "attn.z"}, ["attn.z"]), ({"site": "x"}, []), (None, [])])
def test_only_a_site_reaches_the_callback(value: object, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount, "sent", lambda key, event: value if (key, event) == ("block", "pick") else None)
    picked: list[str] = []
    mount._picked("block", diagram("post").sites, picked.append)
    assert picked == expected


def page() -> None:
    import streamlit as st

    from components.diagram import block_diagram
    from tests.components.test_diagram import SMALL, diagram

    counts = SMALL | {"pos": st.session_state.get("pos", 16)}
    chosen = st.session_state.get("chosen")
    block_diagram(diagram("pre", counts), key="block", height=500, chosen=chosen, on_pick=lambda site: None)


def test_a_new_choice_leaves_the_drawing_alone_and_reaches_the_announcer() -> None:
    app = AppTest.from_function(page).run()
    assert not app.exception
    drawing, announcer = (element.proto for element in app.get("bidi_component"))
    assert json.loads(announcer.json) == {"target": "block", "chosen": None}
    app.session_state["chosen"] = "attn.pattern"
    app.run()
    assert not app.exception
    drawing_after, announcer_after = (element.proto for element in app.get("bidi_component"))
    assert (drawing_after.json, drawing_after.id) == (drawing.json, drawing.id)
    assert announcer_after.id == announcer.id
    assert json.loads(announcer_after.json) == {"target": "block", "chosen": "attn.pattern"}


def test_other_shapes_reach_the_same_diagram() -> None:
    app = AppTest.from_function(page).run()
    before = app.get("bidi_component")[0].proto
    assert json.loads(before.json) == json.loads(json.dumps(asdict(diagram("pre"))))
    app.session_state["pos"] = 17
    app.run()
    after = app.get("bidi_component")[0].proto
    assert after.id == before.id
    assert "query 17 · key 17" in json.dumps(json.loads(after.json), ensure_ascii=False)


# ---- the files


def test_the_layout_is_arithmetic() -> None:
    """No widget, no tensor: it can be drawn by anything."""
    nodes = list(ast.walk(ast.parse((FOLDER / "layout.py").read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names == {"collections.abc", "dataclasses", "typing", "components.theme"}


def test_text_is_written_as_text_and_nothing_is_fetched() -> None:
    script = (FOLDER / "diagram.js").read_text(encoding="utf-8")
    assert not [word for word in ("innerHTML", "outerHTML", "insertAdjacent", "fetch(", "import ") if word in script]
    assert script.count("http") == 1
    assert 'SVG = "http://www.w3.org/2000/svg"' in script  # a name, not an address
    assert "url(" not in mount._CSS


def test_every_kind_has_its_series_colour_in_both_themes() -> None:
    light, dark = mount._CSS.split("@media screen")
    for kind, series in mount.SERIES.items():
        assert f"--{kind}: {LIGHT.series[series]};" in light
        assert f"--{kind}: {DARK.series[series]};" in dark
        assert f".step.{kind}" in light


def test_a_layout_is_a_value() -> None:
    assert diagram("pre") == diagram("pre")
    assert hash(diagram("pre")) == hash(diagram("pre"))
    assert replace(diagram("pre"), height=1) != diagram("pre")
