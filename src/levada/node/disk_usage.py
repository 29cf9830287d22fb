"""Warns of disks that fill up, in time to do something about it."""

import logging
from typing import Final

from levada.storage.log_directories import LogDirectories
from levada.world.clock import Clock
from levada.world.disk import is_out_of_files

logger = logging.getLogger(__name__)

CHECK_INTERVAL_MS: Final = 10_000
URGENT_PERCENT: Final = 95


class DiskUsage:
    """One line when a disk passes a limit, one when it is below again; a second limit is more urgent."""

    def __init__(self, logs: LogDirectories, clock: Clock, warn_percent: int) -> None:
        self._logs = logs
        self._clock = clock
        self._limits = sorted({warn_percent, max(URGENT_PERCENT, warn_percent)})
        self._passed: dict[str, int] = {}
        self._checked_ms: int | None = None

    def check(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._checked_ms is not None and now_ms - self._checked_ms < CHECK_INTERVAL_MS:
            return
        self._checked_ms = now_ms
        for directory in self._logs.online:
            try:
                total, usable = directory.space()
            except OSError as error:
                if not is_out_of_files(error):
                    directory.fail(error)
                continue
            if total:
                self._compare(directory.directory, total, usable)

    def _compare(self, directory: str, total: int, usable: int) -> None:
        percent = 100 * (total - usable) // total
        passed = max((limit for limit in self._limits if percent >= limit), default=0)
        before = self._passed.get(directory, 0)
        self._passed[directory] = passed
        if passed > before:
            logger.log(
                logging.ERROR if passed >= URGENT_PERCENT else logging.WARNING,
                "disk fills up directory=%s used_percent=%d usable_bytes=%d; shorten retention or move replicas",
                directory,
                percent,
                usable,
            )
        elif passed < before:
            logger.info("disk has room again directory=%s used_percent=%d usable_bytes=%d", directory, percent, usable)
