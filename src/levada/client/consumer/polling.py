"""One poll after another: the group's needs first, then records as soon as there are any."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from levada.client.cluster import Cluster, Deadline
from levada.client.consumer.commits import Commits
from levada.client.consumer.fetcher import Fetcher
from levada.client.consumer.membership import Membership
from levada.client.consumer.positions import Positions
from levada.client.consumer.subscription import Mode, Subscriptions
from levada.client.consumer.wake_signal import WakeSignal
from levada.client.errors import IllegalState, error_for
from levada.model.error_codes import ErrorCode

T = TypeVar("T")

LONGEST_NAP_MS = 1_000
"""A poll that waits looks around so often: automatic commits may be due."""
LONGEST_TURN_MS = 5
"""A loop that only polls lets others have a turn so often, even if it never has to wait."""
FAULTS_TO_TELL = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Polling:
    """What all ways to poll have in common; only one poll at a time."""

    def __init__(
        self,
        cluster: Cluster,
        subscriptions: Subscriptions,
        membership: Membership,
        commits: Commits,
        positions: Positions,
        fetcher: Fetcher,
        wake_signal: WakeSignal,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.world.clock
        self._subscriptions = subscriptions
        self._membership = membership
        self._commits = commits
        self._positions = positions
        self._fetcher = fetcher
        self._wake_signal = wake_signal
        self._is_polling = False
        self._is_woken = False
        self._is_closed = False
        self._turn_began_ms = 0
        self._assignment_seen = -1
        self.polls = 0

    def wake(self) -> None:
        """The poll that waits, or else the next one, returns at once."""
        self._is_woken = True
        self._wake_signal.arrived()

    def close(self) -> None:
        """The poll that waits fails."""
        self._is_closed = True
        self._wake_signal.arrived()

    async def run(self, take: Callable[[], T], timeout_ms: float) -> T:
        """The first that `take` has, or the nothing that it has at the end.

        What it takes counts as consumed, so nothing is awaited after it: a poll that is cancelled takes nothing.
        """
        if self._is_polling:
            raise IllegalState("another poll of this consumer is under way; share the records, not the consumer")
        if self._subscriptions.mode is Mode.NONE:
            raise IllegalState("nothing to poll: subscribe() to topics or assign() partitions first")
        self._is_polling = True
        try:
            return await self._run(take, Deadline(self._clock, timeout_ms))
        finally:
            self._is_polling = False

    async def _run(self, take: Callable[[], T], deadline: Deadline) -> T:
        self.polls += 1
        has_yielded = False
        while True:
            if self._is_closed:
                raise IllegalState("the consumer was closed during a poll")
            self._wake_signal.forget()
            now_ms = self._clock.monotonic_ms()
            self._membership.polled(now_ms)
            await self._membership.advance(deadline)
            await self._commits.auto_commit_if_due()
            self._commits.run_callbacks()
            is_changed = self._wake_signal.take_changed()
            if is_changed or self._assignment_seen != self._subscriptions.assignment_version:
                self._look_around()
            self._positions.raise_failure()
            if self._fetcher.is_behind or now_ms - self._turn_began_ms >= LONGEST_TURN_MS:
                await self._yield()
                has_yielded = True
            taken = take()
            if taken:
                return taken
            if self._is_woken or deadline.is_over:
                if has_yielded:
                    self._is_woken = False
                    return taken
                await self._yield()
                has_yielded = True
                continue
            await self._wake_signal.wait(min(deadline.remaining_ms(), LONGEST_NAP_MS))
            self._turn_began_ms = self._clock.monotonic_ms()
            has_yielded = True

    async def _yield(self) -> None:
        await asyncio.sleep(0)
        self._turn_began_ms = self._clock.monotonic_ms()

    def _look_around(self) -> None:
        """After a change: know the topics, find positions, fetch."""
        subscriptions, cluster = self._subscriptions, self._cluster
        self._assignment_seen = subscriptions.assignment_version
        if subscriptions.mode is Mode.MANUAL:
            cluster.want_only(sorted(subscriptions.topics))
        self._positions.start_if_needed()
        self._fetcher.arrange()
        if subscriptions.mode is Mode.MANUAL:
            for topic in sorted(subscriptions.topics):
                fault = cluster.view.faults.get(topic)
                if fault in FAULTS_TO_TELL:
                    raise error_for(fault, context=f"topic {topic}")
