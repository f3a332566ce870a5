"""Light and dark: the page and its figures change together, and both read well."""

from collections.abc import Callable

import pytest

from components.theme import DARK, LIGHT
from tests.browser.reader import MATRIX, Reader
from tests.browser.server import Server

pytestmark = pytest.mark.browser

APP = "[data-testid=stApp]"
LINK = {"source": "built", "layers": "2", "heads": "2", "d_model": "8", "pad_to": "20"}

LETTERS = f"""(colour) => {{
  const canvas = ({MATRIX})("head");
  const probe = document.createElement("i");
  probe.style.color = colour;
  document.body.append(probe);
  const wanted = getComputedStyle(probe).color;
  probe.remove();
  return getComputedStyle(canvas).color === wanted;
}}"""


def rgb(colour: str) -> tuple[int, int, int]:
    """`#rrggbb` as numbers."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def luminance(colour: tuple[int, int, int]) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def reads_well(reader: Reader) -> None:
    """All text on the page stands out from what is behind it."""
    page = reader.colour(APP, "backgroundColor")
    sidebar = reader.colour("[data-testid=stSidebar]", "backgroundColor")
    assert contrast(reader.letters, page) >= 7
    for selector, back, least in (
        (".status", page, 7),
        (".batch .word", page, 7),
        (".batch .special", page, 4.5),
        (".batch .pad", page, 4.5),
        (".st-key-head .caption span", page, 7),
        (".name", sidebar, 7),
        ("[data-testid=stSidebar] label p", sidebar, 4.5),
    ):
        name = "fill" if selector.endswith("text") else "color"
        assert contrast(reader.colour(selector, name), back) >= least, selector


@pytest.mark.parametrize(("scheme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_each_theme_reads_well(new_reader: Callable[..., Reader], scheme: str, palette: object) -> None:
    reader = new_reader(color_scheme=scheme).open(**LINK)
    reader.until(LETTERS, palette.text)
    assert reader.colour(APP, "backgroundColor") == rgb(palette.background)
    reads_well(reader)


def test_light_and_dark_differ_in_page_figure_and_canvas(new_reader: Callable[..., Reader]) -> None:
    light, dark = (new_reader(color_scheme=scheme).open(**LINK) for scheme in ("light", "dark"))
    dark.until(LETTERS, DARK.text)
    assert light.colour(APP, "backgroundColor") != dark.colour(APP, "backgroundColor")
    assert light.heatmap["font"] != dark.heatmap["font"]
    assert light.heatmap["image"] != dark.heatmap["image"]
    assert light.heatmap["z"] == dark.heatmap["z"]
    assert light.pixels() != dark.pixels()


def test_figures_follow_a_change_of_theme_without_a_pass(reader: Reader, server: Server) -> None:
    reader.open(**LINK)
    passes, pixels = server.passes, reader.pixels()
    for scheme, palette in (("dark", DARK), ("light", LIGHT)):
        reader.page.emulate_media(color_scheme=scheme)
        reader.until(LETTERS, palette.text)
        assert reader.colour(APP, "backgroundColor") == rgb(palette.background)
        reads_well(reader)
        assert (reader.pixels() == pixels) == (scheme == "light")
    assert server.passes == passes
