"""Pauses that grow, deadlines, and tasks that several wait for."""

import asyncio
import gc
import random

import pytest

from levada.client.cluster import Backoff, Deadline, background
from levada.client.cluster.waiting import shared
from levada.client.errors import Disconnected
from tests.unit.client.producer.bench import FakeClock, FakeEntropy


class Chance:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, size: int) -> bytes:
        return bytes(size)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def test_pauses_double_up_to_a_limit() -> None:
    backoff = Backoff(FakeEntropy(), 100, 1_000)
    assert [backoff.pause_ms(failures) for failures in range(7)] == [0, 100, 200, 400, 800, 1_000, 1_000]
    assert backoff.pause_ms(10_000) == 1_000


def test_chance_makes_a_pause_a_fifth_longer_or_shorter() -> None:
    pauses = [Backoff(Chance(seed), 100, 1_000).pause_ms(3) for seed in range(200)]
    assert 320 <= min(pauses) < 340
    assert 460 < max(pauses) <= 480


def test_without_a_first_pause_there_is_none() -> None:
    assert Backoff(FakeEntropy(), 0, 1_000).pause_ms(5) == 0


def test_a_limit_below_the_first_pause_is_the_first_pause() -> None:
    assert Backoff(FakeEntropy(), 500, 100).pause_ms(4) == 500


def test_a_deadline_runs_down_and_stays_over() -> None:
    clock = FakeClock()
    deadline = Deadline(clock, 300)
    assert (deadline.remaining_ms(), deadline.is_over) == (300, False)
    clock.ms += 299
    assert (deadline.remaining_ms(), deadline.is_over) == (1, False)
    clock.ms += 100
    assert (deadline.remaining_ms(), deadline.is_over) == (0, True)


def test_without_a_limit_a_deadline_is_never_over() -> None:
    clock = FakeClock()
    deadline = Deadline(clock, None)
    clock.ms += 10**15
    assert not deadline.is_over


def test_no_time_at_all_is_over_at_once() -> None:
    assert Deadline(FakeClock(), 0).is_over


def test_who_waits_for_a_shared_task_is_not_cancelled_with_it() -> None:
    async def main() -> None:
        task = background(asyncio.Event().wait())
        waiting = [asyncio.create_task(shared(task)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert not task.done(), "the other still waits"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        with pytest.raises(Disconnected, match="closed by this client"):
            await waiting[1]

    asyncio.run(main())


def test_a_task_that_is_left_behind_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        background(never())
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    del loop
    gc.collect()
    assert not caplog.records
