"""What a claim about a run is, and how far rounding may lead away from it."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from explorer.precision import Precision

STEP: Final = 2.0**-23
"""From 1 to the next float32. Rounding moves a number by at most half of this, relative to its size."""

ROUNDINGS: Final = 16
"""How many steps an equation may be off. Long sums round often, but up as often as down: 4 was the most seen."""

COARSE: Final[dict[Precision, tuple[float, str]]] = {"bfloat16": (2.0**-7, "2⁻⁷"), "float16": (2.0**-10, "2⁻¹⁰")}
"""From 1 to the next number of a 16-bit precision, and how it is written.

float64 has no step of its own: its numbers are read as float32, and so rounded once each.
"""

COARSE_ROUNDINGS: Final = 2
"""How many 16-bit steps an equation may be off: fewer, because sums are made in float32 and only results are stored.

An equation stores at most three (a product, its sum with the bias, an activation), each moved by half a step.
0.9 steps were the most seen.
"""

STORED: Final = "the largest number that is stored on the way"


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that must be true of a run, and how far the run is from it."""

    claim: str
    """One sentence with its equation."""
    difference: float
    """The largest absolute difference over real tokens, of all layers."""
    tolerance: float
    why: str
    """Why the tolerance is what it is."""

    @property
    def holds(self) -> bool:
        """Whether the difference is within the tolerance. What is not a finite number never is."""
        return math.isfinite(self.tolerance) and self.difference <= self.tolerance


class Residue:
    """The largest difference so far, and the largest numbers whose rounding may explain it."""

    def __init__(self, precision: Precision) -> None:
        self.difference = 0.0
        self.size = 0.0
        self.stored = 0.0
        self._precision = precision

    def add(self, found: np.ndarray, expected: np.ndarray | float, size: float, *, stored: float | None = None) -> None:
        """`size` is what float32 rounds while it computes; `stored`, by default the same, what 16 bits round then."""
        difference = np.abs(np.subtract(found, expected, dtype=np.float64)).max()
        self.difference = float(np.maximum(self.difference, difference))  # unlike max(), it lets NaN through
        self.size = float(np.maximum(self.size, size))
        self.stored = float(np.maximum(self.stored, size if stored is None else stored))

    def exact(self, claim: str, why: str) -> Claim:
        return Claim(claim, self.difference, 0.0, f"Nothing may be left: {why}.")

    def rounded(
        self,
        claim: str,
        of: str,
        *,
        roundings: int = ROUNDINGS,
        coarse: int = COARSE_ROUNDINGS,
        stored: str | None = None,
    ) -> Claim:
        """So many steps of float32 explain the difference, and in 16 bits so many `coarse` ones of what is stored."""
        tolerance = roundings * STEP * self.size
        why = f"{_times(roundings, 'float32', '2⁻²³')}, of a number as large as {self.size:.3g}: {of}."
        if self._precision in COARSE:
            step, power = COARSE[self._precision]
            tolerance += coarse * step * self.stored
            explained = f"{self.stored:.3g}: {stored or of}"
            why = f"{_times(coarse, self._precision, power)}, of a number as large as {explained}. And {why}"
        elif self._precision == "float64":
            why = f"Arrays are read in float32. {why}"
        return Claim(claim, self.difference, tolerance, why)


def _times(n: int, precision: str, power: str) -> str:
    return f"{n} roundings of {precision}, {power} each" if n != 1 else f"1 rounding of {precision}, {power}"
