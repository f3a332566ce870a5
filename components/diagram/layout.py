"""Where everything of the encoder block stands: boxes, arrows, residual paths, live shapes.

The encoder runs from top to bottom as textbooks draw it, on 560 x 500 units. Beside the stream stand, in two columns,
the name of a value and its shape. What happens inside attention and feed-forward stands within their boxes, in the
same columns. Heights are stretched until the drawing fills its 500 units, whatever the architecture.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from components.theme import format_number

WIDTH, HEIGHT = 560.0, 500.0
TEXT, TITLE = 14.0, 15.0
"""Size of names and shapes, and of what is written in boxes. The picture is seldom smaller than 560 x 500 pixels."""
EM_HEIGHT, EM_WIDTH, EM_NUMBERS = 1.1, 0.59, 0.5
"""Room of a line and of a character, in its size; shapes have many narrow characters. In bold they need no more."""
TOKEN_IDS: Final = "token ids"

_EDGE = 4.0
_FRAME_LEFT, _FRAME_RIGHT = 6.0, 556.0
_BYPASS_X, _STREAM_X, _LANE_X = 24.0, 129.0, 159.0
_BOX_LEFT, _BOX_WIDTH, _ADD_WIDTH, _WIDE_RIGHT = 35.0, 188.0, 88.0, 550.0
_NAME_X, _ROW_NAME_X, _SHAPE_X = 141.0, 169.0, 231.0
_BOX, _ADD, _ROW, _ROW_EDGE, _ONE_ROW = 22.0, 20.0, 15.6, 3.0, 26.0
_GAP, _OUTPUT = 19.0, 20.0
_ENTER = (5.0, 17.0, 9.0)
"""From the box above to the frame, to the name of what enters the layer, to the first box."""
_LEAVE = (9.5, 10.5, 11.0)
"""From the last box to the name of what leaves the layer, to the frame, to the box below."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Text:
    """One line: the middle of its height, and where it starts, has its middle or ends, as `anchor` says."""

    text: str
    x: float
    y: float
    size: float = TEXT
    anchor: str = "start"
    em: float = EM_WIDTH

    @property
    def box(self) -> Rect:
        """The room it takes at most."""
        width = len(self.text) * self.size * self.em
        left = self.x - width * {"start": 0, "middle": 0.5, "end": 1}[self.anchor]
        return Rect(left, self.y - self.size * EM_HEIGHT / 2, width, self.size * EM_HEIGHT)


@dataclass(frozen=True, slots=True)
class Box:
    """A step of the encoder. Its kind colours it: embed, norm, attention, feed-forward or add."""

    kind: str
    rect: Rect
    title: tuple[Text, ...]

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.title)


@dataclass(frozen=True, slots=True)
class Label:
    """Name and live shape of a value, and the area that belongs to them."""

    name: Text
    shape: Text
    area: Rect


@dataclass(frozen=True, slots=True)
class Control:
    """What is chosen with one click: a step with the value that leaves it, or a value alone.

    `site` is None where nothing can be chosen; `said` is what a screen reader says.
    """

    site: str | None
    said: str
    box: Box | None
    label: Label | None


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line through points, with a head at its end. Its kind: stream, residual, or inside attention."""

    kind: str
    points: tuple[Point, ...]
    head: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole diagram, in units of its own."""

    width: float
    height: float
    said: str
    frame: Rect
    repeats: Text
    tag: Rect
    output: Text | None
    controls: tuple[Control, ...]
    arrows: tuple[Arrow, ...]

    @property
    def sites(self) -> tuple[str, ...]:
        """What can be chosen, from top to bottom."""
        return tuple(control.site for control in self.controls if control.site is not None)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The steps, from top to bottom."""
        return tuple(control.box for control in self.controls if control.box is not None)

    @property
    def residual_paths(self) -> tuple[Arrow, ...]:
        """The ways around the sublayers, from top to bottom."""
        return tuple(arrow for arrow in self.arrows if arrow.kind == "residual")


@dataclass(frozen=True, slots=True)
class _Step:
    """A box before it has a place: the site of what leaves it, and the sites within it with their names."""

    title: tuple[str, ...]
    kind: str
    site: str
    inside: tuple[tuple[str, str], ...] = ()

    @property
    def height(self) -> float:
        if len(self.inside) == 1:
            return _ONE_ROW
        if self.inside:
            return _ROW * len(self.inside) + 2 * _ROW_EDGE
        return _ADD if self.kind == "add" else _BOX


# In the order in which they are computed: scores from q and k, z from weights and v.
_ATTENTION_ROWS = (
    ("attn.q", "q"),
    ("attn.k", "k"),
    ("attn.scores", "scores"),
    ("attn.pattern", "weights"),
    ("attn.v", "v"),
    ("attn.z", "z"),
)
_FLOW = ((("q", "k"), "scores"), (("scores",), "weights"), (("weights", "v"), "z"))
_ATTENTION = _Step(("Multi-head", "attention"), "attention", "attn_out", _ATTENTION_ROWS)
_FEED_FORWARD = _Step(("Feed-forward",), "feed-forward", "ff_out", (("ff.hidden", "hidden"),))
_BLOCKS = {
    "post": (
        _ATTENTION,
        _Step(("Add",), "add", "norm1.in"),
        _Step(("LayerNorm",), "norm", "resid_mid"),
        _FEED_FORWARD,
        _Step(("Add",), "add", "norm2.in"),
        _Step(("LayerNorm",), "norm", "resid_post"),
    ),
    "pre": (
        _Step(("LayerNorm",), "norm", "norm1.out"),
        _ATTENTION,
        _Step(("Add",), "add", "resid_mid"),
        _Step(("LayerNorm",), "norm", "norm2.out"),
        _FEED_FORWARD,
        _Step(("Add",), "add", "resid_post"),
    ),
}
_NAMES = {"final_norm.out": "output"}


def block_layout(
    *,
    norm_placement: str,
    final_norm: bool,
    embedding_norm: bool,
    positions: bool,
    n_layers: int,
    sizes: Mapping[str, Mapping[str, int]],
) -> Layout:
    """The encoder with one layer in a dotted frame, and the residual paths around its two sublayers.

    Post-LN: sublayer, Add, LayerNorm. Pre-LN: LayerNorm, sublayer, Add. `sizes` gives axes and live sizes of a site
    named without its layer, such as `{"attn_out": {"batch": 2, "pos": 16, "d_model": 384}}`, and of "token ids". A
    site without an entry has a plain arrow, or its name alone, and cannot be chosen.

    Raises:
        ValueError: If the placement is neither "pre" nor "post".
    """
    if norm_placement not in _BLOCKS:
        raise ValueError(f'norm_placement must be "pre" or "post", not {norm_placement!r}')
    embedding = "Embedding + positions" if positions else "Embedding"
    before = [_Step((embedding,), "embed", "embed.sum" if embedding_norm else "resid_pre")]
    if embedding_norm:
        before.append(_Step(("LayerNorm",), "norm", "resid_pre"))
    after = [_Step(("Final LayerNorm",), "norm", "final_norm.out")] if final_norm else []
    block = _BLOCKS[norm_placement]
    column = [*before, *block, *after]
    first, last = len(before), len(before) + len(block) - 1

    gaps = [_GAP] * len(column)  # below each box
    gaps[first - 1] = sum(_ENTER)
    gaps[last] = sum(_LEAVE) if final_norm else _LEAVE[0] + _LEAVE[1] + _OUTPUT
    stretch = (HEIGHT - 2 * _EDGE) / (_GAP + sum(gaps) + sum(step.height for step in column))
    pen = _Pen(sizes, stretch)

    top = _EDGE + _GAP * stretch
    pen.stream(_EDGE, top)
    pen.value(TOKEN_IDS, _EDGE + _GAP * stretch / 2, None, "what the encoder reads")
    rects = []
    for i, (step, gap) in enumerate(zip(column, gaps, strict=True)):
        rect = pen.place(step, top)
        below = rect.bottom + gap * stretch
        beside = _ENTER[0] + _ENTER[1] if i == first - 1 else _LEAVE[0]
        pen.step(step, rect, rect.bottom + beside * stretch)
        pen.stream(rect.bottom, below)
        rects.append(rect)
        top = below

    frame_top = rects[first].y - (_ENTER[1] + _ENTER[2]) * stretch
    frame_bottom = rects[last].bottom + (_LEAVE[0] + _LEAVE[1]) * stretch
    for i, step in enumerate(column):
        if step.kind != "add":
            continue
        # The path leaves the stream above the sublayer; in Pre-LN above the norm before it.
        above = i - (1 if norm_placement == "post" else 2)
        leaves = rects[above].y - (_ENTER[2] if above == first else _GAP - _LEAVE[0]) * stretch
        pen.residual(leaves, rects[i].middle)
    repeats = Text(f"layer × {format_number(n_layers)}", 0, frame_top - 1, TITLE, "middle", EM_NUMBERS)
    tag = Rect(_WIDE_RIGHT - repeats.box.width - 12, frame_top - 10, repeats.box.width + 12, 18)
    placement = "Pre-LN" if norm_placement == "pre" else "Post-LN"
    layers = f"{format_number(n_layers)} {'layer' if n_layers == 1 else 'layers'}"
    return Layout(
        width=WIDTH,
        height=HEIGHT,
        said=f"The encoder block, {placement}, {layers}, with the shape of every value",
        frame=Rect(_FRAME_LEFT, frame_top, _FRAME_RIGHT - _FRAME_LEFT, frame_bottom - frame_top),
        repeats=replace(repeats, x=tag.x + tag.width / 2),
        tag=tag,
        output=None if final_norm else Text("output", _NAME_X, frame_bottom + _OUTPUT * stretch / 2),
        controls=tuple(pen.controls),
        arrows=tuple(pen.arrows),
    )


class _Pen:
    """Collects what is drawn, from top to bottom. `stretch` is how much higher everything is than it must be."""

    def __init__(self, sizes: Mapping[str, Mapping[str, int]], stretch: float) -> None:
        self.sizes, self.stretch = sizes, stretch
        self.controls: list[Control] = []
        self.arrows: list[Arrow] = []

    def place(self, step: _Step, top: float) -> Rect:
        height = step.height * self.stretch
        if step.inside:
            return Rect(_BOX_LEFT, top, _WIDE_RIGHT - _BOX_LEFT, height)
        width = _ADD_WIDTH if step.kind == "add" else _BOX_WIDTH
        return Rect(_STREAM_X - width / 2, top, width, height)

    def stream(self, top: float, bottom: float) -> None:
        self.arrows.append(Arrow("stream", ((_STREAM_X, top), (_STREAM_X, bottom))))

    def residual(self, leaves: float, returns: float) -> None:
        """Out of the stream to the left, down past the sublayer, and into Add."""
        way = ((_STREAM_X, leaves), (_BYPASS_X, leaves), (_BYPASS_X, returns), (_STREAM_X - _ADD_WIDTH / 2, returns))
        self.arrows.append(Arrow("residual", way))

    def step(self, step: _Step, rect: Rect, beside: float) -> None:
        """A box with what leaves it, named at the height `beside`, and what is within it."""
        x, anchor = (rect.x + 8, "start") if step.inside else (_STREAM_X, "middle")
        line = TITLE * 1.2
        high = rect.middle - line * (len(step.title) - 1) / 2
        title = tuple(Text(text, x, high + i * line, TITLE, anchor) for i, text in enumerate(step.title))
        box = Box(step.kind, rect, title)
        self.value(step.site, beside, box, f"what leaves {box.text}")
        pitch = (rect.height - 2 * _ROW_EDGE) / len(step.inside) if step.inside else 0.0
        rows = {}
        for i, (site, name) in enumerate(step.inside):
            y = rows[name] = rect.y + _ROW_EDGE + (i + 0.5) * pitch
            self._row(site, name, y, pitch, f"{name} within {box.text}")
        if step.kind == "attention":
            self._flow(rows)

    def value(self, site: str, y: float, box: Box | None, what: str) -> None:
        """A value of the stream: beside its arrow, one control together with the box that it leaves."""
        axes = self.sizes.get(site)
        if not axes:
            if box is not None:
                self.controls.append(Control(None, "", box, None))
            return
        name = Text(_NAMES.get(site, site), _NAME_X, y)
        shape = Text(_written(axes), _SHAPE_X, y, em=EM_NUMBERS)
        high = (_GAP - 2.4) * self.stretch
        area = Rect(_NAME_X - 5, y - high / 2, shape.box.x + shape.box.width + 10 - _NAME_X, high)
        self.controls.append(Control(site, _said(site, what, axes), box, Label(name, shape, area)))

    def _row(self, site: str, name: str, y: float, pitch: float, what: str) -> None:
        axes = self.sizes.get(site)
        area = Rect(_ROW_NAME_X - 4, y - pitch / 2, _WIDE_RIGHT - 3 - (_ROW_NAME_X - 4), pitch)
        label = Label(Text(name, _ROW_NAME_X, y), Text(_written(axes or {}), _SHAPE_X, y, em=EM_NUMBERS), area)
        self.controls.append(Control(site if axes else None, _said(site, what, axes) if axes else "", None, label))

    def _flow(self, rows: Mapping[str, float]) -> None:
        """Small arrows to the left of the rows: what is computed from what."""
        end, step = _ROW_NAME_X - 5, 3.0
        for sources, target in _FLOW:
            starts = [rows[name] + (0 if name in ("q", "k", "v") else step) for name in sources]
            for other in starts[1:]:
                self.arrows.append(Arrow("inside", ((end, other), (_LANE_X, other)), head=False))
            arrives = rows[target] - step
            way = ((end, starts[0]), (_LANE_X, starts[0]), (_LANE_X, arrives), (end, arrives))
            self.arrows.append(Arrow("inside", way))


def _written(axes: Mapping[str, int]) -> str:
    return " · ".join(f"{axis} {format_number(size)}" for axis, size in axes.items())


def _said(site: str, what: str, axes: Mapping[str, int]) -> str:
    return f"Open {site}, {what}: {', '.join(f'{axis} {format_number(size)}' for axis, size in axes.items())}"
