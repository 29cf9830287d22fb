"""Large sections are read without the interpreter lock: a thread that opens a batch does not hold up the event loop."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from levada.records import CorruptBatch, _kernel, pure

# length 6, attributes, timestamp delta, offset delta, null key, null value, no headers
EMPTY = bytes([12, 0, 0, 0, 1, 1, 0])
RECORDS = (1 << 20) // len(EMPTY) + 1
LARGE = EMPTY * RECORDS
READERS: dict[str, Callable[[ModuleType, bytes, int], object]] = {
    "scan": lambda kernel, body, count: kernel.scan(body, count),
    "find_since": lambda kernel, body, count: kernel.find_since(body, count, 0, 0, None, 5, 0),
    "find_unfit": lambda kernel, body, count: kernel.find_unfit(body, count, 0, -5, 5, False, 10),
}


@contextmanager
def no_thread_must_give_way() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def lets_others_run(read: Callable[[], object]) -> bool:
    """Whether a thread that is ready has its turn while a call is made."""
    gate, turns = threading.Lock(), []

    def take_turn() -> None:
        with gate:
            turns.append(True)

    with no_thread_must_give_way():
        gate.acquire()
        thread = threading.Thread(target=take_turn)
        thread.start()
        # It is at the gate then.
        time.sleep(0.01)
        gate.release()
        read()
        had_turn = bool(turns)
        thread.join()
    return had_turn


@pytest.mark.parametrize("name", READERS)
def test_other_threads_run_while_a_large_section_is_read(name: str) -> None:
    body, count = LARGE * 8, RECORDS * 8
    # The machine may be too busy for a thread to come to its turn at once.
    assert any(lets_others_run(lambda: READERS[name](_kernel, body, count)) for _ in range(20))


@pytest.mark.parametrize("name", READERS)
def test_the_lock_is_kept_where_it_would_take_longer_to_get_it_back(name: str) -> None:
    body, count = EMPTY * (RECORDS - 2), RECORDS - 2
    assert not any(lets_others_run(lambda: READERS[name](_kernel, body, count)) for _ in range(3))


@pytest.mark.parametrize("name", READERS)
def test_large_sections_are_read_as_small_ones_are(name: str) -> None:
    read = READERS[name]
    late, damaged = bytes([12, 0, 24, 2, 1, 1, 0]), bytes([14, 0, 24, 0, 1, 1, 0, 0])
    for body, count in ((LARGE, RECORDS), (LARGE + late, RECORDS + 1)):
        assert read(_kernel, body, count) == read(pure, body, count)
    for body, count in ((LARGE, RECORDS + 1), (LARGE + damaged, RECORDS + 1), (LARGE, -1)):
        for kernel in (_kernel, pure):
            with pytest.raises(CorruptBatch):
                read(kernel, body, count)
