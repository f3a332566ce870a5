"""Devices: only those that work are offered, and the CPU always is."""

import pytest
import torch

from explorer import available_devices, device


def test_the_cpu_always_works_and_comes_last():
    assert device.works("cpu")
    assert available_devices()[-1] == "cpu"
    assert set(available_devices()) <= set(device.DEVICES)


def test_the_automatic_choice_is_the_best_that_works():
    assert device.choose("auto") == (available_devices()[0], None)
    assert device.choose() == device.choose("auto")


@pytest.mark.parametrize("wanted", ["xpu", "cuda:99", "", "gpu", "meta"])
def test_a_device_that_is_not_offered_becomes_the_cpu_with_a_note(wanted):
    """C6. `meta` computes nothing: it must never be offered."""
    used, note = device.choose(wanted)
    assert used == "cpu"
    assert note == f"The device {wanted} is not available here. The CPU was used."


def test_a_device_that_is_there_needs_no_note():
    for name in available_devices():
        assert device.choose(name) == (name, None)


@pytest.mark.parametrize("error", [RuntimeError, AssertionError, NotImplementedError])
def test_a_driver_that_is_listed_but_broken_does_not_count(monkeypatch, error):
    """A probe that asks `is_available()` would offer it, and the run would crash."""

    def broken(*args, **kwargs):
        raise error("no kernel image")

    device.works.cache_clear()
    monkeypatch.setattr(torch, "ones", broken)
    try:
        assert not device.works("cuda")
    finally:
        device.works.cache_clear()


def test_a_device_that_computes_wrong_does_not_count(monkeypatch):
    device.works.cache_clear()
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, device: ones(*size) * 3)
    try:
        assert not device.works("mps")
    finally:
        device.works.cache_clear()


def test_waiting_for_each_device_that_works():
    for name in available_devices():
        device.synchronize(name)
