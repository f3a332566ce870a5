"""How soon another view, or another part of one, is on the screen. `python -m benchmarks.views`

The page runs as `make run` starts it, in headless Chromium on this machine, with the trained encoder and one sentence
of 64 tokens, then one of 512. Each view and each of its parts is chosen in turn, and at each round with another
sentence, so that nothing was looked at before. A time runs from the time stamp of the press to the first task after the
frame that has the new picture, see `watch.js`.

To reach on an idle machine: 250 ms, median. Times are no verdict; the exit code is 1 only where a choice ran a forward
pass.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from benchmarks.browser import Server, Tab, launch, serve
from benchmarks.case import sentence

LENGTHS: Final = (64, 512)
WALK: Final = (
    ("LayerNorm", "norm_detail"),
    ("One token", "token_strips"),
    ("Spread", "distribution"),
    ("γ and β", "gain_curves"),
    ("BatchNorm", "batch_rows"),
    ("Mistakes", "difference_bars"),
    ("Residual stream", "stream_growth"),
    ("Directions", "cosine_curves"),
    ("Token", "followed"),
    ("Checkpoint", "picture"),
    ("Paths", "token_paths"),
    ("Sentences", "sentences"),
    ("Shapes", "cost_bars"),
    ("How cost grows", "growth_curves"),
    ("Tensor", "tensor"),
)
"""What is pressed, and the picture that comes. Before the next round each view is set back to its first part."""
FIRST: Final = (("Shapes", "Cost of a run"), ("Residual stream", "Growth"), ("LayerNorm", "Tokens"))
TWO: Final = (
    ("A and B", "distance"),
    ("LayerNorm", "norms_difference"),
    ("Residual stream", "stream_difference"),
    ("Distance", "distance"),
    ("Shapes", "tensor_difference"),
    ("Attention", "head_difference"),
)
"""The same where two runs are compared: the same text, bidirectional and causal."""
FIRST_OF_TWO: Final = (("Residual stream", "Map"),)


def main() -> None:
    """Prints one row a choice and length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each choice is made")
    arguments = parser.parse_args()
    print("| choice | tokens | ms: median (quartiles) | times |\n|---|---|---|---|", flush=True)
    load = os.getloadavg()[0]
    with sync_playwright() as playwright, serve("components.serve") as server, launch(playwright) as browser:
        for n_tokens in LENGTHS:
            text = "\n".join(sentence(n_tokens, first) for first in range(arguments.rounds))
            a = json.dumps({"source": "minilm", "text": text})
            found = _walk(browser, server, {"text": text}, WALK, FIRST, "grid", arguments.rounds)
            two = {"text": text, "a": a, "causal": "true", "shape_show": "tensor"}
            compared = _walk(browser, server, two, TWO, FIRST_OF_TWO, "head_difference", arguments.rounds)
            found |= {f"two runs: {label}": times for label, times in compared.items()}
            for label, times in found.items():
                low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
                print(
                    f"| {label} | {n_tokens} | {median:,.0f} ({low:,.0f} to {high:,.0f}) | {len(times)} |", flush=True
                )
    print(f"\nLoad of the machine, {os.cpu_count()} cores: {load:.1f} before, {os.getloadavg()[0]:.1f} after.")


def _walk(
    browser: Browser,
    server: Server,
    link: dict[str, str],
    walk: Sequence[tuple[str, str]],
    first: Sequence[tuple[str, str]],
    start: str,
    rounds: int,
) -> dict[str, list[float]]:
    """Times of each choice, round by round. `start` is the picture of attention, with which each round begins."""
    found: dict[str, list[float]] = defaultdict(list)
    tab = Tab(browser, server.url, link)
    passes = server.passes
    for number in range(rounds):
        if number:
            tab.choose_sentence(number, start)
        for label, name in walk:
            found[label].append(tab.choose(label, name)["shown"][name])
        for view, part in first:
            for label in (view, part):
                tab.page.get_by_role("radio", name=label, exact=True).click()
                tab.settle()
        tab.choose("Attention", start)
    if server.passes != passes:
        raise SystemExit(f"{server.passes - passes} forward passes for choices of what is looked at.")
    tab.close()
    return found


if __name__ == "__main__":
    main()
