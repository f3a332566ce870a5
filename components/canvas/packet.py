"""How arrays travel to a canvas: a small header and bytes, as one bytes object.

Streamlit hands bytes to a component exactly, but only as its whole data: within a dict they become text.

    4 bytes      length of the header, little-endian
    header       JSON, with spaces after it until the body starts at a multiple of 4; texts are plain, never HTML
    body         bytes; what they are is said by the header
"""

import json
from typing import Any

ALIGNMENT = 4


def write_packet(header: dict[str, Any], body: bytes) -> bytes:
    """Header and body as one bytes object. The body is aligned, so that a browser can read floats in place."""
    # ASCII escapes carry any token, even half of a surrogate pair, through UTF-8.
    head = json.dumps(header, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("utf-8")
    head += b" " * (-len(head) % ALIGNMENT)
    return len(head).to_bytes(4, "little") + head + body


def read_packet(packet: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and body of what `write_packet` made."""
    start = 4 + int.from_bytes(packet[:4], "little")
    return json.loads(packet[4:start]), packet[start:]
