"""Which devices really work here."""

import functools
from typing import Final

import torch

DEVICES: Final = ("cuda", "mps", "cpu")
"""In the order of the automatic choice."""


@functools.cache
def works(device: str) -> bool:
    """Whether one element can be computed there and brought back. A driver that is listed but broken does not count."""
    try:
        return (torch.ones(1, device=device) + 1).item() == 2
    except (RuntimeError, AssertionError, NotImplementedError):  # torch's ways to say that a backend is not there
        return False


def available() -> list[str]:
    """The devices that work, best first. The CPU is always among them."""
    return [device for device in DEVICES if works(device)]


def choose(wanted: str = "auto") -> tuple[str, str | None]:
    """The device to use, and a sentence for the reader where it is not the one that was asked for."""
    found = available()
    if wanted == "auto":
        return found[0], None
    if wanted in found:
        return wanted, None
    return "cpu", f"The device {wanted} is not available here. The CPU was used."


def synchronize(device: str) -> None:
    """Waits until the device has finished, so that a clock read afterwards is honest."""
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()
