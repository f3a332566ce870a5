"""Pre-LN beside Post-LN: every view of two encoders on the same text, with one scale."""

from collections.abc import Callable
from typing import Final

from components.panels.beside import attention, layernorm, proof, residual, shapes
from components.panels.look import Look

BESIDE: Final[dict[str, Callable[[Look, Look], None]]] = {
    "attention": attention.show,
    "layernorm": layernorm.show,
    "residual": residual.show,
    "shapes": shapes.show,
    "proof": proof.show,
}
"""One function a view. The first run is Post-LN, the second Pre-LN, whichever the reader came from."""

__all__ = ["BESIDE"]
