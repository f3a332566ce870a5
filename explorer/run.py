"""One recorded forward pass."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer import device as devices
from explorer.config import EncoderConfig
from explorer.errors import ConfigError, MemoryLimitError
from explorer.model.encoder import check_mask
from explorer.model.positions import position_ids
from explorer.precision import Precision, dtype_of
from explorer.tables import Tables
from explorer.tape import HeadsOff, Recorder
from explorer.text import Batch
from explorer.trace import Trace, to_numpy

if TYPE_CHECKING:
    from explorer.loading import Model

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What one forward pass gave, and what it cost."""

    trace: Trace
    output: Float[np.ndarray, "batch pos d_model"]
    """After the final norm where there is one. Read-only."""
    batch: Batch
    config: EncoderConfig
    device: str
    """Where it really ran."""
    use_mask: bool
    seconds: float
    n_bytes: int
    """Memory that the record holds."""
    notes: tuple[str, ...]
    """Sentences for the reader, such as a device that was not there."""
    heads_off: frozenset[tuple[int, int]] = frozenset()
    """The heads, as (layer, head), whose z was replaced by 0."""
    causal: bool = False
    """Whether each token saw itself and what stands before it, and nothing after it."""
    precision: Precision = "float32"
    """What was computed in. `output` and `trace` give float32 arrays all the same."""

    @property
    def tables(self) -> Tables:
        """The statistics of this run as tidy tables."""
        return Tables(self.trace, self.batch, self.use_mask)


def run(
    model: "Model",
    batch: Batch,
    *,
    device: str = "cpu",
    use_mask: bool = True,
    causal: bool = False,
    precision: Precision = "float32",
    heads_off: Collection[tuple[int, int]] = (),
    max_bytes: int | None = None,
) -> Run:
    """Runs the encoder once and keeps every site. The output is bitwise that of `model.encoder` alone.

    `device` may be `auto`. With `use_mask=False` padding is attended to like any token, to see what the mask is for;
    positions are the same either way. With `causal` a token sees itself and what stands before it. The heads in
    `heads_off`, given as (layer, head), add nothing to the stream, to see what they are for.

    Raises:
        ConfigError: If a head in `heads_off` does not exist, there is no such precision (on mps no float64), or numbers
            of this run are too large for float16.
        MaskError: If `causal` attention and masked padding leave a query without a key. Nothing has been computed then.
        MemoryLimitError: If the estimate exceeds `max_bytes`. Nothing has been computed then.
    """
    _refuse_absent_heads(heads_off, model.config)
    device, note = devices.choose(device)
    _refuse_float64_on_mps(device, precision)
    mask = batch.key_padding_mask if use_mask and batch.n_padding else None
    if mask is not None:
        check_mask(mask, batch.token_ids, causal=causal, sentences=batch.sentences)
    if max_bytes is not None:
        check_memory(model.config, batch, device=device, precision=precision, causal=causal, max_bytes=max_bytes)
    encoder = model.on(device, precision)
    tape = HeadsOff(heads_off, keep_on(device)) if heads_off else Recorder(keep_on(device))
    inputs = {
        "token_ids": batch.token_ids,
        "key_padding_mask": mask,
        "position_ids": position_ids(batch.key_padding_mask),
        # An encoder that knows one segment, or none, reads a pair as one sentence.
        "segment_ids": batch.segments.clamp(max=max(model.config.n_segments - 1, 0)),
    }
    with torch.inference_mode():
        moved = {name: None if value is None else value.to(device) for name, value in inputs.items()}
        devices.synchronize(device)
        start = time.perf_counter()
        output = encoder(**moved, causal=causal, tape=tape)
        devices.synchronize(device)
        seconds = time.perf_counter() - start
        _refuse_overflow(output, tape.values, precision)
        trace = Trace(_to_cpu(tape.values, device), model.config, mask, causal=causal)
    logger.info("forward pass: %d x %d tokens on %s, %.1f ms", *batch.token_ids.shape, device, seconds * 1e3)
    return Run(
        trace=trace,
        output=to_numpy(output),
        batch=batch,
        config=model.config,
        device=device,
        use_mask=use_mask,
        seconds=seconds,
        n_bytes=trace.n_bytes,
        notes=() if note is None else (note,),
        heads_off=frozenset(heads_off),
        causal=causal,
        precision=precision,
    )


def keep_on(device: str) -> Callable[[str], bool]:
    """Which sites to keep: all; on the CPU all but the scores, which follow bit for bit from q and k."""
    return lambda site: device != "cpu" or not site.endswith("attn.scores")


def check_memory(
    config: EncoderConfig, batch: Batch, *, device: str, precision: Precision, causal: bool, max_bytes: int
) -> None:
    """Refuses a run whose record would hold more than `max_bytes`: see `estimate_bytes`.

    Raises:
        MemoryLimitError: The message names both sizes and the way out.
    """
    n_sentences, n_pos = batch.token_ids.shape
    needed = estimate_bytes(config, batch=n_sentences, pos=n_pos, device=device, precision=precision, causal=causal)
    if needed > max_bytes:
        raise MemoryLimitError(
            f"This run would need about {needed / 2**20:,.0f} MiB, and {max_bytes / 2**20:,.0f} MiB are allowed. "
            "Use shorter or fewer sentences, or fewer layers or heads."
        )


def estimate_bytes(
    config: EncoderConfig,
    *,
    batch: int,
    pos: int,
    device: str = "cpu",
    precision: Precision = "float32",
    causal: bool = False,
) -> int:
    """Memory that the record of a run will hold, and what one layer needs for its scores on the way.

    Grows with the square of the length: 12 heads of 512 tokens are 12.6 MB a layer in float32, half of it in the
    16-bit precisions.
    """
    stream = batch * pos * config.d_model
    square = batch * config.n_heads * pos * pos
    kept_squares = square * (2 if keep_on(device)("attn.scores") else 1)
    # q, k and v; z; attn_out; sum; norm out; ff_out; sum; norm out
    per_layer = 10 * stream + batch * pos * config.d_ff + kept_squares
    mask = batch * pos * pos if causal else 0  # one byte each
    return dtype_of(precision).itemsize * (config.n_layers * per_layer + 6 * stream + 2 * square) + mask


def _refuse_absent_heads(heads: Collection[tuple[int, int]], config: EncoderConfig) -> None:
    for layer, head in heads:
        if not (0 <= layer < config.n_layers and 0 <= head < config.n_heads):
            raise ConfigError(
                f"there is no head L{layer} H{head} to switch off; "
                f"this encoder has layers 0 to {config.n_layers - 1} and heads 0 to {config.n_heads - 1}"
            )


def _refuse_float64_on_mps(device: str, precision: Precision) -> None:
    if (device, precision) == ("mps", "float64"):
        raise ConfigError("mps computes in no float64; use the device cpu for it, or float32")


def _refuse_overflow(output: Tensor, values: dict[str, Tensor], precision: Precision) -> None:
    """float16 is the one precision that ends before float32 does: what is larger is infinite, and soon NaN."""
    if precision != "float16" or output.isfinite().all():
        return
    beyond = [site for site, value in values.items() if not site.endswith("scores") and not value.isfinite().all()]
    raise ConfigError(
        f"float16 ends at 65,504, and this run goes beyond it (first at {beyond[0]}); "
        "use bfloat16, which reaches as far as float32"
    )


def _to_cpu(values: dict[str, Tensor], device: str) -> dict[str, Tensor]:
    """One transfer at the end. Sites that are the same tensor stay the same tensor."""
    if device == "cpu":
        return values
    moved: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Tensor] = {}
    return {
        site: moved.setdefault((value.data_ptr(), tuple(value.shape), value.stride()), value.cpu())
        for site, value in values.items()
    }
