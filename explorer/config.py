"""The architecture of an encoder, as one frozen value."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from explorer.errors import ConfigError

NormPlacement = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "silu"]
Positions = Literal["sinusoidal", "learned", "none"]

LIMITS = {
    "n_layers": (1, 24),
    "n_heads": (1, 1024),
    "d_model": (1, 2048),
    "d_ff": (1, 8192),
    "max_len": (2, 4096),
    "n_segments": (0, 16),
    "vocab_size": (4, 1_000_000),
}
"""Smallest and largest value of each count and width. `n_heads` must also divide `d_model`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """Everything that fixes an encoder but its parameters. The defaults are the classroom preset.

    `final_norm` None means "what the placement asks for": on for Pre-LN, whose stream is never normalised on
    the way, and off for Post-LN, whose last step already is a LayerNorm. It is a bool once built, so to flip the
    placement of a config write `replace(config, norm_placement="pre", final_norm=None)`.

    `vocab_size` None means an open vocabulary: every token id has a vector of its own, drawn from the seed and
    the id, and no table is stored. A number means a table with that many rows.

    Raises:
        ConfigError: If a value breaks a rule. The message names the rule, the value and the nearest good value.
    """

    n_layers: int = 4
    n_heads: int = 4
    d_model: int = 128
    d_ff: int = 512
    norm_placement: NormPlacement = "post"
    activation: Activation = "relu"
    positions: Positions = "sinusoidal"
    scale_embeddings: bool = True
    final_norm: bool | None = None
    bias: bool = True
    norm_eps: float = 1e-5
    embedding_norm: bool = False
    n_segments: int = 0
    max_len: int = 512
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            if not (name == "vocab_size" and self.vocab_size is None):
                check_count(name, getattr(self, name), low, high)
        check_option("norm_placement", self.norm_placement, get_args(NormPlacement))
        check_option("activation", self.activation, get_args(Activation))
        check_option("positions", self.positions, get_args(Positions))
        for name in ("scale_embeddings", "bias", "embedding_norm"):
            _check_bool(name, getattr(self, name))
        if self.final_norm is None:
            object.__setattr__(self, "final_norm", self.norm_placement == "pre")
        _check_bool("final_norm", self.final_norm)
        if self.d_model % self.n_heads:
            heads = nearest_divisor(self.d_model, self.n_heads)
            width = _nearest_multiple(self.n_heads, self.d_model, LIMITS["d_model"][1])
            raise ConfigError(
                f"n_heads ({self.n_heads}) must divide d_model ({self.d_model}); "
                f"nearest: n_heads {heads}, or d_model {width}"
            )
        if isinstance(self.norm_eps, bool) or not isinstance(self.norm_eps, int | float):
            raise ConfigError(f"norm_eps must be a number, not {self.norm_eps!r}; usual: 1e-05")
        if not 0 < self.norm_eps < 1:  # also refuses NaN and infinity
            raise ConfigError(f"norm_eps ({self.norm_eps}) must lie between 0 and 1, both excluded; usual: 1e-05")

    @property
    def d_head(self) -> int:
        """Width of one head: d_model / n_heads."""
        return self.d_model // self.n_heads


def divisors(n: int) -> list[int]:
    """The numbers of heads that a width allows, smallest first. `divisors(8)` is `[1, 2, 4, 8]`."""
    return [i for i in range(1, n + 1) if n % i == 0]


def nearest_divisor(n: int, wanted: int) -> int:
    """The divisor of n nearest to the wanted value; the smaller one on a tie."""
    return min(divisors(n), key=lambda d: (abs(d - wanted), d))


def _nearest_multiple(factor: int, wanted: int, most: int) -> int:
    nearest = max(1, round(wanted / factor)) * factor
    return nearest if nearest <= most else most // factor * factor


def check_count(name: str, value: Any, low: int, high: int) -> None:
    """Refuses what is not a whole number from low to high.

    Raises:
        ConfigError: The message names the rule, the value and the nearest good value.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number from {low} to {high:,}, not {value!r}")
    if not low <= value <= high:
        nearest = min(max(value, low), high)
        raise ConfigError(f"{name} ({value:,}) must lie between {low} and {high:,}; nearest: {nearest:,}")


def check_option(name: str, value: Any, options: tuple[str, ...]) -> None:
    """Refuses what is none of the options.

    Raises:
        ConfigError: The message names the options, the value and the usual one.
    """
    if value not in options:
        raise ConfigError(f"{name} must be one of {', '.join(options)}, not {value!r}; usual: {options[0]}")


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {value!r}")


CLASSROOM = EncoderConfig()
"""Small and fast, wide enough for heads to differ."""

PAPER_BASE = EncoderConfig(n_layers=6, n_heads=8, d_model=512, d_ff=2048)
"""The base encoder of Vaswani et al. 2017, table 3: ReLU, Post-LN, sinusoidal positions, scaled embeddings."""

BERT_BASE = EncoderConfig(
    n_layers=12,
    n_heads=12,
    d_model=768,
    d_ff=3072,
    activation="gelu",
    positions="learned",
    scale_embeddings=False,
    embedding_norm=True,
    n_segments=2,
    norm_eps=1e-12,
)
"""The shape of BERT base, Devlin et al. 2019, section 3. Shape only: no trained weights come with it."""

MINILM = replace(BERT_BASE, n_layers=6, d_model=384, d_ff=1536, vocab_size=30_522)
"""The published encoder all-MiniLM-L6-v2."""

MINILM_PRELN = replace(MINILM, norm_placement="pre", embedding_norm=False, final_norm=None)
"""Its Pre-LN twin: the same shape, but the stream starts at the raw embedding sum, and a norm follows the stack."""

PRESETS = {"classroom": CLASSROOM, "paper base": PAPER_BASE, "BERT base": BERT_BASE, "MiniLM": MINILM}
