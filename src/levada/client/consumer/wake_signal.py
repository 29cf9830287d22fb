"""Wakes a poll that waits: records came, or something changed that has to be looked into first."""

import asyncio

from levada.client.consumer.background import happens


class WakeSignal:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_changed = True

    def arrived(self) -> None:
        """There may be records to hand out."""
        self._event.set()

    def changed(self) -> None:
        """Assignment, positions, leaders or pauses are not what they were."""
        self._is_changed = True
        self._event.set()

    def take_changed(self) -> bool:
        """Whether something changed since the last time."""
        is_changed, self._is_changed = self._is_changed, False
        return is_changed

    def forget(self) -> None:
        """What was told so far is about to be looked into."""
        self._event.clear()

    async def wait(self, wait_ms: float) -> None:
        await happens(self._event, wait_ms)
