"""What travels to the canvas: a small header, one byte a cell, and the weights themselves where they are few.

A payload describes one sentence and nothing else. It holds no choice, no colour and no size, so
choosing a head, resizing the window or changing the theme never sends it again.

    header       see `components.canvas.packet`; `tokens` are plain text, never HTML
    body         pixels: uint8 [layer, head, row, col], round(255 * sqrt(weight)); after them, where the
                 header says `exact`, the weights: float32 [layer, head, row, col], little-endian
"""

import math
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from components.canvas import read_packet, write_packet

MAX_CELLS = 64
"""Most rows or columns a head is drawn with; longer sentences are max-pooled to this many."""

MAX_PIXELS = 8 * 2**20
"""Most bytes of pixels: with very many heads, each is drawn with fewer cells."""

EXACT_BYTES = 600_000
"""Most bytes of a payload that carries the weights as well, as 12 x 12 heads of 28 tokens do. Pooled heads never do."""

_VERSION = 2
_TOLERANCE = 1e-3  # float32 softmax may leave 1 by a few millionths; anything further is not a weight


def pool(pattern: np.ndarray, n: int = MAX_CELLS) -> np.ndarray:
    """Strongest weight of each cell, with at most n x n cells on the last two axes.

    Each cell covers a run of neighbouring tokens; runs differ by at most one token. The largest
    weight survives, so a single strong link between two tokens of 512 stays as strong as it is.
    A pattern that already fits is returned as it came.
    """
    n_queries, n_keys = pattern.shape[-2:]
    if n_queries > n:  # rows first, run by run: seven times faster than reduceat along this axis at 512 tokens
        runs = pairwise([*cell_starts(n_queries, n), n_queries])
        pattern = np.stack([pattern[..., start:stop, :].max(axis=-2) for start, stop in runs], axis=-2)
    if n_keys > n:
        pattern = np.maximum.reduceat(pattern, cell_starts(n_keys, n), axis=-1)
    return pattern


def cell_starts(length: int, n: int = MAX_CELLS) -> np.ndarray:
    """First token of each cell; cell i ends where cell i + 1 starts, the last one at `length`."""
    cells = min(length, n)
    return np.arange(cells) * length // cells


def pack(
    pattern: np.ndarray | Sequence[np.ndarray],
    *,
    tokens: Sequence[str],
    keys: Sequence[str] | None = None,
    query_padding: npt.ArrayLike,
    key_padding: npt.ArrayLike,
    masked: bool,
) -> bytes:
    """Header, pixels and maybe weights of one sentence, at most about 0.6 MB for 12 x 12 heads at any length.

    `pattern` is [layer, head, query, key], or one [head, query, key] array a layer, which spares
    stacking them. Padded query rows never count: their cells are 0 and drawn as padding, and a cell
    that joins real and padded queries holds the strongest of the real ones. Padded key columns are
    padding only when `masked`; with the mask switched off they took real weight and are drawn so.

    `keys` names the keys where they are not the queries, as in one part of a sentence pair.

    Raises:
        ValueError: If the lengths disagree, a flag is not a bool, the strongest number of a cell is
            no weight between 0 and 1, or `masked` is True and a padded key has weight.
    """
    query_padding, key_padding = _flags("query_padding", query_padding), _flags("key_padding", key_padding)
    size = (len(tokens), len(tokens if keys is None else keys))
    cells = []
    n = _cells_a_head(len(pattern), len(pattern[0]))
    for heads in pattern:
        if heads.ndim != 3 or heads.shape[1:] != size or size != (len(query_padding), len(key_padding)):
            raise ValueError(
                f"pattern of a layer must be [head, {size[0]}, {size[1]}] for {size[0]} tokens and {size[1]} keys; got "
                f"{list(heads.shape)} with {len(query_padding)} query and {len(key_padding)} key padding flags"
            )
        cells.append(_pool_real(heads, query_padding, n))
    strongest = np.stack(cells)
    if not (strongest.min() >= -_TOLERANCE and strongest.max() <= 1 + _TOLERANCE):  # also false for NaN
        raise ValueError(
            f"attention weights lie between 0 and 1; got {strongest.min()} to {strongest.max()}. "
            "Pass the pattern after softmax, without NaN"
        )
    row_padding, col_padding = _cell_flags(query_padding, n), _cell_flags(key_padding, n)
    if masked and strongest[..., col_padding].any():
        raise ValueError("a padded key has weight although masked is True; pass the key_padding of this very run")

    n_layers, n_heads, rows, cols = strongest.shape
    header = {
        "version": _VERSION,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "rows": rows,
        "cols": cols,
        "row_starts": cell_starts(len(query_padding), n).tolist() if rows < len(query_padding) else None,
        "col_starts": cell_starts(len(key_padding), n).tolist() if cols < len(key_padding) else None,
        "tokens": list(tokens),
        "keys": None if keys is None else list(keys),
        "query_padding": row_padding.astype(int).tolist(),
        "key_padding": col_padding.astype(int).tolist(),
        "masked": bool(masked),
        "exact": False,
        "digest": zlib.crc32(strongest.tobytes()),  # weights of one head that come later belong to these alone
    }
    pixels = np.rint(255 * np.sqrt(strongest.clip(0, 1))).astype(np.uint8)
    if strongest.shape[2:] == size and strongest.size * 5 <= EXACT_BYTES:
        weights = strongest.astype("<f4").tobytes()
        if len(exact := write_packet(header | {"exact": True}, pixels.tobytes() + weights)) <= EXACT_BYTES:
            return exact
    return write_packet(header, pixels.tobytes())


def read_header(payload: bytes) -> dict[str, Any]:
    """The header of a payload made by `pack`; the padding flags are one a cell, not one a token."""
    return read_packet(payload)[0]


def _flags(name: str, values: npt.ArrayLike) -> np.ndarray:
    flags = np.asarray(values)
    if flags.dtype != bool or flags.ndim != 1:
        raise ValueError(f"{name} must be one bool a token (True = padding); got {flags.dtype} {list(flags.shape)}")
    return flags


def _cells_a_head(n_layers: int, n_heads: int) -> int:
    """How many rows and columns a head is drawn with at most: 64, and fewer where that would be too many bytes."""
    return max(1, min(MAX_CELLS, math.isqrt(MAX_PIXELS // (n_layers * n_heads))))


def _cell_flags(padding: np.ndarray, n: int) -> np.ndarray:
    """True where a cell covers padding alone."""
    return np.logical_and.reduceat(padding, cell_starts(len(padding), n))


def _pool_real(heads: np.ndarray, query_padding: np.ndarray, n: int) -> np.ndarray:
    """`pool` of [head, query, key], with padded queries left out; 0 where a cell has no real query."""
    pooled = np.array(pool(heads, n))
    starts = [*cell_starts(len(query_padding), n), len(query_padding)]
    for row, (start, stop) in enumerate(pairwise(starts)):
        padded = query_padding[start:stop]
        if padded.all():
            pooled[:, row] = 0
        elif padded.any():
            real = heads[:, start:stop][:, ~padded].max(axis=1)
            pooled[:, row] = np.maximum.reduceat(real, cell_starts(real.shape[-1], n), axis=-1)
    return pooled
