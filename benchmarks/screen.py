"""How soon a change is on the screen, beside one Plotly heatmap, and in how much memory. `python -m benchmarks.screen`

The page runs as `make run` starts it, in headless Chromium on this machine, with the built encoder of 12 x 12 heads.
Three changes, each of something that was not looked at before:

- another sentence of the same batch, until the grid shows it, and until the head at full size does
- a click on another tile, until the head is shown
- another sentence on the page of `stitched.py`: one Plotly heatmap of all heads

A time runs from the time stamp of the key or button to the first task after the frame that has the new picture, see
`watch.js`; "until it is there" is the part of it until the browser had the bytes of the picture, and kB is the message
that brought them, with the code of the canvas. The grid and the heatmap take turns. At 512 tokens the heatmap is drawn
once, for the first sentence: it takes half a minute. Memory is what the renderer processes of a fresh browser have for
themselves, after a garbage collection, above what the page of one line of text has.

To reach on an idle machine: the grid in 250 ms at 64 tokens and in 400 ms at 512, the head in 150 ms, and 100 MB. Times
are no verdict: they are printed, and the exit code is 1 only where a choice ran a forward pass, or where what is drawn
is not what the encoder computed.
"""

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from playwright.sync_api import Browser, Playwright, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

import explorer
from benchmarks.browser import Change, Server, Tab, launch, renderer_memory, serve
from benchmarks.case import BUILT, sentence
from benchmarks.timing import ratio
from components.attention_grid import MAX_CELLS

LENGTHS: Final = (64, 512)
SENTENCES: Final = 3
"""In a batch. The first one is there when the page opens; the others are changes, each once a visit."""
SENTENCE_GRID: Final = "another sentence: grid"
SENTENCE_HEAD: Final = "another sentence: head"
TILE_HEAD: Final = "another tile: head"
STITCHED: Final = "another sentence: Plotly heatmap"
TARGETS: Final = {(SENTENCE_GRID, 64): 250, (SENTENCE_GRID, 512): 400, (TILE_HEAD, 64): 150, (TILE_HEAD, 512): 150}
"""Milliseconds."""
PAIRED: Final = (64,)
"""Lengths at which the Plotly heatmap is changed as often as ours; at others it is drawn once."""
PLOTLY_LIMIT: Final = 90  # seconds
TOLERANCE: Final = 1e-6
HEADER: Final = (
    "change",
    "tokens",
    "ms: median (quartiles)",
    "to reach, ms",
    "until it is there, ms",
    "kB",
    "times",
    "Plotly heatmap, ms",
    "Plotly / ours",
)
N: Final = BUILT.n_heads


@dataclass(slots=True)
class Times:
    """Milliseconds of one kind of change, and what of them passed until its bytes had come."""

    shown: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)
    n_bytes: list[int] = field(default_factory=list)

    def add(self, change: Change, name: str, *, at_least: int, after: float = -np.inf) -> float:
        """Takes the time of a part of the page, and the first message that is long enough to carry it: when it came."""
        when, n_bytes = next((w, n) for w, n in change["arrived"] if n >= at_least and w > after)
        self.shown.append(change["shown"][name])
        self.there.append(when)
        self.n_bytes.append(n_bytes)
        return when

    @property
    def median(self) -> float:
        return float(np.median(self.shown))

    def __str__(self) -> str:
        low, median, high = np.quantile(self.shown, [0.25, 0.5, 0.75])
        return f"{median:,.0f} ({low:,.0f} to {high:,.0f})" if len(self.shown) > 1 else f"{median:,.0f}, once"


def main() -> None:
    """Prints both tables, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=15, help="how often each change is made, at least")
    parser.add_argument("--rounds", type=int, default=3, help="how often memory is measured")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    usual = ("streamlit", "run", "benchmarks/stitched.py")
    with sync_playwright() as playwright, serve("components.serve") as server, serve(*usual) as other:
        load = os.getloadavg()[0]
        print("Built encoder, 12 x 12 heads, headless Chromium. From the press to the frame.\n")
        print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
        for n_tokens in LENGTHS:
            with launch(playwright) as browser:
                times = measure(browser, server, other, n_tokens, arguments.times)
            if n_tokens not in PAIRED:
                with launch(playwright) as browser:
                    times[STITCHED], memory_of_plotly = measure_plotly(browser, other, n_tokens)
            print_rows(n_tokens, times)
        print("\nForward passes during these changes of ours: 0.\n", flush=True)
        empty, full = measure_memory(playwright, server, other, arguments.rounds)
    more = np.array(full) - np.array(empty)
    print("Private memory of the renderer at 512 tokens, in MB (1,000,000 bytes).\n")
    print("| page | MB | above the empty page | to reach |\n|---|---|---|---|")
    print(f"| one line of text | {megabytes(np.median(empty))} | | |")
    print(f"| ours, 12 x 12 heads | {megabytes(np.median(full))} | +{megabytes(np.median(more))} | below +100 |")
    print(f"| Plotly heatmap, 12 x 12 heads, drawn | {memory_of_plotly} | | |")
    print(f"\nLoad of the machine, {os.cpu_count()} cores: {load:.1f} before, {os.getloadavg()[0]:.1f} after.")


def print_rows(n_tokens: int, found: dict[str, Times]) -> None:
    """A row a change of ours; the Plotly heatmap beside the grid that has the same heads."""
    plotly = found.pop(STITCHED)
    for name, ours in found.items():
        cells = [
            name,
            str(n_tokens),
            str(ours),
            str(TARGETS.get((name, n_tokens), "")),
            f"{np.median(ours.there):,.0f}",
            f"{np.median(ours.n_bytes) / 1e3:,.0f}",
            str(len(ours.shown)),
            *(_beside(plotly, ours) if name == SENTENCE_GRID else ("", "")),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def _beside(plotly: Times, ours: Times) -> tuple[str, str]:
    """The times of the heatmap, and how many times ours they are: in each pair where there are pairs."""
    if len(plotly.shown) == len(ours.shown):
        both = {"plotly": np.array(plotly.shown), "ours": np.array(ours.shown)}
        return str(plotly), str(ratio(both, "plotly", "ours"))
    return str(plotly), f"{plotly.median / ours.median:,.0f}"


def open_ours(browser: Browser, server: Server, n_tokens: int, seed: int = 0) -> Tab:
    """Our page, with the first of its sentences. Another seed is another encoder, of which nothing is kept yet."""
    text = "\n".join(sentence(n_tokens, first) for first in range(SENTENCES))
    size = {"layers": BUILT.n_layers, "heads": N, "d_model": BUILT.d_model, "d_ff": BUILT.d_ff}
    return Tab(browser, server.url, {"source": "built", "text": text, "seed": seed} | size)


def measure(browser: Browser, server: Server, other: Server, n_tokens: int, times: int) -> dict[str, Times]:
    """The times of all changes, by their names; after each of the grid one of the Plotly heatmap, where it is quick.

    Raises:
        SystemExit: If a choice ran a forward pass, or another head than the chosen one is drawn.
    """
    names = (SENTENCE_GRID, SENTENCE_HEAD, TILE_HEAD, *([STITCHED] if n_tokens in PAIRED else []))
    found = {name: Times() for name in names}
    grid_bytes, head_bytes = (N * min(n_tokens, MAX_CELLS)) ** 2, 4 * n_tokens**2
    n_visits = math.ceil(times / (SENTENCES - 1))
    for seed in range(n_visits):
        tab = open_ours(browser, server, n_tokens, seed)
        beside = open_stitched(browser, other, n_tokens) if STITCHED in found else None
        if beside:
            beside.choose_sentence(0, "stitched")  # the library of the figures comes with the first one
        passes = server.passes
        for number in range(1, SENTENCES):
            change = tab.choose_sentence(number, "grid", "head")
            there = found[SENTENCE_GRID].add(change, "grid", at_least=grid_bytes)
            found[SENTENCE_HEAD].add(change, "head", at_least=head_bytes, after=there)
            if beside:
                change = beside.choose_sentence(number, "stitched")
                found[STITCHED].add(change, "stitched", at_least=(N * n_tokens) ** 2)
        if seed == n_visits - 1:
            for i in range(times):
                layer, head = i % N, (5 * i + i // N) % N
                change = tab.click_tile(N, layer, head)
                found[TILE_HEAD].add(change, "head", at_least=head_bytes)
            check_head(tab, n_tokens, seed, layer, head)
        if server.passes != passes:
            raise SystemExit(f"{server.passes - passes} forward passes for choices within one batch; none is needed.")
        tab.close()
        if beside:
            beside.close()
    return found


def check_head(tab: Tab, n_tokens: int, seed: int, layer: int, head: int) -> None:
    """Stops where the head on the screen is not that of the last sentence."""
    model = explorer.build(BUILT, seed=seed)
    run = explorer.run(model, model.batch([sentence(n_tokens, SENTENCES - 1)]))
    shown = tab.page.evaluate("() => headShown()")
    if shown["title"] != f"L{layer} H{head}":
        raise SystemExit(f"L{layer} H{head} was chosen, and {shown['title']} is drawn.")
    values = np.array(shown["values"]).reshape(n_tokens, n_tokens)
    difference = np.abs(values - run.trace.pattern(layer)[0, head]).max()
    if not difference <= TOLERANCE:
        raise SystemExit(f"The weights of {shown['title']} on the screen are off by {difference:.1e}.")


def open_stitched(browser: Browser, server: Server, n_tokens: int) -> Tab:
    """The page of the Plotly heatmap, before a sentence is chosen."""
    n_sentences = SENTENCES if n_tokens in PAIRED else 1
    return Tab(browser, server.url, {"tokens": n_tokens, "sentences": n_sentences}, limit=PLOTLY_LIMIT)


def measure_plotly(browser: Browser, server: Server, n_tokens: int) -> tuple[Times, str]:
    """The time of the first Plotly heatmap of the page, and the renderer's memory after it."""
    try:
        tab = open_stitched(browser, server, n_tokens)
        found = Times()
        found.add(tab.choose_sentence(0, "stitched"), "stitched", at_least=(N * n_tokens) ** 2)
        tab.collect_garbage()
        return found, megabytes(renderer_memory())
    except PlaywrightTimeout:
        return Times([PLOTLY_LIMIT * 1e3]), f"not drawn in {PLOTLY_LIMIT} s"


def measure_memory(playwright: Playwright, ours: Server, other: Server, rounds: int) -> tuple[list[int], list[int]]:
    """Private bytes of the renderer with one line of text, and with our page at 512 tokens; a browser each."""

    def memory(open_tab: Callable[[Browser], Tab]) -> int:
        with launch(playwright) as browser:
            tab = open_tab(browser)
            tab.page.wait_for_timeout(1000)
            tab.collect_garbage()
            return renderer_memory()

    empty, full = [], []
    for _ in range(rounds):
        empty.append(memory(lambda browser: Tab(browser, other.url, {})))
        full.append(memory(lambda browser: open_ours(browser, ours, 512)))
    return empty, full


def megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.0f}"


if __name__ == "__main__":
    main()
