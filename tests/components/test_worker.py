"""Work of a session in a thread of its own: it grows, waits, ends, and never raises on the page."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from components import worker as module
from components.worker import Worker


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def counted(started: threading.Event | None = None, *, of: int = 10**9) -> Iterator[int]:
    for number in range(of):
        if started:
            started.set()
        time.sleep(0.002)
        yield number


def test_it_runs_to_its_end_and_keeps_the_order() -> None:
    work = Worker(counted(of=5), total=5)
    until(lambda: not work.alive)
    assert (work.stage, work.results) == ("done", [0, 1, 2, 3, 4])
    assert work.seconds >= 5 * 0.002


def test_a_pause_stands_still_and_a_stop_ends() -> None:
    work = Worker(counted(), total=10)
    until(lambda: len(work.results) > 2)
    work.pause()
    assert work.stage == "paused"
    time.sleep(0.05)  # the step that was under way
    still = len(work.results)
    time.sleep(0.1)
    assert len(work.results) == still
    assert work.alive
    work.resume()
    until(lambda: len(work.results) > still)
    work.stop()
    ended = len(work.results)
    assert work.stage == "stopped"
    assert work.results == list(range(ended))
    time.sleep(0.05)
    assert len(work.results) == ended


def test_it_can_be_stopped_in_a_pause() -> None:
    work = Worker(counted(), total=10)
    work.pause()
    work.stop()
    assert work.stage == "stopped"


def test_it_ends_when_nobody_waits_for_it_any_more() -> None:
    here = [True]
    work = Worker(counted(), total=10, wanted=lambda: here[0])
    until(lambda: len(work.results) > 1)
    work.pause()
    here[0] = False
    until(lambda: not work.alive)
    assert work.stage == "stopped"


def test_it_is_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SECONDS", 0.02)
    work = Worker(counted(), total=10**9)
    until(lambda: not work.alive)
    assert work.stage == "stopped"
    assert 0.02 <= work.seconds < 5


def test_a_fault_is_kept_and_what_was_there_stays() -> None:
    def faulty() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    work = Worker(faulty(), total=3)
    until(lambda: not work.alive)
    assert (work.stage, work.results) == ("failed", [1])
    assert isinstance(work.error, ValueError)


def test_every_step_passes_the_gate_that_all_share() -> None:
    gate = threading.BoundedSemaphore(1)
    gate.acquire()
    work = Worker(counted(of=3), total=3, gate=gate)
    time.sleep(0.05)
    assert work.results == []
    gate.release()
    until(lambda: not work.alive)
    assert work.results == [0, 1, 2]
    assert gate.acquire(blocking=False)
