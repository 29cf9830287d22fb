"""Recovery of one log as a worker's task: afterwards the log is as if it had been closed."""

import json

from levada.storage.loading import LogState, open_log
from levada.storage.log_config import LogConfig
from levada.storage.recovery import Cut
from levada.world.disk import Disk

TASK = "levada.storage.recovery_task:recover"


def encode_task(directory: str, config: LogConfig, state: LogState, now_ms: int) -> bytes:
    fields = {name: getattr(config, name) for name in LogConfig.__dataclass_fields__}
    order = {
        "directory": directory,
        "config": fields,
        "recovery_point": state.recovery_point,
        "start_offset": state.start_offset,
        "now_ms": now_ms,
    }
    return json.dumps(order).encode()


def recover(argument: bytes, disk: Disk) -> bytes:
    order = json.loads(argument)
    state = LogState(recovery_point=order["recovery_point"], start_offset=order["start_offset"])
    config = LogConfig(**order["config"])
    log, cuts = open_log(disk, order["directory"], config, now_ms=order["now_ms"], state=state)
    log.close()
    return json.dumps([[cut.path, cut.kept_bytes, cut.lost_bytes, cut.reason] for cut in cuts]).encode()


def decode_cuts(reply: bytes) -> list[Cut]:
    return [Cut(*fields) for fields in json.loads(reply)]
