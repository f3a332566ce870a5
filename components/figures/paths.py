"""The ways of all tokens through the stream, seen on two axes."""

import html
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from components.figures.canvas import NARROW_WIDTH, empty_figure, translucent
from components.figures.lines import with_legend
from components.labels import axis_labels, plotly_escape
from components.theme import Palette

MOST_NAMES = 40
TEXT_SIZE = 12
_CHROME = 110
_LETTER, _LINE, _MARK = 7.5, 15, 5
_PLACES = {
    "top center": (0, 1),
    "bottom center": (0, -1),
    "middle right": (1, 0),
    "middle left": (-1, 0),
    "top right": (1, 1),
    "top left": (-1, 1),
    "bottom right": (1, -1),
    "bottom left": (-1, -1),
}


def token_paths(
    coordinates: np.ndarray,
    shares: np.ndarray,
    checkpoint_names: Sequence[str],
    tokens: Sequence[str],
    *,
    chosen: int | None,
    palette: Palette,
    title: str = "",
    height: int = 430,
) -> go.Figure:
    """The path of each real token over depth, `coordinates [checkpoint, token, 2]`, and the chosen one in full.

    `shares`, `[2]`, are the shares of the variance on the axes, NaN where there is none. Up to 40 tokens are named at
    the end of their path where their name has room; the hover names every one.

    Raises:
        ValueError: If coordinates or shares have another shape.
    """
    expected = (len(checkpoint_names), len(tokens), 2)
    if np.shape(coordinates) != expected:
        raise ValueError(f"coordinates must be [checkpoint, token, 2] = {expected}, not {np.shape(coordinates)}")
    if np.shape(shares) != (2,):
        raise ValueError(f"shares must be [2], not {list(np.shape(shares))}")
    points = np.asarray(coordinates, dtype=np.float32)
    names, stages = axis_labels(tokens), axis_labels(checkpoint_names, 24)
    ranges = [_range(points[..., axis]) for axis in (0, 1)]
    places = _places(points, names, chosen, ranges, height)

    figure = empty_figure("token_paths", palette, title=plotly_escape(title), height=height, chosen=chosen)
    figure.add_trace(_all_paths(points, palette))
    if len(stages) > 1:
        figure.add_trace(_ends(points[0], names, stages[0], "circle-open", palette))
    others = {token: place for token, place in places.items() if token != chosen}
    written = [name if token in others else "" for token, name in enumerate(names)]
    figure.add_trace(
        _ends(points[-1], names, stages[-1], "circle", palette).update(
            mode="markers+text" if others else "markers",
            text=written if others else None,
            textposition=[others.get(token, "top center") for token in range(len(names))] if others else None,
            textfont={"size": TEXT_SIZE, "color": palette.text, "shadow": _halo(palette)},
        )
    )
    if chosen is not None:
        figure.add_trace(_chosen_path(points[:, chosen], names[chosen], stages, places.get(chosen), palette))
    axes = {
        axis: {"title": {"text": f"{which} axis · {_percent(share)}"}, "range": ends, "nticks": 6}
        for axis, which, share, ends in zip(("xaxis", "yaxis"), ("first", "second"), shares, ranges, strict=True)
    }
    figure.update_layout(axes | with_legend(title, height))
    return figure


def _all_paths(points: np.ndarray, palette: Palette) -> go.Scatter:
    """One trace for every token: a NaN parts a path from the next."""
    gap = np.full((1, *points.shape[1:]), np.nan, dtype=np.float32)
    paths = np.concatenate([points, gap]).transpose(1, 0, 2).reshape(-1, 2)  # [token * (checkpoint + 1), 2]
    return go.Scatter(
        x=paths[:, 0],
        y=paths[:, 1],
        mode="lines",
        line={"color": translucent(palette.padding, 0.8 if points.shape[1] <= MOST_NAMES else 0.45), "width": 1},
        hoverinfo="skip",
        name="path of a token",
    )


def _ends(points: np.ndarray, names: Sequence[str], stage: str, symbol: str, palette: Palette) -> go.Scatter:
    few = len(names) <= MOST_NAMES
    return go.Scatter(
        x=points[:, 0],
        y=points[:, 1],
        mode="markers",
        marker={"symbol": symbol, "size": 7 if few else 4, "color": palette.muted},
        hovertext=[f"<b>\u2068{name}\u2069</b>, {stage}" for name in names],
        hoverinfo="text",
        name=f"at {stage}",
    )


def _chosen_path(path: np.ndarray, name: str, stages: Sequence[str], place: str | None, palette: Palette) -> go.Scatter:
    last = len(stages) - 1
    return go.Scatter(
        x=path[:, 0],
        y=path[:, 1],
        mode="lines+markers+text",
        line={"color": palette.accent, "width": 3},
        marker={
            "color": palette.accent,
            "symbol": ["circle-open" if i == 0 < last else "circle" for i in range(last + 1)],
            "size": [11 if i in (0, last) else 6 for i in range(last + 1)],
            "line": {"width": [2 if i == 0 < last else 0 for i in range(last + 1)]},
        },
        text=[""] * last + [f"<b>{name}</b>"],
        textposition=place or "top center",
        textfont={"size": TEXT_SIZE + 1, "color": palette.accent, "shadow": _halo(palette)},
        hovertext=[f"<b>\u2068{name}\u2069</b>, {stage}" for stage in stages],
        hoverinfo="text",
        name=name,
    )


def _percent(share: float) -> str:
    return "no variance" if np.isnan(share) else f"{100 * share:.1f} % of the variance"


def _range(values: np.ndarray) -> tuple[float, float]:
    """From the smallest to the largest, and room for names beyond."""
    known = values[np.isfinite(values)].astype(float)
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    room = 0.1 * (high - low) or 1.0
    return low - room, high + room


def _halo(palette: Palette) -> str:
    """A shadow on all sides in the colour of the page, so that a name reads over lines."""
    return ", ".join([f"0 0 3px {palette.background}"] * 4)


def _places(
    points: np.ndarray, names: Sequence[str], chosen: int | None, ranges: Sequence[tuple[float, float]], height: int
) -> dict[int, str]:
    """On which side of its end each name stands in a narrow figure: over no other name, no end, no chosen path.

    A name without such a side is left out, and among many tokens all but the chosen one's, which is placed first.
    """
    size = np.array([NARROW_WIDTH, height - _CHROME], dtype=float)
    low, high = np.array(ranges).T
    pixels = (points - low) / (high - low) * size  # [checkpoint, token, 2], from the lower left corner
    marks = [*pixels[[0, -1]].reshape(-1, 2)]
    if chosen is not None:
        steps = np.linspace(0, 1, 12)[:, None, None]
        way = pixels[:, chosen]
        marks += [*(way[:-1] * (1 - steps) + way[1:] * steps).reshape(-1, 2)]
    taken = np.array(marks)[:, None, :] + np.array([[-_MARK], [_MARK]])  # [box, (lower, upper), 2]
    places: dict[int, str] = {}
    for token in sorted(range(len(names)), key=lambda token: token != chosen):
        if token != chosen and len(names) > MOST_NAMES:
            break
        half = np.array([_LETTER * _length(names[token]), _LINE]) / 2
        for place, side in _PLACES.items():
            centre = pixels[-1, token] + np.array(side) * (half + _MARK)
            box = np.array([centre - half, centre + half])
            inside = (box[0] >= 0).all() and (box[1] <= size).all()  # false for NaN
            if inside and not ((box[0] < taken[:, 1]) & (box[1] > taken[:, 0])).all(axis=1).any():
                places[token] = place
                taken = np.concatenate([taken, box[None]])
                break
    return places


def _length(label: str) -> int:
    """Characters as drawn: an entity such as &lt; is one."""
    return len(html.unescape(label))
