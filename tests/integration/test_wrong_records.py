"""Records that cannot be sent for what they are: told by the name of what is wrong, and nothing else is lost."""

import asyncio
import inspect
from typing import Any

import pytest

import levada
from levada import aio
from tests.brokers import BrokerProcess
from tests.clients.cases import topic_of
from tests.clients.producer_cases import read_all


class Strange:
    """No bytes, no text, no number."""

    def __repr__(self) -> str:
        return "Strange()"


SENDS: list[tuple[str, dict[str, Any], str]] = [
    ("send", {"topic": Strange()}, "topic must be str, not Strange()"),
    ("send", {"topic": []}, "topic must be str, not []"),
    ("send", {"topic": None}, "topic must be str, not None"),
    (
        "send",
        {"value": "text"},
        "value must be bytes or None, not 'text'; encode it, or give the producer a serializer: value_serializer=str",
    ),
    ("send", {"value": 5}, "value must be bytes or None, not 5"),
    (
        "send",
        {"key": "text"},
        "key must be bytes or None, not 'text'; encode it, or give the producer a serializer: key_",
    ),
    (
        "send",
        {"value": {"id": 1}},
        "value must be bytes or None, not {'id': 1}; encode it, or give the producer a serializer: value_",
    ),
    ("send", {"headers": 5}, "headers must be Mapping"),
    ("send", {"headers": "ab"}, "headers must be Sequence[tuple[str, "),
    ("send", {"headers": [("a", "b")]}, "header 'a' must be bytes or None, not 'b'"),
    ("send", {"headers": [("a", 5)]}, "header 'a' must be bytes or None, not 5"),
    ("send", {"headers": [(5, b"a")]}, "headers must be Sequence[tuple[str, "),
    ("send", {"headers": [("a",)]}, "headers must be Sequence[tuple[str, "),
    ("send", {"partition": "0"}, "partition must be int | None, not '0'"),
    ("send", {"partition": 0.5}, "partition must be int | None, not 0.5"),
    ("send", {"timestamp_ms": "now"}, "timestamp_ms must be ms since 1970, not 'now'"),
    ("send", {"timestamp_ms": 2**63}, "timestamp_ms must be ms since 1970, not 9223372036854775808"),
    ("send", {"on_delivery": 5}, "on_delivery must be Callable, not 5"),
    ("send_many", {"topic": 5}, "topic must be str, not 5"),
    ("send_many", {"values": 5}, "values must be a list or the like, not 5"),
    ("send_many", {"values": b"ab"}, "values must be a list or the like, not b'ab'"),
    (
        "send_many",
        {"values": [b"a", "b"]},
        "values[1] must be bytes or None, not 'b'; encode it, or give the producer a serializer: value_serializer=",
    ),
    ("send_many", {"values": [5]}, "values[0] must be bytes or None, not 5"),
    ("send_many", {"keys": 5}, "keys must be a list or the like, not 5"),
    ("send_many", {"keys": ["a"]}, "keys[0] must be bytes or None, not 'a'"),
    ("send_many", {"partition": "0"}, "partition must be int | None, not '0'"),
    ("send_many", {"timestamp_ms": "now"}, "timestamp_ms must be ms since 1970, not 'now'"),
    ("send_many", {"timestamp_ms": 2**63}, "timestamp_ms must be ms since 1970"),
]


@pytest.mark.parametrize("package", [levada, aio], ids=["blocking", "asyncio"])
def test_what_no_batch_takes_is_told_by_its_name(broker: BrokerProcess, package: Any) -> None:
    topic = topic_of(broker.bootstrap, "wrong-records")

    async def call(method: Any, **arguments: Any) -> Any:
        found = method(**arguments)
        return await found if inspect.iscoroutine(found) else found

    async def told(producer: Any, name: str, wrong: dict[str, Any]) -> str:
        right = {"topic": topic, "value": b"v"} if name == "send" else {"topic": topic, "values": [b"v"]}
        try:
            await call(getattr(producer, name), **{**right, **wrong})
        except (TypeError, ValueError) as error:
            return str(error)
        raise AssertionError(f"{name} took {wrong}")

    async def scenario() -> None:
        producer = package.Producer(broker.bootstrap, linger_ms=60_000)
        # With nothing in the partition's batch, and with a batch that is open.
        for begins in (False, True):
            for name, wrong, text in SENDS:
                if begins:
                    await call(producer.send, topic=topic, value=b"good")
                assert (await told(producer, name, wrong)).startswith(f"{name}(): {text}")
                if not begins:
                    await call(producer.flush)
        await call(producer.close)

    asyncio.run(scenario())
    values = [record.value for record in asyncio.run(read_all(broker.bootstrap, topic))]
    assert values.count(b"good") == len(SENDS)
    assert set(values) <= {b"good", b"a"}, "what stood before the wrong one in a list may have been sent"
