"""Long work of one session, step by step in a thread of its own, while the page stays usable."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Generic, Literal, TypeVar

logger = logging.getLogger(__name__)

Step = TypeVar("Step")
Stage = Literal["running", "paused", "stopped", "done", "failed"]
MAX_SECONDS: Final = 180
"""What a piece of work may take in all, pauses left out."""
LOOK_AGAIN: Final = 0.2  # seconds between two looks whether a pause is over


class Worker(Generic[Step]):
    """Runs an iterator to its end. What it has given so far is read without a lock.

    Between two steps it may be paused, resumed and stopped. It stops by itself when the session that wanted it has
    left, and after `MAX_SECONDS`. Each step passes a gate that all sessions share, so nobody waits for long.
    """

    def __init__(
        self,
        steps: Iterator[Step],
        *,
        total: int,
        keep: int | None = None,
        wanted: Callable[[], bool] = lambda: True,
        gate: AbstractContextManager[object] | None = None,
    ) -> None:
        """`total` is how many steps there will be, of which the last `keep` are kept; None keeps all.

        `wanted` says whether anybody still waits for them.
        """
        self.total = total
        self.n_done = 0
        self._results: deque[Step] = deque(maxlen=keep)
        self.error: BaseException | None = None
        self._steps, self._wanted, self._gate = steps, wanted, gate or nullcontext()
        self._go, self._end = threading.Event(), threading.Event()
        self._go.set()
        self._stage: Stage = "running"
        self._spent = 0.0
        self._thread = threading.Thread(target=self._run, name="laboratory", daemon=True)
        self._thread.start()

    @property
    def stage(self) -> Stage:
        """What it does now. `stopped` and `failed` keep what was there."""
        return "paused" if self._stage == "running" and not self._go.is_set() else self._stage

    @property
    def alive(self) -> bool:
        """Whether there may be more to come."""
        return self._stage == "running"

    @property
    def results(self) -> list[Step]:
        """What is kept of what it has given so far, in order."""
        return list(self._results)

    @property
    def seconds(self) -> float:
        """Time spent on steps so far."""
        return self._spent

    def pause(self) -> None:
        """Stands still after the present step."""
        self._go.clear()

    def resume(self) -> None:
        """Goes on after a pause."""
        self._go.set()

    def stop(self) -> None:
        """Ends after the present step, and waits for it."""
        self._end.set()
        self._go.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._end.is_set() and self._wanted() and self._spent < MAX_SECONDS:
                if not self._go.wait(LOOK_AGAIN):
                    continue
                with self._gate:
                    start = time.perf_counter()
                    step = next(self._steps)
                    self._spent += time.perf_counter() - start
                self._results.append(step)
                self.n_done += 1
            self._stage = "stopped"
        except StopIteration:
            self._stage = "done"
        except Exception as error:
            logger.exception("laboratory")
            self.error = error
            self._stage = "failed"
        finally:
            self._steps = iter(())  # what it held, such as an optimiser, is not kept with its results
