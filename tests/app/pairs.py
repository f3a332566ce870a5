"""Two runs on the page, and the same two made by the engine from the address alone."""

from functools import lru_cache
from typing import Any

import numpy as np

import explorer
from components.address import SETTINGS, encode, pack_settings, read, read_settings
from explorer.comparison import Comparison, compare
from tests.app.page import SMALL, Page

TEXT = ["one two three", "four"]
LINK = SMALL | {"text": "\n".join(TEXT)}
"""Sentences of 5 and of 3 tokens: the second is padded."""


def kept(**link: str) -> Page:
    """A page at this address, whose run is kept as A. Opened, not pressed: other views may be asked for then."""
    values, refused = read(LINK | link)
    assert not refused
    return Page(**(LINK | link), a=pack_settings(values)).ok()


def made(settings: dict[str, Any]) -> tuple[explorer.Model, explorer.Run]:
    """Encoder and run of these settings, without the page."""
    return _made(tuple((key, settings[key]) for key in SETTINGS))


@lru_cache(maxsize=64)
def _made(settings: tuple[tuple[str, Any], ...]) -> tuple[explorer.Model, explorer.Run]:
    asked = dict(settings)
    if asked["source"] == "built":
        config = explorer.EncoderConfig(
            n_layers=asked["layers"] or 4,
            n_heads=asked["heads"],
            d_model=asked["d_model"],
            d_ff=asked["d_ff"],
            activation=asked["activation"],
            norm_placement=asked["norm"],
            positions=asked["positions"],
            final_norm={"auto": None, "true": True, "false": False}[asked["final_norm"]],
        )
        model = explorer.build(config, seed=asked["seed"], init=asked["init"])
    else:
        model = explorer.load(asked["source"])
        model = model.first_layers(asked["layers"] or model.config.n_layers)
    batch = model.batch(
        [line.strip() for line in asked["text"].split("\n") if line.strip()],
        pad_to=asked["pad_to"] or None,
        padding_side=asked["pad_side"],
    )
    n_layers, n_heads = model.config.n_layers, model.config.n_heads
    run = explorer.run(
        model,
        batch,
        use_mask=asked["mask"],
        causal=asked["causal"],
        precision=asked["precision"],
        heads_off=[(layer, head) for layer, head in asked["off"] if layer < n_layers and head < n_heads],
    )
    return model, run


def settings_of_a(page: Page) -> dict[str, Any]:
    """What the address says of A."""
    return read_settings(page.link["a"])


def settings_of_b(page: Page) -> dict[str, Any]:
    """What the address says of B: the controls."""
    values, refused = read(page.link)
    assert not refused
    return values


def link_of_a(page: Page) -> dict[str, str]:
    """A link to A's run alone."""
    return {key: encode(value) for key, value in settings_of_a(page).items() if (key, value) != ("layers", 0)}


def compared(page: Page, *, sentence_a: int | None = None) -> Comparison:
    """The two runs of this page, by the engine. In A the sentence of the same number, if no other is named."""
    sentence = int(page.link.get("sentence", 0))
    a, b = made(settings_of_a(page))[1], made(settings_of_b(page))[1]
    return compare(a, b, sentence_a=sentence if sentence_a is None else sentence_a, sentence_b=sentence)


def holds(page: Page, key: str, expected: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Asserts that the three pictures have these numbers, A and B one scale, and the difference one even around 0."""
    drawn = page.three(key)
    for picture, values in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(picture["z"], np.asarray(values, dtype=np.float32))
    a, b, difference = drawn
    assert [a[name] for name in ("low", "high", "floor")] == [b[name] for name in ("low", "high", "floor")]
    assert page.announced(f"{key}_a")["scale"] == page.announced(f"{key}_b")["scale"]
    assert difference["low"] == -difference["high"]
    assert page.announced(f"{key}_difference")["scale"] == "linear"
    assert a["rows"] == b["rows"] == difference["rows"]
    assert a["cols"] == b["cols"] == difference["cols"]


def subtracted(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both and their difference, `[slot, dimension]`. Where one is wider nothing is subtracted."""
    width = max(a.shape[1], b.shape[1])
    wide_a, wide_b = (np.pad(v, ((0, 0), (0, width - v.shape[1])), constant_values=np.nan) for v in (a, b))
    return wide_a, wide_b, wide_b - wide_a if a.shape == b.shape else np.full(wide_a.shape, np.nan)


def numbers_in(page: Page) -> np.ndarray:
    """Every number of the table on the page, in one row."""
    return page.at.dataframe[0].value.select_dtypes("number").to_numpy(dtype=float, na_value=np.nan).ravel()
