"""The watchdog of a session: who ends it when the loop hangs, and when not."""

import asyncio
import threading
import time

from levada.doors.zookeeper_watchdog import LoopWatchdog

TIMEOUT_MS = 200


class Session:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_dead = False
        self.changed = threading.Event()

    def close(self) -> None:
        self.events.append("close")
        self.changed.set()

    def has_ended(self) -> bool:
        return self.is_dead

    def reopen(self) -> None:
        self.is_dead = False
        self.events.append("reopen")
        self.changed.set()

    def watchdog(self) -> LoopWatchdog:
        return LoopWatchdog(TIMEOUT_MS, self.close, self.has_ended, self.reopen)

    async def until(self, *events: str) -> None:
        while self.events != list(events):
            await asyncio.sleep(0.005)


def run(session: Session, *, hang_s: float = 0.0, events: tuple[str, ...] = ()) -> None:
    async def main() -> None:
        watchdog = session.watchdog()
        watchdog.start()
        await asyncio.sleep(0.05)
        if hang_s:
            # Until it is closed, so that a busy machine does not fail this.
            time.sleep(hang_s)  # noqa: ASYNC251
            session.changed.wait(10)
        async with asyncio.timeout(10):
            await session.until(*events)
        watchdog.stop()

    asyncio.run(main())


def test_a_session_whose_loop_hangs_is_closed_and_opened_again_when_it_turns() -> None:
    run(Session(), hang_s=TIMEOUT_MS / 1000, events=("close", "reopen"))


def test_a_session_whose_loop_turns_is_left_alone() -> None:
    session = Session()

    async def main() -> None:
        watchdog = session.watchdog()
        watchdog.start()
        for _ in range(20):
            await asyncio.sleep(TIMEOUT_MS / 10_000)
        watchdog.stop()

    asyncio.run(main())
    assert session.events == []


def test_a_session_that_has_ended_by_itself_is_opened_again() -> None:
    session = Session()
    session.is_dead = True
    run(session, events=("reopen",))
