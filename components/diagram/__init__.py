"""The encoder block as a diagram with live shapes: every value that is recorded can be chosen in it."""

from components.diagram.layout import Layout, block_layout
from components.diagram.mount import block_diagram, read_pick

__all__ = ["Layout", "block_diagram", "block_layout", "read_pick"]
