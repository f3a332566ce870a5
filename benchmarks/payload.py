"""What goes to the browser, in bytes: our grid and our head beside BertViz and Plotly. `python -m benchmarks.payload`

- our grid: all heads of one sentence, as `components.attention_grid.pack` packs them
- our head: one head as float32, as `components.matrix.pack_matrix` packs it
- BertViz: the HTML that its head view and its model view return, of the published encoder. Version 1.4.1 writes every
  number twice: its template names the place of the numbers in a comment as well, and both are filled in
- Plotly: the JSON of one heatmap of all heads, a byte a cell, see `stitched.py`

To reach: a grid of at most 650 kB, at any length. The exit code is 1 where a grid is larger, or where what was packed
is not what the encoder computed; max pooling is compared with that of torch. 1 kB is 1,000 bytes. What BertViz needs is
in requirements-bench.txt.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final

import bertviz
import numpy as np
import torch
import torch.nn.functional as F

import explorer
from benchmarks.case import BUILT, LENGTHS, sentence
from benchmarks.stitched import stitched
from components.attention_grid import MAX_CELLS, pack
from components.canvas import read_packet
from components.matrix import Matrix, pack_matrix

MOST: Final = 650_000
"""Bytes of a grid."""
TOO_MUCH: Final = 250_000_000
"""Bytes of HTML above which a page is not made but reckoned: it grows with the square of the length."""
HEADER: Final = (
    "tokens",
    "our grid, 12 x 12",
    "our grid, MiniLM 6 x 12",
    "at most",
    "our head",
    "BertViz head view, MiniLM 6 x 12",
    "BertViz model view, MiniLM 6 x 12",
    "head view / our grid",
    "Plotly heatmap, 12 x 12",
    "Plotly / our grid",
)

Pattern = list[np.ndarray]  # one [head, query, key] array a layer
View = Callable[..., Any]


def main() -> None:
    """Prints the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens of the sentence")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    built, minilm = explorer.build(BUILT, seed=0), explorer.load("minilm")
    head_view, model_view = Page(bertviz.head_view), Page(bertviz.model_view)
    largest = 0
    print("To the browser, in kB (1,000 bytes).\n")
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
    for n_tokens in sorted(arguments.lengths):
        tokens, pattern = run(built, n_tokens)
        published_tokens, published = run(minilm, n_tokens)
        ours, ours_published = grid(pattern, tokens), grid(published, published_tokens)
        largest = max(largest, ours, ours_published)
        plotly = len(stitched(pattern).to_json().encode())
        there = head_view.size(published, published_tokens)
        cells = [
            str(n_tokens),
            *(kilobytes(n_bytes) for n_bytes in (ours, ours_published, MOST, head(pattern[0][0], tokens))),
            head_view.say(there),
            model_view.say(model_view.size(published, published_tokens)),
            f"{there / ours_published:,.0f}",
            kilobytes(plotly),
            f"{plotly / ours:,.1f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    if largest > MOST:
        sys.exit(f"A grid takes {kilobytes(largest)} kB, and {kilobytes(MOST)} kB are allowed.")


def run(model: explorer.Model, n_tokens: int) -> tuple[list[str], Pattern]:
    """The tokens of a sentence of this length, and the patterns of all heads."""
    made = explorer.run(model, model.batch([sentence(n_tokens)]))
    tokens = made.batch.tokens[0]
    if len(tokens) != n_tokens:
        raise RuntimeError(f"the sentence has {len(tokens)} tokens, not {n_tokens}")
    return tokens, [heads[0] for heads in made.trace.pattern()]


def grid(pattern: Pattern, tokens: list[str]) -> int:
    """Bytes of our grid.

    Raises:
        AssertionError: If a pixel is not the strongest weight of its cell, or a weight not that of the encoder.
    """
    padding = np.zeros(len(tokens), dtype=bool)
    payload = pack(pattern, tokens=tokens, query_padding=padding, key_padding=padding, masked=True)
    header, body = read_packet(payload)
    weights = np.stack(pattern)
    cells = F.adaptive_max_pool2d(torch.from_numpy(weights), min(len(tokens), MAX_CELLS)).numpy()
    expected = np.rint(255 * np.sqrt(cells)).astype(np.uint8)
    pixels, exact = body[: expected.size], body[expected.size :]
    np.testing.assert_array_equal(np.frombuffer(pixels, np.uint8).reshape(expected.shape), expected)
    np.testing.assert_array_equal(
        np.frombuffer(exact, "<f4"), weights.ravel() if header["exact"] else [], err_msg="exact weights"
    )
    return len(payload)


def head(weights: np.ndarray, tokens: list[str]) -> int:
    """Bytes of one head.

    Raises:
        AssertionError: If a weight is not that of the encoder.
    """
    payload = pack_matrix(
        Matrix(
            values=weights,
            rows=tokens,
            cols=tokens,
            title="L0 H0",
            row_title="query (looks)",
            col_title="key (is looked at)",
            phrase=("query ", " attends to key ", ": "),
        )
    )
    np.testing.assert_array_equal(np.frombuffer(read_packet(payload)[1], "<f4").reshape(weights.shape), weights)
    return len(payload)


class Page:
    """A view of BertViz, whose HTML is made up to a size and reckoned beyond it."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._largest: tuple[int, int] | None = None  # tokens and bytes
        self._reckoned = False

    def size(self, pattern: Pattern, tokens: list[str]) -> int:
        """Bytes of the HTML of all heads. Lengths come in rising order."""
        n_tokens = len(tokens)
        if self._largest is not None:
            before, n_bytes = self._largest
            reckoned = round(n_bytes * (n_tokens / before) ** 2)
            if self._reckoned or reckoned > TOO_MUCH:
                self._reckoned = True
                return reckoned
        attention = [torch.tensor(heads)[None] for heads in pattern]  # [1, head, query, key]
        html = self._view(attention, tokens, html_action="return")
        n_bytes = len(html.data.encode())
        self._largest = n_tokens, n_bytes
        return n_bytes

    def say(self, n_bytes: int) -> str:
        return f"about {kilobytes(n_bytes)}" if self._reckoned else kilobytes(n_bytes)


def kilobytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e3:,.1f}"


if __name__ == "__main__":
    main()
