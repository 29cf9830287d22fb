"""What the machine must allow for a node to run well, checked when it starts; what a node allows its clients."""

from levada.broker.broker_config import BrokerConfig
from levada.model.config_checks import connection_overrides
from levada.net.open_connections import ConnectionLimits, canonical_ip
from levada.storage.open_files import DEFAULT_LIMIT

FILES_PER_SEGMENT = 3
RESERVED_FILES = 256
"""For connections, checkpoints and the process itself."""
OTHER_FILES = 192
"""For all but logs and clients: checkpoints, the coordinator, workers, watchers of metrics, clients turned away."""


def open_files_warning(allowed: int, segments: int) -> str | None:
    """What to say when not every file of every segment could be open at once; None when they could."""
    wanted = segments * FILES_PER_SEGMENT + RESERVED_FILES
    if wanted <= allowed:
        return None
    return (
        f"{allowed} open files are allowed and {wanted} wanted ({segments} segments x {FILES_PER_SEGMENT} files, "
        f"{RESERVED_FILES} for the rest): segments are opened and closed as they are read; "
        f"raise the limit with ulimit -n {wanted}"
    )


def files_kept_open(allowed: int) -> int:
    """How many files of logs may stay open; the rest of the allowance is for connections."""
    return min(max(min(allowed // 2, allowed - RESERVED_FILES), 16), DEFAULT_LIMIT)


def connections_possible(allowed: int) -> int:
    """How many connections leave enough files for the logs and the rest: without these, nothing can be written."""
    return max(allowed - files_kept_open(allowed) - min(OTHER_FILES, allowed // 3), 1)


def connection_limits(config: BrokerConfig, open_files_allowed: int) -> ConnectionLimits:
    return ConnectionLimits(
        most_possible=connections_possible(open_files_allowed),
        max_connections=config["max.connections"],
        max_per_ip=config["max.connections.per.ip"],
        per_ip_overrides=_per_ip(config["max.connections.per.ip.overrides"]),
        idle_ms=config["connections.max.idle.ms"],
    )


def _per_ip(text: str) -> dict[str, int]:
    # A text that is none was refused when it was set.
    overrides = connection_overrides(text) or {}
    return {canonical_ip(host.removeprefix("[").removesuffix("]")): count for host, count in overrides.items()}
