"""Small encoders, and what tests need to look into them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping
import torch
from hypothesis import strategies as st
from torch import Tensor

from explorer import EncoderConfig, Model, Recorder, build
from explorer.weights import draw_state, fill

TINY: dict[str, Any] = {"n_layers": 2, "n_heads": 2, "d_model": 8, "d_ff": 16, "max_len": 32}


def tiny(**changes: Any) -> EncoderConfig:
    """An architecture that runs in a millisecond."""
    return EncoderConfig(**(TINY | changes))


def rough(config: EncoderConfig, seed: int = 0) -> Model:
    """An encoder in which no parameter is trivial: a fresh one has biases of 0 and gammas of 1, which hide faults."""
    generator = torch.Generator().manual_seed(seed)
    state = draw_state(config, seed=seed)
    for name, value in state.items():
        if value.is_floating_point() and value.ndim > 0:
            state[name] = value + 0.3 * torch.randn(value.shape, generator=generator)
    model = build(config, seed=seed)
    fill(model.encoder, state)
    return model


@contextmanager
def no_type_checks() -> Iterator[None]:
    """Without the type checks, which only pytest has: what a stranger meets who passes a value of a wrong type."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def token_ids(batch: int, pos: int, *, high: int = 1_000, seed: int = 0) -> Tensor:
    """Random token ids, `[batch, pos]`."""
    return torch.randint(3, high, (batch, pos), generator=torch.Generator().manual_seed(seed))


def padding(lengths: list[int], pos: int, side: str = "right") -> Tensor:
    """The mask of sentences of these lengths: True = padding."""
    index = torch.arange(pos)
    rows = [index >= n if side == "right" else index < pos - n for n in lengths]
    return torch.stack(rows)


def record(model: Model, *inputs: Any, **more: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """The output of the encoder, and every recorded value by site."""
    recorder = Recorder()
    with torch.no_grad():
        output = model.encoder(*inputs, tape=recorder, **more)
    return output, recorder.values


@st.composite
def configs(draw: st.DrawFn, **fixed: Any) -> EncoderConfig:
    """Any valid small architecture."""
    n_heads = draw(st.integers(1, 4))
    d_head = draw(st.integers(-(-4 // n_heads), 5))  # at least 4 features: a norm over 1 or 2 is all sign
    free = {
        "n_layers": st.integers(1, 3),
        "d_ff": st.integers(1, 12),
        "norm_placement": st.sampled_from(["pre", "post"]),
        "activation": st.sampled_from(["relu", "gelu", "silu"]),
        "positions": st.sampled_from(["sinusoidal", "learned", "none"]),
        "scale_embeddings": st.booleans(),
        "final_norm": st.sampled_from([None, True, False]),
        "bias": st.booleans(),
        "embedding_norm": st.booleans(),
        "n_segments": st.integers(0, 2),
        "vocab_size": st.sampled_from([None, 1_000]),
    }
    chosen = {name: draw(options) for name, options in free.items() if name not in fixed}
    with no_type_checks():  # they draw from `random`, which hypothesis forbids here
        return EncoderConfig(n_heads=n_heads, d_model=n_heads * d_head, max_len=24, **chosen, **fixed)
