"""Paired timing: several ways to do one thing, side by side, so that what else the machine does falls on all alike."""

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

CLOCKS: Final[dict[str, Callable[[], float]]] = {"cpu": time.process_time, "wall": time.perf_counter}
"""`cpu`: seconds of this process, the kernel's work for it included; other programs do not count. `wall`: of the clock.

With one thread and an idle machine they agree.
"""

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Quartiles:
    """Median and quartiles of the ratio of two calls, one ratio a round."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def measure(
    calls: Mapping[str, Call],
    *,
    clock: str,
    seconds: float,
    min_rounds: int = 7,
    max_rounds: int = 400,
    warm_up: int = 3,
) -> dict[str, np.ndarray]:
    """Seconds of each call, one entry a round: `{"recorded": [0.01, ...], ...}`.

    A round makes every call once, in random order. Rounds are made for `seconds` of wall time, within the two bounds.
    What a call returns lives until the clock has been read: letting go of it is not timed.
    """
    now = CLOCKS[clock]
    order = random.Random(0)
    names = list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(warm_up):
        for name in names:
            calls[name]()
    gc.collect()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        n_rounds = 0
        while n_rounds < min_rounds or (n_rounds < max_rounds and time.perf_counter() < end):
            order.shuffle(names)
            for name in names:
                start = now()
                result = calls[name]()
                times[name].append(now() - start)
                del result
            n_rounds += 1
    finally:
        gc.enable()
    return {name: np.array(values) for name, values in times.items()}


def ratio(times: Mapping[str, np.ndarray], above: str, below: str) -> Quartiles:
    """How many times longer `above` takes than `below`: computed in each round, then summed up."""
    return Quartiles(*np.quantile(times[above] / times[below], [0.25, 0.5, 0.75]))
