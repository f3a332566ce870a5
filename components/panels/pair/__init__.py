"""Two runs side by side: every view of A and B, or of both norm placements, and what differs between them."""

from collections.abc import Callable
from typing import Final

from components.panels.pair import attention, compare, layernorm, proof, residual, shapes
from components.panels.pair.two import Two

OF_TWO: Final[dict[str, Callable[[Two], None]]] = {
    "attention": attention.show,
    "layernorm": layernorm.show,
    "residual": residual.show,
    "shapes": shapes.show,
    "proof": proof.show,
    "compare": compare.show,
}
"""One function a view. Differences are those of the second run less the first."""

__all__ = ["OF_TWO", "Two"]
