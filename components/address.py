"""The state of the page as an address: every control's value, read from a link and written back to it.

Streamlit can bind a widget to a query parameter, but not where bounds depend on another control: a slider whose maximum
changes takes the link's value again or raises, and a hidden control drops out of the link. So one table says what each
parameter may be, and this module reads, keeps and writes them all.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from explorer.config import CLASSROOM, LIMITS
from explorer.precision import PRECISIONS
from explorer.stats.heads import SCORES
from explorer.stats.layernorm import MISTAKES
from explorer.stats.masking import WAYS
from explorer.stats.rollout import SUMS
from explorer.tape import SITES
from explorer.weights.seeded import MAX_SEED

DEFAULT_TEXT: Final = "The animal didn't cross the street because it was too tired.\nThe street was too wide."
MAX_CHARACTERS: Final = 20_000
MAX_PACKED: Final = 8 * MAX_CHARACTERS
"""Of what fixes a run, in one parameter: a character of the text may need six there."""
MAX_PAD: Final = 512
MAX_WIDTH: Final = 1024
MAX_FF: Final = 4096


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a query parameter means. `parse` raises ValueError for what it may not be."""

    default: Any
    parse: Callable[[str], Any]


def encode(value: Any) -> str:
    """A value as it stands in the address: `true`, `false`, a number, a word, `3.5` for a pair, `3.5_4.0` for pairs."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and (not value or isinstance(value[0], tuple)):
        return "_".join(encode(pair) for pair in value)
    if isinstance(value, tuple):
        return ".".join(str(part) for part in value)
    return str(value)


def _one_of(*options: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        if raw not in options:
            raise ValueError(raw)
        return raw

    return parse


def _between(low: int, high: int) -> Callable[[str], int]:
    def parse(raw: str) -> int:
        if not (raw.isascii() and raw.isdigit() and len(raw) <= 12 and low <= int(raw) <= high):
            raise ValueError(raw)
        return int(raw)

    return parse


def _switch(raw: str) -> bool:
    return _one_of("true", "1", "false", "0")(raw.lower()) in ("true", "1")


def _pair(raw: str) -> tuple[int, int]:
    first, second = raw.split(".")
    count = _between(0, 1023)
    return count(first), count(second)


def _pairs(raw: str) -> tuple[tuple[int, int], ...]:
    if len(raw) > MAX_CHARACTERS:
        raise ValueError(raw)
    return tuple(sorted({_pair(pair) for pair in raw.split("_")})) if raw else ()


def _text(raw: str) -> str:
    if len(raw) > MAX_CHARACTERS:
        raise ValueError(raw)
    raw.encode()  # half a character, which JSON can hold and an address cannot, is a ValueError
    return raw


def _settings(raw: str) -> str:
    return pack_settings(read_settings(raw)) if raw else ""


PARAMETERS: Final[dict[str, Parameter]] = {
    "source": Parameter("minilm", _one_of("minilm", "minilm-preln", "built", "lab")),
    "text": Parameter(DEFAULT_TEXT, _text),
    "layers": Parameter(0, _between(*LIMITS["n_layers"])),  # 0: as many as the source has by itself
    "heads": Parameter(CLASSROOM.n_heads, _between(1, MAX_WIDTH)),
    "d_model": Parameter(CLASSROOM.d_model, _between(1, MAX_WIDTH)),
    "d_ff": Parameter(CLASSROOM.d_ff, _between(1, MAX_FF)),
    "activation": Parameter(CLASSROOM.activation, _one_of("relu", "gelu", "silu")),
    "norm": Parameter(CLASSROOM.norm_placement, _one_of("post", "pre")),
    "positions": Parameter(CLASSROOM.positions, _one_of("sinusoidal", "learned", "none")),
    "final_norm": Parameter("auto", _one_of("auto", "true", "false")),
    "init": Parameter("xavier", _one_of("xavier", "normal")),
    "seed": Parameter(0, _between(0, MAX_SEED)),
    "pad_to": Parameter(0, _between(0, MAX_PAD)),
    "pad_side": Parameter("right", _one_of("right", "left")),
    "mask": Parameter(True, _switch),
    "causal": Parameter(False, _switch),
    "device": Parameter("auto", _one_of("auto", "cpu", "cuda", "mps")),
    "precision": Parameter("float32", _one_of(*PRECISIONS)),
    "beside": Parameter(False, _switch),
    "a": Parameter("", _settings),  # the settings of the run that is kept as A; empty: there is none
    "view": Parameter(
        "attention",
        _one_of("attention", "layernorm", "residual", "shapes", "padding", "proof", "laboratory", "compare"),
    ),
    "sentence": Parameter(0, _between(0, 9_999)),
    "sel": Parameter((3, 1), _pair),
    "token": Parameter(10, _between(0, 9_999)),
    "show": Parameter("map", _one_of("map", "lines", "token", "sums", "queries", "ablation")),
    "units": Parameter("tokens", _one_of("tokens", "words")),
    "special": Parameter("shown", _one_of("shown", "hidden", "renormalised")),
    "pair": Parameter("all", _one_of("all", "aa", "ab", "ba", "bb")),
    "score": Parameter("none", _one_of("none", *SCORES)),
    "sum": Parameter("rollout", _one_of(*SUMS)),
    "off": Parameter((), _pairs),
    "scale": Parameter("linear", _one_of("linear", "sqrt", "log")),
    "table": Parameter("queries", _one_of("queries", "heads")),
    "quantity": Parameter(
        "std_in",
        _one_of(
            *(f"{what}_{side}" for side in ("in", "normalised", "out") for what in ("std", "mean")),
            "var_in",
            "eps_share",
        ),
    ),
    "norm_show": Parameter("tokens", _one_of("tokens", "token", "distribution", "parameters", "batchnorm", "mistakes")),
    "norm_at": Parameter("norm2", _one_of("embed", "norm1", "norm2", "final")),
    "mistake": Parameter("all", _one_of("all", *MISTAKES)),
    "stream": Parameter("norm", _one_of("norm", "turned", "added", "added_cosine")),
    "stream_show": Parameter("growth", _one_of("growth", "directions", "token", "checkpoint", "paths", "sentences")),
    "point": Parameter("post", _one_of("pre", "mid", "post", "final")),
    "pooling": Parameter("mean", _one_of("mean", "cls")),
    "stream_pair": Parameter("map", _one_of("map", "distance", "growth")),
    "pair_show": Parameter("summary", _one_of("summary", "outputs")),
    "pair_table": Parameter("heads", _one_of("heads", "tokens", "settings")),
    "shape_show": Parameter("cost", _one_of("cost", "growth", "tensor", "parameters")),
    "site": Parameter("attn.pattern", _one_of(*(site.removeprefix("layers.*.") for site in SITES), "token_ids")),
    "grow": Parameter("length", _one_of("length", "width", "depth")),
    "pad_show": Parameter("ways", _one_of("ways", "maps", "mask", "batch", "pooling")),
    "padded_to": Parameter(0, _between(0, MAX_PAD)),  # 0: a width that shows some padding
    "padded_side": Parameter("right", _one_of("right", "left")),
    "hide": Parameter(next(iter(WAYS)), _one_of(*WAYS)),
    "lab": Parameter("gradients", _one_of("gradients", "learn", "race")),
    "task": Parameter("reverse", _one_of("reverse", "copy", "shift")),
    "lab_norm": Parameter("post", _one_of("post", "pre")),
    "rate": Parameter("0.003", _one_of("0.003", "0.001", "0.0003")),
    "warm_up": Parameter("0", _one_of("0", "50", "100")),
    "lab_init": Parameter("xavier", _one_of("xavier", "normal")),
    "cost": Parameter("flops", _one_of("flops", "bytes", "parameters")),
}
"""Every query parameter, and so every control: key -> default and what it may be. A default is left out of the link."""


SETTINGS: Final = (
    *("source", "text", "layers", "heads", "d_model", "d_ff", "activation", "norm", "positions", "final_norm", "init"),
    *("seed", "pad_to", "pad_side", "mask", "causal", "device", "precision", "off"),
)
"""The parameters that fix a run, and those that fix what would be built if another source were chosen."""
NUMBER: Final = "number"
"""Beside them the number of an encoder that was trained in the laboratory, where that is the source."""


def pack_settings(values: Mapping[str, Any]) -> str:
    """What fixes a run, as one parameter: the source, and what differs from its default."""
    kept = {key: encode(values[key]) for key in SETTINGS if values[key] != PARAMETERS[key].default}
    number = {NUMBER: str(values[NUMBER])} if values["source"] == "lab" else {}
    return json.dumps({"source": values["source"]} | kept | number, ensure_ascii=False, separators=(",", ":"))


def read_settings(raw: str) -> dict[str, Any]:
    """What `pack_settings` packed, defaults filled in: a value for each of `SETTINGS`, and the number.

    Raises:
        ValueError: If it is anything else.
    """
    if len(raw) > MAX_PACKED:
        raise ValueError(raw)
    try:
        asked = json.loads(raw)
    except RecursionError as error:
        raise ValueError(raw) from error
    if not isinstance(asked, dict) or not all(isinstance(value, str) for value in asked.values()):
        raise ValueError(raw)
    lab = asked.get("source") == "lab"
    if "source" not in asked or (NUMBER in asked) != lab or not asked.keys() <= {*SETTINGS, NUMBER}:
        raise ValueError(raw)
    number = {NUMBER: _between(0, 10**9)(asked.pop(NUMBER))} if lab else {}
    defaults = {key: PARAMETERS[key].default for key in SETTINGS}
    return defaults | {key: PARAMETERS[key].parse(value) for key, value in asked.items()} | number


def read(query: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The values that an address asks for, and the keys whose value it may not have. Unknown keys are ignored."""
    values, refused = {}, []
    for key, parameter in PARAMETERS.items():
        values[key] = parameter.default
        if key in query:
            try:
                values[key] = parameter.parse(query[key])
            except ValueError:
                refused.append(key)
    return values, refused


def write(values: dict[str, Any]) -> dict[str, str]:
    """The address of these values: what differs from the default, in a fixed order."""
    return {key: encode(values[key]) for key, parameter in PARAMETERS.items() if values[key] != parameter.default}
