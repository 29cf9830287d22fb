"""What fails for reasons that pass is repeated until its time is over; the last reason is told."""

import asyncio
import time
from typing import Any

import pytest

from levada.client.cluster import Cluster, Deadline
from levada.client.errors import Disconnected, IllegalState, TimedOut, TopicAuthorizationFailed
from levada.client.options import producer_options
from levada.world.real import real_client_world
from tests.unit.client.producer.bench import options_of


def cluster_of(**options: Any) -> Cluster:
    return Cluster(real_client_world(), options_of(retry_backoff_ms=1, retry_backoff_max_ms=2, **options))


class Attempts:
    """Fails with these, then succeeds."""

    def __init__(self, *failures: BaseException) -> None:
        self.count = 0
        self._failures = list(failures)

    async def __call__(self) -> str:
        self.count += 1
        if self._failures:
            raise self._failures.pop(0)
        return "done"


def persist(attempt: Any, timeout_ms: float | None = 5_000, setting: str = "") -> Any:
    async def main() -> Any:
        cluster = cluster_of()
        deadline = Deadline(cluster.world.clock, timeout_ms)
        return await cluster.persist(attempt, deadline, "it was not done", setting=setting)

    return asyncio.run(main())


def test_what_passes_is_repeated() -> None:
    attempts = Attempts(Disconnected("gone"), TimedOut("late"), Disconnected("gone"))
    assert persist(attempts, None) == "done"
    assert attempts.count == 4


def test_what_does_not_pass_is_raised_at_once() -> None:
    attempts = Attempts(TopicAuthorizationFailed("no"))
    with pytest.raises(TopicAuthorizationFailed):
        persist(attempts)
    assert attempts.count == 1


def test_the_last_reason_is_told_when_the_time_is_over() -> None:
    attempts = Attempts(*[Disconnected("no broker listens there") for _ in range(10_000)])
    with pytest.raises(TimedOut, match=r"it was not done within 50 ms \(max\.block\.ms\); .*no broker listens there"):
        persist(attempts, 50, "max.block.ms")
    assert attempts.count > 2


def test_an_attempt_that_hangs_is_ended() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    start = time.monotonic()
    with pytest.raises(TimedOut, match="it was not done within 50 ms"):
        persist(hang, 50)
    assert time.monotonic() - start < 5


def test_no_time_is_an_error_at_once() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimedOut, match="it was not done: a timeout of 0 leaves no time to ask a broker"):
        persist(hang, 0)


def test_the_longest_time_there_is_can_be_given() -> None:
    assert persist(Attempts(Disconnected("gone")), 2**63 - 1) == "done"


def test_a_cluster_that_is_not_reached_says_which_address_was_tried() -> None:
    async def main() -> None:
        # No process listens there, and an ordinary user cannot.
        cluster = Cluster(real_client_world(), producer_options("localhost:1", {"reconnect_backoff_ms": 10}))
        try:
            await cluster.topic("t", Deadline(cluster.world.clock, 300))
        finally:
            await cluster.close()

    with pytest.raises(
        TimedOut,
        match=r"no Kafka broker has answered in 0\.\d s \(max\.block\.ms\): localhost:1 refused the connection",
    ):
        asyncio.run(main())


def test_a_closed_cluster_says_so() -> None:
    async def main() -> None:
        cluster = cluster_of()
        cluster.start()
        await cluster.close()
        with pytest.raises(IllegalState, match="closed"):
            await cluster.refresh()

    asyncio.run(main())
