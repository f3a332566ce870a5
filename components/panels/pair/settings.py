"""What the requests of two runs ask for, in words."""

from itertools import takewhile
from typing import Final

import pandas as pd

from components.controls import ACTIVATIONS, DIRECTIONS, INITIALISATIONS, PLACEMENTS, POSITIONS, SIDES
from components.labels import ELLIPSIS, shorten, visible
from components.page import NAMES
from components.panels.pair.two import Two
from components.request import Request
from components.theme import format_number
from explorer.text import sentences_of

MOST_LETTERS: Final = 60
BEFORE: Final = 3
"""Words of a long text that are shown before the first that differs."""


def settings_table(two: Two) -> pd.DataFrame:
    """One row a setting that differs: its name, and what each run has. Of long texts the part where they differ."""
    a, b = (words(look.answer.request) for look in (two.a, two.b))
    rows = [(name, *_where_they_differ(a[name], b[name])) for name in a if a[name] != b[name]]
    return pd.DataFrame(rows, columns=["setting", "setting_a", "setting_b"])


def words(request: Request) -> dict[str, str]:
    """Every setting of a request: name and value, as the controls call them."""
    config = request.config
    weights = {
        "built": f"{INITIALISATIONS[request.init]}, seed {request.seed}",
        "lab": f"trained here, number {request.seed}",
    }.get(request.source, "trained")
    return {
        "Encoder": NAMES[request.source],
        "Text": f"“{' / '.join(visible(sentence) for _, sentence in sentences_of(request.text))}”",
        "Layers": str(config.n_layers),
        "Heads": str(config.n_heads),
        "Norm placement": PLACEMENTS[config.norm_placement],
        "Model width": format_number(config.d_model),
        "Feed-forward width": format_number(config.d_ff),
        "Activation": ACTIVATIONS[config.activation],
        "Final norm": "on" if config.final_norm else "off",
        "Positions": POSITIONS[config.positions],
        "Weights": weights,
        "Pad to": f"{request.pad_to} tokens" if request.pad_to else "the longest sentence",
        "Padding side": SIDES[request.pad_side].lower(),
        "Padding": "hidden by the mask" if request.mask else "not hidden",
        "Attention": DIRECTIONS[request.causal].lower(),
        "Device": request.device.upper(),
        "Numbers": request.precision,
        "Heads off": ", ".join(f"L{layer} H{head}" for layer, head in request.off) or "none",
    }


def _where_they_differ(*texts: str) -> tuple[str, ...]:
    """The texts, or of each what comes around the first word that differs, where one is too long to be shown whole."""
    if max(len(text) for text in texts) <= MOST_LETTERS:
        return texts
    parts = [text.split(" ") for text in texts]
    same = sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*parts, strict=False)))
    start = max(same - BEFORE, 0)
    return tuple(shorten(" ".join([ELLIPSIS][: bool(start)] + part[start:]), MOST_LETTERS) for part in parts)
