"""How soon another view, or another part of one, is on the screen. `python -m benchmarks.views`

The page runs as `make run` starts it, in headless Chromium on this machine, with the trained encoder and one sentence
of 64 tokens, then one of 512. Each view and each of its parts is chosen in turn, and at each round with another
sentence, so that nothing was looked at before. A time runs from the time stamp of the press to the first task after the
frame that has the new picture, see `watch.js`.

To reach on an idle machine: 250 ms, median. Times are no verdict; the exit code is 1 only where a choice ran a forward
pass.
"""

import argparse
import os
from collections import defaultdict
from typing import Final

import numpy as np
from playwright.sync_api import sync_playwright

from benchmarks.browser import Tab, launch, serve
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


def main() -> None:
    """Prints one row a choice and length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each choice is made")
    arguments = parser.parse_args()
    print("| choice | tokens | ms: median (quartiles) | times |\n|---|---|---|---|", flush=True)
    load = os.getloadavg()[0]
    with sync_playwright() as playwright, serve("components.serve") as server, launch(playwright) as browser:
        for n_tokens in LENGTHS:
            found: dict[str, list[float]] = defaultdict(list)
            text = "\n".join(sentence(n_tokens, first) for first in range(arguments.rounds))
            tab = Tab(browser, server.url, {"text": text})
            passes = server.passes
            for number in range(arguments.rounds):
                if number:
                    tab.choose_sentence(number, "grid")
                for label, name in WALK:
                    found[label].append(tab.choose(label, name)["shown"][name])
                for view, part in FIRST:
                    for label in (view, part):
                        tab.page.get_by_role("radio", name=label, exact=True).click()
                        tab.settle()
                tab.choose("Attention", "grid")
            if server.passes != passes:
                raise SystemExit(f"{server.passes - passes} forward passes for choices of what is looked at.")
            tab.close()
            for label, times in found.items():
                low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
                print(
                    f"| {label} | {n_tokens} | {median:,.0f} ({low:,.0f} to {high:,.0f}) | {len(times)} |", flush=True
                )
    print(f"\nLoad of the machine, {os.cpu_count()} cores: {load:.1f} before, {os.getloadavg()[0]:.1f} after.")


if __name__ == "__main__":
    main()
