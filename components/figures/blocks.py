"""The encoder as textbooks draw it, top to bottom, with the shapes of the run beside the arrows."""

from collections.abc import Mapping
from dataclasses import dataclass

import plotly.graph_objects as go

from components.figures.canvas import empty_figure, translucent
from components.labels import plotly_escape
from components.theme import Palette, format_number

WIDTH = 560
_STREAM_X, _BOX_WIDTH, _BYPASS_X, _SIDE_X = 196, 220, 44, 320
_FRAME = (22, 550)
_BOX_HEIGHT, _GAP, _CROSSING, _END = 30, 25, 54, 34
_SERIES = {"norm": 0, "attention": 1, "feed-forward": 2}
_NAMES = {name: name for name in ("resid_pre", "resid_mid", "resid_post", "attn_out", "ff_out")} | {
    "final_norm.out": "output"
}


@dataclass(frozen=True, slots=True)
class Step:
    """One box: its text, its kind (which colours it), the site on the arrow that leaves it, the sites beside it."""

    text: str
    kind: str
    site: str
    beside: tuple[tuple[str, str], ...] = ()


_ATTENTION = Step("Multi-head attention", "attention", "attn_out", (("q, k, v", "attn.q"), ("weights", "attn.pattern")))
_FEED_FORWARD = Step("Feed-forward", "feed-forward", "ff_out", (("hidden", "ff.hidden"),))
_BLOCKS = {
    "post": (
        _ATTENTION,
        Step("Add", "add", "norm1.in"),
        Step("LayerNorm", "norm", "resid_mid"),
        _FEED_FORWARD,
        Step("Add", "add", "norm2.in"),
        Step("LayerNorm", "norm", "resid_post"),
    ),
    "pre": (
        Step("LayerNorm", "norm", "norm1.out"),
        _ATTENTION,
        Step("Add", "add", "resid_mid"),
        Step("LayerNorm", "norm", "norm2.out"),
        _FEED_FORWARD,
        Step("Add", "add", "resid_post"),
    ),
}


def block_diagram(
    *,
    norm_placement: str,
    final_norm: bool,
    embedding_norm: bool,
    n_layers: int,
    positions: bool = True,
    steps: Mapping[str, str],
    palette: Palette,
    height: int = 560,
) -> go.Figure:
    """The encoder with the block of its norm placement in a frame, and the two residual paths around the sublayers.

    Post-LN: each sublayer, then Add, then LayerNorm. Pre-LN: LayerNorm, sublayer, Add. `steps` gives the text of a
    shape for a site, such as `{"attn_out": "[2, 16, 384]"}`; names may carry the prefix `layers.3.` or `layers.*.`,
    and a site without an entry has a plain arrow.

    Raises:
        ValueError: If the placement is neither "pre" nor "post".
    """
    if norm_placement not in _BLOCKS:
        raise ValueError(f'norm_placement must be "pre" or "post", not {norm_placement!r}')
    shapes = {_short(site): text for site, text in steps.items()}
    block = _BLOCKS[norm_placement]
    embedding = "Embedding + positions" if positions else "Embedding"
    before = [Step(embedding, "embed", "embed.norm.in" if embedding_norm else "resid_pre")]
    if embedding_norm:
        before.append(Step("LayerNorm", "norm", "resid_pre"))
    column = [*before, *block, *([Step("Final LayerNorm", "norm", "final_norm.out")] if final_norm else [])]
    first, last = len(before), len(before) + len(block) - 1

    tops = [_END]
    for i in range(1, len(column)):
        tops.append(tops[-1] + _BOX_HEIGHT + (_CROSSING if i in (first, last + 1) else _GAP))
    bottom = tops[-1] + _BOX_HEIGHT + (_END if final_norm else _CROSSING)

    figure = empty_figure(
        "block_diagram", palette, title="", height=height, norm_placement=norm_placement, n_layers=n_layers
    )
    pen = _Pen(figure, palette, bottom)
    pen.frame(tops[first] - 40, tops[last] + _BOX_HEIGHT + 30, f"layer × {format_number(n_layers)}")
    pen.arrow(4, tops[0], 16, shapes.get("token_ids"), "token ids")
    for i, (step, top) in enumerate(zip(column, tops, strict=True)):
        pen.box(step, top + _BOX_HEIGHT / 2, shapes)
        end = tops[i + 1] if i + 1 < len(column) else bottom - 3
        # Where the arrow crosses the frame, the label stays inside: these sites belong to the layer.
        beside = end - 26 if i == first - 1 else top + _BOX_HEIGHT + 12
        pen.arrow(top + _BOX_HEIGHT, end, beside, shapes.get(step.site), _NAMES.get(step.site, ""))
    if not final_norm:
        pen.label(bottom - 12, shapes.get("resid_post"), "output")
    for add in (i for i, step in enumerate(column) if step.kind == "add"):
        # The path leaves the stream above the sublayer; in Pre-LN above the norm before it.
        above = add - (1 if norm_placement == "post" else 2)
        pen.bypass(tops[above] - 16, tops[add] + _BOX_HEIGHT / 2)
    pen.finish()
    return figure


def _short(site: str) -> str:
    parts = site.split(".")
    return ".".join(parts[2:]) if parts[0] == "layers" and len(parts) > 2 else site


class _Pen:
    """Draws on invisible axes of 560 x `bottom` units, y growing downwards."""

    def __init__(self, figure: go.Figure, palette: Palette, bottom: float) -> None:
        self.figure, self.palette, self.bottom = figure, palette, bottom
        self.shapes: list[dict[str, object]] = []
        self.notes: list[dict[str, object]] = []

    def frame(self, top: float, bottom: float, label: str) -> None:
        left, right = _FRAME
        line = {"color": self.palette.muted, "width": 1.2, "dash": "dot"}
        self.shapes.append(_rect(left, right, top, bottom) | {"line": line, "fillcolor": self.palette.surface})
        self._write(right - 10, top + 15, f"<b>{label}</b>", size=15, anchor="right")

    def box(self, step: Step, y: float, shapes: Mapping[str, str]) -> None:
        half = 44 if step.kind == "add" else _BOX_WIDTH / 2
        series = _SERIES.get(step.kind)
        colour = self.palette.muted if series is None else self.palette.series[series]
        box = _rect(_STREAM_X - half, _STREAM_X + half, y - _BOX_HEIGHT / 2, y + _BOX_HEIGHT / 2)
        for fill in (self.palette.background, translucent(colour, 0.16)):
            self.shapes.append(box | {"line": {"color": colour, "width": 2}, "fillcolor": fill})
        self._write(_STREAM_X, y, step.text, size=15, anchor="center")
        lines = [f"{label} {plotly_escape(shapes[site])}" for label, site in step.beside if site in shapes]
        if lines:
            self._write(_SIDE_X, y, "<br>".join(lines), size=13, anchor="left")

    def arrow(self, start: float, end: float, beside: float, shape: str | None, name: str) -> None:
        self._arrow(_STREAM_X, start, _STREAM_X, end, self.palette.text)
        self.label(beside, shape, name)

    def label(self, y: float, shape: str | None, name: str) -> None:
        """A live shape and, in a quieter colour, the name of the site, to the right of the stream."""
        named = f'<span style="color:{self.palette.muted}">{name}</span>' if name else ""
        text = " ".join(part for part in (plotly_escape(shape or ""), named) if part)
        if text:
            self._write(_STREAM_X + 10, y, text, size=13, anchor="left")

    def bypass(self, top: float, bottom: float) -> None:
        """The residual path: out of the stream to the left, down past the sublayer, and into Add."""
        r, x = 10, _BYPASS_X
        corners = f"L {x + r} {top} Q {x} {top} {x} {top + r} L {x} {bottom - r} Q {x} {bottom} {x + r} {bottom}"
        path = f"M {_STREAM_X} {top} {corners} L {_STREAM_X - 52} {bottom}"
        self.shapes.append({"type": "path", "path": path, "line": {"color": self.palette.accent, "width": 2.2}})
        self._arrow(_STREAM_X - 64, bottom, _STREAM_X - 44, bottom, self.palette.accent, width=2.2)

    def finish(self) -> None:
        axis = {"visible": False, "fixedrange": True, "autorange": False}
        self.figure.update_layout(
            shapes=[shape | {"layer": "below"} for shape in self.shapes],
            annotations=self.notes,
            xaxis=axis | {"range": (0, WIDTH)},
            yaxis=axis | {"range": (self.bottom, 0)},
            margin={"l": 0, "r": 0, "t": 0, "b": 0},
            dragmode=False,
        )

    def _arrow(self, x0: float, y0: float, x1: float, y1: float, colour: str, width: float = 1.6) -> None:
        refs = {"xref": "x", "yref": "y", "axref": "x", "ayref": "y"}
        head = {"showarrow": True, "arrowhead": 2, "arrowsize": 0.9, "arrowwidth": width, "arrowcolor": colour}
        self.notes.append({"x": x1, "y": y1, "ax": x0, "ay": y0, "text": "", **refs, **head})

    def _write(self, x: float, y: float, text: str, *, size: int, anchor: str, colour: str | None = None) -> None:
        self.notes.append(
            {
                "x": x,
                "y": y,
                "text": text,
                "showarrow": False,
                "xanchor": anchor,
                "yanchor": "middle",
                "align": "left",
                "font": {"size": size, "color": colour or self.palette.text},
            }
        )


def _rect(x0: float, x1: float, y0: float, y1: float) -> dict[str, object]:
    return {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1}
