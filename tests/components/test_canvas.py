"""What all canvases share: the packet, and the announcement beside it."""

import pytest

from components.canvas import announce, read_packet, write_packet


@pytest.mark.parametrize("tokens", [["a"], ["\u200b", "</script>", "\ud83d", '"\\\n'], []])
def test_a_packet_is_read_as_it_was_written_and_its_body_is_aligned_for_floats(tokens):
    for body in (b"", b"\x00\x01\x02\x03"):
        packet = write_packet({"tokens": tokens}, body)
        assert read_packet(packet) == ({"tokens": tokens}, body)
        assert (len(packet) - len(body)) % 4 == 0


def test_a_packet_never_carries_what_a_browser_cannot_read():
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_packet({"mean": float("nan")}, b"")


def test_a_key_that_is_no_class_name_is_refused():
    with pytest.raises(ValueError, match="letters, digits"):
        announce("the grid", layer=0)
