"""Cleaning one log as a worker's task, no faster than the disk's other users can bear."""

import json
import time
from typing import Final

from levada.storage.cleaning.task import clean as clean_log
from levada.world.disk import Disk

TASK: Final = "levada.node.cleaning_task:clean"
LONGEST_SLEEP_SECONDS: Final = 3_600.0
"""Longer ones, of a rate near nothing, may be more than a clock can count."""


def encode(order: bytes, bytes_per_second: float) -> bytes:
    return json.dumps({"bytes_per_second": bytes_per_second}).encode() + b"\n" + order


def clean(argument: bytes, disk: Disk) -> bytes:
    head, _, order = argument.partition(b"\n")
    return clean_log(order, disk, ByteThrottle(json.loads(head)["bytes_per_second"]).pause)


class ByteThrottle:
    """Lets bytes pass at a rate, counted from its beginning."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._start = time.monotonic()
        self._passed = 0

    def pause(self, size: int) -> None:
        self._passed += size
        while (ahead := self._passed / self._rate - (time.monotonic() - self._start)) > 0:
            time.sleep(min(ahead, LONGEST_SLEEP_SECONDS))
