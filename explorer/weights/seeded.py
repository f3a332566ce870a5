"""Seeded initialisation: untrained parameters that are the same on every machine."""

import math
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor

from explorer.config import EncoderConfig
from explorer.errors import ConfigError

Initialisation = Literal["xavier", "normal"]
INITIALISATIONS: Final[tuple[Initialisation, ...]] = ("xavier", "normal")

NORMAL_STD: Final = 0.02
MAX_SEED: Final = 2**32 - 1


def draw_state(config: EncoderConfig, *, seed: int = 0, init: Initialisation = "xavier") -> dict[str, Tensor]:
    """All parameters of a fresh encoder, drawn on the CPU from private generators.

    Each layer has a generator of its own, so layers differ, and layer 2 of seed 0 is the same whether the stack has 3
    layers or 24. `xavier` draws each projection (q, k and v apart) uniformly within sqrt(6 / (fan_in + fan_out)) and
    vectors of tokens, positions and segments with standard deviation 1 / sqrt(d_model). `normal` draws everything
    with standard deviation 0.02. Biases and beta are 0, gamma is 1.

    Raises:
        ConfigError: If the seed is not a whole number from 0 to 4,294,967,295, or the initialisation is unknown.

    Source: Glorot and Bengio 2010, equation 16; Devlin et al. 2019 for normal(0, 0.02).
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise ConfigError(f"seed must be a whole number from 0 to {MAX_SEED:,}, not {seed!r}; usual: 0")
    if init not in INITIALISATIONS:
        raise ConfigError(f"init must be one of {', '.join(INITIALISATIONS)}, not {init!r}; usual: xavier")

    state = _draw_embeddings(config, private_generator(seed, 0), init)
    if config.vocab_size is None:
        state["embed.tokens.seed"] = torch.tensor(seed)
        state["embed.tokens.std"] = torch.tensor(vector_std(config, init))
    for layer in range(config.n_layers):
        drawn = _draw_layer(config, private_generator(seed, 1 + layer), init)
        state |= {f"layers.{layer}.{name}": value for name, value in drawn.items()}
    if config.final_norm:
        state |= _norm("final_norm", config)
    return state


def private_generator(seed: int, stream: int) -> torch.Generator:
    """A generator of its own for each pair. 0 draws the embeddings, 1 and up the layers; from 100 on they are free."""
    mixed = np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(mixed) >> 1)  # torch takes 63 bits


def _draw_embeddings(config: EncoderConfig, generator: torch.Generator, init: Initialisation) -> dict[str, Tensor]:
    rows = {
        "tokens": config.vocab_size or 0,
        "positions": config.max_len if config.positions == "learned" else 0,
        "segments": config.n_segments,
    }
    std = vector_std(config, init)
    state = {
        f"embed.{name}.weight": torch.empty(n_rows, config.d_model).normal_(0, std, generator=generator)
        for name, n_rows in rows.items()
        if n_rows
    }
    return state | _norm("embed.norm", config) if config.embedding_norm else state


def _draw_layer(config: EncoderConfig, generator: torch.Generator, init: Initialisation) -> dict[str, Tensor]:
    d_model, d_ff = config.d_model, config.d_ff

    def matrix(n_out: int, n_in: int) -> Tensor:
        if init == "normal":
            return torch.empty(n_out, n_in).normal_(0, NORMAL_STD, generator=generator)
        bound = math.sqrt(6 / (n_in + n_out))
        return torch.empty(n_out, n_in).uniform_(-bound, bound, generator=generator)

    state = {
        "attn.in_proj.weight": torch.cat([matrix(d_model, d_model) for _ in range(3)]),
        "attn.out_proj.weight": matrix(d_model, d_model),
        "ff.linear1.weight": matrix(d_ff, d_model),
        "ff.linear2.weight": matrix(d_model, d_ff),
    }
    if config.bias:
        state |= {name.replace("weight", "bias"): torch.zeros(weight.shape[0]) for name, weight in state.items()}
    return state | _norm("norm1", config) | _norm("norm2", config)


def _norm(name: str, config: EncoderConfig) -> dict[str, Tensor]:
    gamma_and_beta = {f"{name}.weight": torch.ones(config.d_model), f"{name}.bias": torch.zeros(config.d_model)}
    return gamma_and_beta if config.bias else {f"{name}.weight": gamma_and_beta[f"{name}.weight"]}


def vector_std(config: EncoderConfig, init: Initialisation) -> float:
    """Standard deviation of the vectors of tokens, positions and segments."""
    return NORMAL_STD if init == "normal" else config.d_model**-0.5
