"""A cache bounded by entries and by bytes, shared by all sessions."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """Keeps what was used last, within `max_entries` and `max_bytes`. A value above the bound is given but not kept.

    Two threads that ask for the same key at once make it once: the second waits for the first.
    """

    def __init__(self, *, max_entries: int, max_bytes: int, size_of: Callable[[T], int]) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this key, made now where it is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._values:
                    return self._values[key]
            try:
                value = make()
                self._keep(key, value)
            finally:
                with self._lock:
                    self._making.pop(key, None)
            return value

    def _keep(self, key: Hashable, value: T) -> None:
        size = self._size_of(value)
        with self._lock:
            if size > self._max_bytes or key in self._values:  # a second maker came in between
                return
            self._values[key] = value
            self.n_bytes += size
            while len(self._values) > self._max_entries or self.n_bytes > self._max_bytes:
                _, oldest = self._values.popitem(last=False)
                self.n_bytes -= self._size_of(oldest)
