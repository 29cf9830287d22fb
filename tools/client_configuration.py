"""Writes docs/clients-configuration.md from the definitions of the clients' keys.

`python -m tools.client_configuration [--check]`
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from levada.client.options.admin_keys import ADMIN_KEYS
from levada.client.options.consumer_keys import CONSUMER_KEYS
from levada.client.options.meanings import MEANINGS, NO_EFFECT, UNSUPPORTED
from levada.client.options.producer_keys import PRODUCER_KEYS
from levada.client.options.security_keys import SECURITY_KEYS
from levada.model.config import Key

PAGE = Path(__file__).parents[1] / "docs" / "clients-configuration.md"

HEAD = """\
# Configuration of the clients

This page is generated (`make docs`) from the definitions that the clients check their settings with, and a test keeps
it current.

Keys are Kafka's, with the types, defaults and ranges of Kafka 4.3. They are given as keyword arguments, with
underscores (`linger_ms=5`) or by their own names (`**{"linger.ms": 5}`), and their values as Python has them (`5`,
`True`, `["a:9092", "b:9092"]`) or as the text of a properties file (`"5"`, `"true"`, `"a:9092,b:9092"`); None is as if
the key was not given. A name that is not known is refused with the nearest one that is; so is a value out of its range,
a key given twice, and settings that contradict each other, all with `ConfigurationError`. What is legal and unwise is
logged.

Where Kafka takes the name of a Java class, the clients take a name, an object or callable of Python's, or the name of
Java's class where there is one of the same kind here:

| key | what it takes |
| --- | --- |
"""

TAKES = {
    "`key.serializer`, `value.serializer`, `key.deserializer`, `value.deserializer`": (
        "`bytes` (the default), `str`, `json`, `int` (4 bytes, big endian), `long`, `short`, `float`, `double`, a "
        "callable, or Java's `org.apache.kafka.common.serialization` of these types"
    ),
    "`partitioner.class`": (
        "`default`, `round_robin`, `hot_key` (keys with a large share of the records are spread over several "
        "partitions), a callable, or `org.apache.kafka.clients.producer.RoundRobinPartitioner`"
    ),
    "`partition.assignment.strategy`": (
        "`range`, `roundrobin`, `sticky`, `cooperative-sticky`, Java's names for these, or objects"
    ),
    "`interceptor.classes`": "objects, or classes that are made without arguments",
}

SETTLED = """
## What follows from what

- `enable.idempotence` needs `acks=all`, `retries` above 0 and at most 5 requests in flight. Where it was not asked for,
  `acks` of 0 or 1 and `retries=0` switch it off; where it was, they are refused. More than 5 in flight are refused
  unless it is switched off. `transactional.id` needs it.
- `delivery.timeout.ms` is at least `linger.ms` + `request.timeout.ms`: raised if it was not given, refused if it was.
  So is the admin client's `default.api.timeout.ms`, with `request.timeout.ms`.
- Without `group.id`, `enable.auto.commit` is false, and refused if it was given as true.
- With `group.protocol=consumer` the broker decides `heartbeat.interval.ms`, `session.timeout.ms` and
  `partition.assignment.strategy`, which are refused then; with `classic`, `group.remote.assignor` is.
- `heartbeat.interval.ms` is below `session.timeout.ms`, and a warning is logged where it is above a third of it.
- `reconnect.backoff.ms` given alone is every wait, not the first of growing ones.
"""

SILENT = """
## Keys without an effect

Known, checked, accepted with a warning:

| key | type | default | range |
| --- | --- | --- | --- |
"""

REFUSED = """
## Keys that are not supported yet

Refused when they ask for anything:

| key | type | default | range | reason |
| --- | --- | --- | --- | --- |
"""

SECURE = "The clients speak PLAINTEXT only. All of these are known and refused when they are given:"

_CLIENTS = {"producer": PRODUCER_KEYS, "consumer": CONSUMER_KEYS, "admin client": ADMIN_KEYS}
_SECURITY = {key.name for key in SECURITY_KEYS}


def page() -> str:
    every = {key.name: key for keys in (ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS) for key in keys}
    others = [every[name] for name in sorted(UNSUPPORTED) if name not in _SECURITY]
    return "".join(
        (
            HEAD,
            *(f"| {keys} | {takes} |\n" for keys, takes in TAKES.items()),
            *(_table(client, keys) for client, keys in _CLIENTS.items()),
            SETTLED,
            SILENT,
            *(_row(every[name]) for name in sorted(NO_EFFECT)),
            REFUSED,
            *(_row(key, f"{UNSUPPORTED[key.name][0].upper()}{UNSUPPORTED[key.name][1:]}.") for key in others),
            f"\n{SECURE}\n\n| key | type | default | range |\n| --- | --- | --- | --- |\n",
            *(_row(key) for key in SECURITY_KEYS if key.name not in MEANINGS),
        )
    )


def _table(client: str, keys: Iterable[Key]) -> str:
    head = f"\n## Keys of the {client} with an effect\n\n| key | type | default | range | meaning |\n"
    rows = (_row(key, MEANINGS[key.name]) for key in keys if key.name in MEANINGS)
    return "".join((head, "| --- | --- | --- | --- | --- |\n", *rows))


def _row(key: Key, *more: str) -> str:
    cells = (f"`{key.name}`", key.type, _code(key.format(key.default)), _code(str(key.range or "")), *more)
    return f"| {' | '.join(cells)} |\n"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
