"""Colours, the Plotly template and the one number format of the page.

Series colours start from Okabe and Ito, "Color Universal Design" (2008): hues that stay apart for
colour-blind eyes, darkened on the light page and lightened on the dark one until they read at 3:1.
"""

import math
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

Colourscale = tuple[tuple[float, str], ...]

FONT_FAMILY = '"Source Sans", "Source Sans Pro", sans-serif'
MISSING = "–"
MINUS = "−"
INFINITY = "∞"
SCIENTIFIC_BELOW, SCIENTIFIC_FROM = 1e-4, 1e7
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Every colour a figure may use, on one background.

    `sequential` is for weights from 0 to 1, `diverging` for differences around 0 (its centre is
    the surface colour), `series` for lines and bars. `padding` draws the hatch on
    `padding_surface`: cells that are not data.
    """

    kind: str
    background: str
    surface: str
    text: str
    muted: str
    grid: str
    accent: str
    padding: str
    padding_surface: str
    sequential: Colourscale
    diverging: Colourscale
    series: tuple[str, ...]


def _evenly(*colours: str) -> Colourscale:
    return tuple((i / (len(colours) - 1), colour) for i, colour in enumerate(colours))


LIGHT = Palette(
    kind="light",
    background="#ffffff",
    surface="#f5f7fa",
    text="#1b2432",
    muted="#5b6675",
    grid="#dfe4ea",
    accent="#1f5fd0",
    padding="#98a2af",
    padding_surface="#eceae6",
    sequential=_evenly("#f7f9fc", "#c6d8f3", "#7ba7e1", "#2f6cc0", "#0b2a6f"),
    diverging=_evenly("#7a3200", "#d98a45", "#f5f7fa", "#5a9bd4", "#084a85"),
    series=("#0072b2", "#c75300", "#00805d", "#a8528a", "#8a6a00", "#2f86bd"),
)

DARK = Palette(
    kind="dark",
    background="#0f141c",
    surface="#18202c",
    text="#e8edf5",
    muted="#9aa7b8",
    grid="#2b3644",
    accent="#7fb0ff",
    padding="#6d7682",
    padding_surface="#26282b",
    sequential=_evenly("#151b26", "#1f3b66", "#2f6cc0", "#7ba7e1", "#e3eeff"),
    diverging=_evenly("#ffc08a", "#b5692c", "#18202c", "#3d78b8", "#a9d2ff"),
    series=("#56b4e9", "#e69f00", "#2fbf97", "#dd8fba", "#f0e442", "#ff8a4c"),
)


def palette(kind: str) -> Palette:
    """The dark palette for "dark", the light one for every other word."""
    return DARK if kind == "dark" else LIGHT


def template(colours: Palette) -> go.layout.Template:
    """How every figure looks before it has data: transparent, small margins, no zero lines, quiet axes."""
    axis = {
        "color": colours.muted,
        "gridcolor": colours.grid,
        "linecolor": colours.grid,
        "zeroline": False,
        "title": {"font": {"color": colours.muted, "size": 13}, "standoff": 8},
        "tickfont": {"color": colours.text, "size": 12},
        "ticklabelstandoff": 4,
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT_FAMILY, "size": 14, "color": colours.text},
            "title": {
                "font": {"size": 15, "color": colours.text},
                "x": 0,
                "xanchor": "left",
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "pad": {"l": 8, "b": 10},
            },
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 8, "r": 8, "t": 34, "b": 8},
            "colorway": list(colours.series),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 13}},
            "hoverlabel": {
                "bgcolor": colours.surface,
                "bordercolor": colours.accent,
                "font": {"family": FONT_FAMILY, "size": 14, "color": colours.text},
                "align": "left",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.muted, "activecolor": colours.accent},
        }
    )


def format_number(value: float | None) -> str:
    """A number as the page writes it.

    Counts carry thousands separators and all digits; other numbers four significant digits, without
    trailing zeros: 2.828, 0.5, 12,346. Below 0.0001 and from ten million on: 1.234×10⁻⁵.
    What is not a number is "–".
    """
    if value is None:
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"a number is expected, not the truth value {value}")
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}".replace("-", MINUS)
    number = float(value)
    if math.isnan(number):
        return MISSING
    if number == 0:
        return "0"
    sign, size = (MINUS if number < 0 else ""), abs(number)
    if math.isinf(size):
        return sign + INFINITY
    # Round first: 999.96 is 1,000 and 0.000099999 is 0.0001.
    size = size if size >= 1000 else float(f"{size:.3e}")
    if size < SCIENTIFIC_BELOW or size >= SCIENTIFIC_FROM:
        mantissa, exponent = f"{size:.3e}".split("e")
        return f"{sign}{_trimmed(mantissa)}×10{str(int(exponent)).translate(SUPERSCRIPT)}"
    if size >= 1000:
        return f"{sign}{size:,.0f}"
    decimals = 3 - math.floor(math.log10(size))
    return sign + _trimmed(f"{size:.{decimals}f}")


def _trimmed(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def format_bytes(size: int) -> str:
    """A number of bytes in the largest unit that leaves at least 1, in steps of 1,000: 151 MB."""
    amount, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while abs(amount) >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{format_number(float(f'{amount:.3g}'))} {units[0]}"


def format_seconds(seconds: float) -> str:
    """A duration with three significant digits, in milliseconds below one second: 12.3 ms, 1.23 s."""
    amount, unit = (seconds * 1000, "ms") if 0 < abs(seconds) < 0.9995 else (seconds, "s")
    return f"{format_number(float(f'{amount:.3g}'))} {unit}"
