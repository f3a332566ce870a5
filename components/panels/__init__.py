"""The views: one function each, which draws the figure, says how to read it, and gives the numbers."""

from collections.abc import Callable
from typing import Final

from components.panels import attention, laboratory, layernorm, padding, proof, residual, shapes
from components.panels.look import Look
from components.panels.pair import OF_TWO, Two
from components.request import Pair

ALL: Final[dict[str, Callable[[Look], None]]] = {
    "attention": attention.show,
    "layernorm": layernorm.show,
    "residual": residual.show,
    "shapes": shapes.show,
    "padding": padding.show,
    "proof": proof.show,
    "laboratory": laboratory.show,
}
NAMES: Final[dict[str, str]] = {
    "attention": "Attention",
    "layernorm": "LayerNorm",
    "residual": "Residual stream",
    "shapes": "Shapes",
    "padding": "Padding",
    "proof": "Proof",
    "laboratory": "Laboratory",
}


def names(pair: Pair | None) -> dict[str, str]:
    """What the views are called. Where two runs are compared there is one more, and it is the first."""
    return NAMES if pair is None else {"compare": " and ".join(pair.names)} | NAMES


__all__ = ["ALL", "NAMES", "OF_TWO", "Look", "Two", "names"]
