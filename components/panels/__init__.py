"""The views: one function each, which draws the figure, says how to read it, and gives the numbers."""

from collections.abc import Callable
from typing import Final

from components.panels import attention, laboratory, layernorm, proof, residual, shapes
from components.panels.beside import BESIDE
from components.panels.look import Look

ALL: Final[dict[str, Callable[[Look], None]]] = {
    "attention": attention.show,
    "layernorm": layernorm.show,
    "residual": residual.show,
    "shapes": shapes.show,
    "proof": proof.show,
    "laboratory": laboratory.show,
}
NAMES: Final = {
    "attention": "Attention",
    "layernorm": "LayerNorm",
    "residual": "Residual stream",
    "shapes": "Shapes",
    "proof": "Proof",
    "laboratory": "Laboratory",
}

__all__ = ["ALL", "BESIDE", "NAMES", "Look"]
