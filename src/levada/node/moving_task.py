"""Copying closed segments as a worker's task, no faster than was asked for."""

import json
from collections.abc import Sequence
from typing import Final

from levada.node.cleaning_task import ByteThrottle
from levada.storage.copying import copy_files
from levada.world.disk import Disk

TASK: Final = "levada.node.moving_task:copy"


class SourceGone(Exception):
    """Retention has taken what was to be copied."""


class CopyFailed(Exception):
    """The disk did not let it be copied."""


def encode_order(source: str, target: str, names: Sequence[str], bytes_per_second: float) -> bytes:
    order = {"source": source, "target": target, "names": list(names), "bytes_per_second": bytes_per_second}
    return json.dumps(order).encode()


def copy(argument: bytes, disk: Disk) -> bytes:
    """In the worker: nothing, or why it could not be done."""
    order = json.loads(argument)
    throttle = ByteThrottle(order["bytes_per_second"])
    try:
        copy_files(disk, order["source"], order["target"], order["names"], throttle.pause)
    except FileNotFoundError as error:
        return json.dumps({"gone": str(error)}).encode()
    except OSError as error:
        return json.dumps({"failure": str(error)}).encode()
    return b"{}"


def check_reply(reply: bytes) -> None:
    """SourceGone or CopyFailed, unless all was copied."""
    fields = json.loads(reply)
    if "gone" in fields:
        raise SourceGone(fields["gone"])
    if "failure" in fields:
        raise CopyFailed(fields["failure"])
