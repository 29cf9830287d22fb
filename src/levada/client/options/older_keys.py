"""Keys of clients before Kafka 0.9, and what they are today: old files, scripts and habits go on to work."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from levada.client.errors import ConfigurationError

LONGEST_MS: Final = 2**63 - 1
MAX_WAITING_RECORDS: Final = "queue.buffering.max.messages"
MAX_BATCH_RECORDS: Final = "batch.num.messages"


class Newer(NamedTuple):
    name: str
    value: Callable[[str], str] = str
    """What an older value is today."""


def _codec(value: str) -> str:
    return {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4"}.get(value, value)


def _reset(value: str) -> str:
    return {"smallest": "earliest", "largest": "latest"}.get(value, value)


OLD_PRODUCER: Final[Mapping[str, Newer]] = {
    "metadata.broker.list": Newer("bootstrap.servers"),
    "request.required.acks": Newer("acks"),
    "message.send.max.retries": Newer("retries"),
    "compression.codec": Newer("compression.type", _codec),
    "queue.buffering.max.ms": Newer("linger.ms"),
}
OLD_CONSUMER: Final[Mapping[str, Newer]] = {
    "auto.commit.enable": Newer("enable.auto.commit"),
    "fetch.message.max.bytes": Newer("max.partition.fetch.bytes"),
    "fetch.wait.max.ms": Newer("fetch.max.wait.ms"),
}

LIMITS: Final = (MAX_WAITING_RECORDS, MAX_BATCH_RECORDS)
"""Of producers, without a newer name: they count records, where today bytes are counted."""
WAIT_FOR_ROOM: Final = "queue.enqueue.timeout.ms"
"""How long a send waits for room and nothing else: -1 without end; with 0 the record is dropped, which is said."""

WITHOUT_MEANING: Final = {
    "producer": frozenset({"serializer.class", "key.serializer.class", "compressed.topics"}),
    "consumer": frozenset(
        {
            "consumer.id", "dual.commit.enabled", "num.consumer.fetchers", "offsets.storage",
            "queued.max.message.chunks", "rebalance.backoff.ms", "rebalance.max.retries", "refresh.leader.backoff.ms",
            "zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms", "zookeeper.sync.time.ms",
        }
    ),
}  # fmt: skip
ZOOKEEPER: Final = "zookeeper.connect"
ASK_BROKERS: Final = "consumers ask brokers today; give bootstrap.servers, such as 'localhost:9092'"
PRODUCER_TYPE: Final = "producer.type"

OLD_PRODUCER_KEYS: Final = frozenset(
    {*OLD_PRODUCER, *LIMITS, WAIT_FOR_ROOM, *WITHOUT_MEANING["producer"], PRODUCER_TYPE}
)
OLD_CONSUMER_KEYS: Final = frozenset({*OLD_CONSUMER, *WITHOUT_MEANING["consumer"], ZOOKEEPER})


class Understood(NamedTuple):
    given: dict[str, object]
    """By names of today."""
    limits: dict[str, int]
    warnings: list[str]


def understand(kind: str, given: Mapping[str, object], *, knows_servers: bool) -> Understood:
    """Settings with older names among them, as a client of this kind (`producer`, `consumer`, `admin`) reads them."""
    table = {"producer": OLD_PRODUCER, "consumer": OLD_CONSUMER}.get(kind, {})
    read = Understood({}, {}, [])
    for spelling, value in given.items():
        name = spelling if "." in spelling else spelling.replace("_", ".")
        if name in table:
            newer = table[name]
            if newer.name in given or newer.name.replace(".", "_") in given:
                raise ConfigurationError(f"{name} is the older name of {newer.name}; give one of them")
            read.given[newer.name] = newer.value(str(value).strip())
            read.warnings.append(f"{name} is called {newer.name} today")
        elif kind == "producer" and name in LIMITS:
            read.limits[name] = _number(name, value, 1)
        elif kind == "producer" and name == WAIT_FOR_ROOM:
            wait_ms = _number(name, value, -1)
            read.limits[name] = LONGEST_MS if wait_ms < 0 else wait_ms
        elif kind == "producer" and name == PRODUCER_TYPE:
            read.given.update(_sending(value))
        elif name in WITHOUT_MEANING.get(kind, ()):
            read.warnings.append(f"{name} has no effect here")
        elif kind == "consumer" and name == ZOOKEEPER:
            if not knows_servers and "bootstrap.servers" not in given and "bootstrap_servers" not in given:
                raise ConfigurationError(f"zookeeper.connect={value}: {ASK_BROKERS}")
            read.warnings.append("zookeeper.connect has no effect here: the brokers are asked")
        else:
            read.given[spelling] = _reset(value) if name == "auto.offset.reset" and isinstance(value, str) else value
    return read


def _number(name: str, value: object, least: int) -> int:
    text = str(value).strip()
    if not text.removeprefix("-").isdigit() or int(text) < least:
        raise ConfigurationError(f"{name} must be a number from {least} on, not {value!r}")
    return int(text)


def _sending(value: object) -> Iterator[tuple[str, object]]:
    """A synchronous producer of long ago sent each record by itself; its caller still waits for the handle."""
    kind = str(value).strip()
    if kind not in ("sync", "async"):
        raise ConfigurationError(f"producer.type must be sync or async, not {value!r}")
    if kind == "sync":
        yield "linger.ms", "0"
