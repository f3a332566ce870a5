"""The shared cache: bounded by entries and by bytes, and one make for all who wait for it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import BoundedCache

WAIT = 10  # seconds until a thread that should be awake by now is given up


def cache(entries: int = 3, size: int = 100) -> BoundedCache[str]:
    """Texts, one byte a character."""
    return BoundedCache(max_entries=entries, max_bytes=size, size_of=len)


def never() -> str:
    """For a value that must be kept."""
    raise AssertionError("made again")


def kept(values: BoundedCache[str], *keys: str) -> list[str]:
    """Those of the keys that need no making."""
    found = []
    for key in keys:
        try:
            values.get(key, never)
        except AssertionError:
            continue
        found.append(key)
    return found


def fill(values: BoundedCache[str], *keys: str, size: int = 1) -> None:
    for key in keys:
        values.get(key, lambda key=key: key * size)


def test_a_value_is_made_once() -> None:
    values = cache()
    first = values.get("a", lambda: "A")
    assert values.get("a", never) is first
    assert len(values) == 1
    assert values.n_bytes == 1


def test_no_more_entries_than_allowed() -> None:
    values = cache(entries=3)
    fill(values, *"abcde")
    assert len(values) == 3
    assert values.n_bytes == 3
    assert kept(values, *"abcde") == ["c", "d", "e"]


def test_no_more_bytes_than_allowed() -> None:
    values = cache(entries=9, size=10)
    fill(values, *"abc", size=4)
    assert values.n_bytes == 8
    assert kept(values, *"abc") == ["b", "c"]


def test_a_large_value_may_cost_several_small_ones() -> None:
    values = cache(entries=9, size=10)
    fill(values, *"abcd", size=2)
    values.get("e", lambda: "e" * 9)
    assert kept(values, *"abcde") == ["e"]
    assert values.n_bytes == 9


def test_the_least_recently_used_leaves_first() -> None:
    values = cache(entries=3)
    fill(values, *"abc")
    values.get("a", never)
    fill(values, "d")
    assert kept(values, *"abcd") == ["a", "c", "d"]


def test_a_value_above_the_bound_is_given_but_not_kept() -> None:
    values = cache(entries=3, size=10)
    fill(values, "a")
    assert values.get("big", lambda: "x" * 11) == "x" * 11
    assert values.get("big", lambda: "y" * 11) == "y" * 11
    assert kept(values, "a", "big") == ["a"]
    assert values.n_bytes == 1


def test_a_value_as_large_as_the_bound_is_kept() -> None:
    values = cache(size=10)
    values.get("a", lambda: "x" * 10)
    assert kept(values, "a") == ["a"]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 12)), max_size=40))
def test_the_bounds_hold_and_the_bytes_are_counted_after_any_history(asked: list[tuple[str, int]]) -> None:
    values = cache(entries=4, size=10)
    model: dict[str, str] = {}  # in order of use
    for key, size in asked:
        made = f"{key}" * size
        expected = model.get(key, made)
        assert values.get(key, lambda made=made: made) == expected
        model.pop(key, None)
        if len(expected) <= 10:
            model[key] = expected
        while len(model) > 4 or sum(map(len, model.values())) > 10:
            model.pop(next(iter(model)))
        assert len(values) == len(model)
        assert values.n_bytes == sum(map(len, model.values()))


def test_a_make_that_raises_keeps_nothing_and_locks_nothing() -> None:
    values = cache()

    def broken() -> str:
        raise RuntimeError("no memory")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no memory"):
            values.get("a", broken)
    assert len(values) == values.n_bytes == 0
    with ThreadPoolExecutor(1) as pool:  # another thread, for a lock would not stop this one alone
        assert pool.submit(values.get, "a", lambda: "A").result(WAIT) == "A"
    assert not values._making


def test_a_size_that_cannot_be_told_locks_nothing() -> None:
    values: BoundedCache[str | None] = BoundedCache(max_entries=3, max_bytes=10, size_of=len)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        values.get("a", lambda: None)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(values.get, "a", lambda: "A").result(WAIT) == "A"


def together(n: int, ask: Callable[[], str]) -> list[str]:
    """What n threads get that ask at the same moment."""
    ready = threading.Barrier(n)

    def one(_: int) -> str:
        ready.wait(WAIT)
        return ask()

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(one, range(n), timeout=WAIT))


def test_many_threads_that_ask_for_one_key_make_it_once() -> None:
    values = cache()
    made = []
    others = threading.Event()

    def slow() -> str:
        made.append(threading.get_ident())
        others.wait(0.05)  # long enough for the others to arrive
        return "A"

    found = together(16, lambda: values.get("a", slow))
    assert len(made) == 1
    assert all(value is found[0] for value in found)
    assert not values._making


def test_who_waited_for_a_make_that_failed_makes_it_himself() -> None:
    values = cache()
    lock = threading.Lock()
    tries = []

    def first_fails() -> str:
        with lock:
            tries.append(1)
            number = len(tries)
        if number == 1:
            threading.Event().wait(0.05)
            raise RuntimeError("first")
        return "A"

    def ask() -> str:
        try:
            return values.get("a", first_fails)
        except RuntimeError:
            return "failed"

    assert sorted(together(8, ask)) == ["A"] * 7 + ["failed"]
    assert values.n_bytes == len(values) == 1


def test_a_value_above_the_bound_is_given_to_all_who_wait_for_it() -> None:
    values = cache(size=4)
    assert together(8, lambda: values.get("big", lambda: "x" * 5)) == ["x" * 5] * 8
    assert values.n_bytes == 0


def test_a_slow_make_holds_up_nobody_who_asks_for_another_key() -> None:
    values = cache()
    begun, go = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go.wait(WAIT)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(values.get, "slow", slow)
        assert begun.wait(WAIT)
        assert values.get("fast", lambda: "fast") == "fast"
        assert not waiting.done()
        go.set()
        assert waiting.result(WAIT) == "slow"


def test_bytes_are_counted_once_however_many_threads_fill_the_cache() -> None:
    values = cache(entries=5, size=1_000)
    keys = [f"{i % 12}" for i in range(240)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda key: values.get(key, lambda: key), keys, timeout=WAIT))
    assert found == keys
    assert len(values) == 5
    assert values.n_bytes == sum(len(value) for value in values._values.values())
