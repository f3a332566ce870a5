"""What the canvas components share: the packet that carries arrays, and the announcement that carries a choice."""

from components.canvas.announce import announce, echo_key, module, style
from components.canvas.packet import read_packet, write_packet
from components.canvas.pick import LAST_SERIAL, clamp, sent

__all__ = [
    "LAST_SERIAL",
    "announce",
    "clamp",
    "echo_key",
    "module",
    "read_packet",
    "sent",
    "style",
    "write_packet",
]
