"""Models ready to run: an encoder with its parameters, its tokenizer, and the report of what was loaded."""

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from jaxtyping import Float32

from explorer.config import MINILM, MINILM_PRELN, EncoderConfig
from explorer.errors import ConfigError
from explorer.model import Encoder, build_encoder
from explorer.model.norms import LayerNorm
from explorer.precision import Precision, dtype_of
from explorer.text import Batch, PaddingSide, Tokenizer, WordPieceTokenizer, WordTokenizer, make_batch
from explorer.trace import to_numpy
from explorer.weights import LoadReport, draw_state, fill, load_minilm, load_twin
from explorer.weights.seeded import Initialisation

Norm = Literal["embed", "norm1", "norm2", "final"]

TRAINED: Final[dict[str, tuple[EncoderConfig, Callable[[], tuple[Encoder, Path, LoadReport]]]]] = {
    "minilm": (MINILM, load_minilm),
    "minilm-preln": (MINILM_PRELN, load_twin),
}
"""The trained encoders by name: their architecture, and what reads them."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """An encoder on the CPU in eval mode, and what belongs to it. Safe to share between threads."""

    config: EncoderConfig
    encoder: Encoder
    tokenizer: Tokenizer
    report: LoadReport
    _whole: "Model | None" = field(default=None, repr=False)
    _copies: dict[tuple[str, str], Encoder] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def batch(self, sentences: Sequence[str], pad_to: int | None = None, padding_side: PaddingSide = "right") -> Batch:
        """The sentences as this encoder reads them: see `explorer.text.make_batch`."""
        return make_batch(
            sentences, self.tokenizer, max_len=self.config.max_len, pad_to=pad_to, padding_side=padding_side
        )

    def on(self, device: str, precision: Precision = "float32") -> Encoder:
        """The encoder on that device, in that precision: itself on the CPU in float32, else a copy that is made once.

        Every parameter, and every buffer of floats such as a table of positions, is the float32 one, rounded.

        Raises:
            ConfigError: If there is no such precision.
        """
        dtype = dtype_of(precision)
        if (device, precision) == ("cpu", "float32"):
            return self.encoder
        with self._lock:
            if (device, precision) not in self._copies:
                self._copies[device, precision] = self._copy(device, precision, dtype)
            return self._copies[device, precision]

    def _copy(self, device: str, precision: Precision, dtype: torch.dtype) -> Encoder:
        if self._whole is not None:  # the first layers share a copy's parameters too
            return self._whole.on(device, precision).first(self.config.n_layers)
        return copy.deepcopy(self.encoder).to(device=device, dtype=dtype)

    def norm_parameters(
        self, name: Norm, layer: int | None = None, precision: Precision = "float32"
    ) -> tuple[Float32[np.ndarray, " d_model"], Float32[np.ndarray, " d_model"], float]:
        """gamma, beta and eps of one LayerNorm: `norm1` or `norm2` of a layer, `embed` or `final` without one.

        Fresh ones are all 1 and all 0. Where the architecture has no bias, beta is 0. They are those of the encoder in
        this precision, as float32 arrays, read-only.

        Raises:
            KeyError: If this architecture has no such norm.
            IndexError: If there is no such layer.
        """
        norm = self._norm(self.on("cpu", precision), name, layer)
        gamma = to_numpy(norm.weight)
        beta = np.zeros_like(gamma) if norm.bias is None else to_numpy(norm.bias)
        beta.flags.writeable = False
        return gamma, beta, norm.eps

    def _norm(self, encoder: Encoder, name: Norm, layer: int | None) -> LayerNorm:
        if (name in ("norm1", "norm2")) != (layer is not None):
            raise KeyError(
                f"norm1 and norm2 belong to a layer, embed and final do not; asked for {name} of layer {layer}"
            )
        if layer is not None:
            if not 0 <= layer < self.config.n_layers:
                raise IndexError(f"layer {layer} does not exist; there are layers 0 to {self.config.n_layers - 1}")
            return getattr(encoder.layers[layer], name)
        norm = {"embed": encoder.embed.norm, "final": encoder.final_norm}.get(name)
        if norm is None:
            raise KeyError(f"this architecture has no norm {name!r}")
        return norm

    def first_layers(self, n_layers: int) -> "Model":
        """The same model, run only through its first n layers. It shares all parameters.

        Raises:
            ConfigError: If it does not have that many layers.
        """
        if not 1 <= n_layers <= self.config.n_layers:
            nearest = min(max(n_layers, 1), self.config.n_layers)
            raise ConfigError(
                f"n_layers ({n_layers}) must lie between 1 and {self.config.n_layers}, "
                f"the layers this encoder has; nearest: {nearest}"
            )
        if n_layers == self.config.n_layers:
            return self
        encoder = self.encoder.first(n_layers)
        n_parameters = sum(parameter.numel() for parameter in encoder.parameters())
        return Model(
            config=replace(self.config, n_layers=n_layers),
            encoder=encoder,
            tokenizer=self.tokenizer,
            report=replace(self.report, n_parameters=n_parameters),
            _whole=self,
        )


def build(config: EncoderConfig, *, seed: int = 0, init: Initialisation = "xavier") -> Model:
    """An untrained encoder of any architecture, with seeded parameters and the word-level tokenizer."""
    encoder = build_encoder(config)
    n_parameters = fill(encoder, draw_state(config, seed=seed, init=init))
    report = LoadReport(
        source=f"Untrained: random weights drawn from seed {seed}.", trained=False, n_parameters=n_parameters
    )
    return Model(config=config, encoder=encoder, tokenizer=WordTokenizer(config.vocab_size), report=report)


def load(name: str) -> Model:
    """A trained encoder by name. `minilm` is all-MiniLM-L6-v2; `minilm-preln` is its Pre-LN twin, distilled from it.

    Raises:
        ConfigError: If there is no encoder of that name.
        WeightsError: If its files cannot be had or are not the published ones. The message says how to get them.
    """
    if name not in TRAINED:
        raise ConfigError(f"there is no trained encoder {name!r}; there is: {', '.join(TRAINED)}")
    config, read = TRAINED[name]
    encoder, tokenizer_path, report = read()
    return Model(config=config, encoder=encoder, tokenizer=WordPieceTokenizer(tokenizer_path), report=report)
