"""What the canvas components share: the packet that carries arrays, and the announcement that carries a choice."""

from components.canvas.announce import announce, echo_key, module, style
from components.canvas.packet import read_packet, write_packet

__all__ = ["announce", "echo_key", "module", "read_packet", "style", "write_packet"]
