"""Requests that decode well and mean harm: huge counts, extreme numbers, long names. Each is refused or served."""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from levada.broker.response_errors import error_counter
from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.api import ApiKey, request_class
from levada.protocol.headers import encode_request_header
from levada.protocol.schema import fields_of
from levada.records import Codec
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess
from tests.chaos.test_garbage import SETTINGS, memory_mb
from tests.fuzz.batches import bomb

WAIT_SECONDS = 60.0
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
MIN_INT32, MAX_INT32 = -(2**31), 2**31 - 1
LONGEST = "n" * 32_767
"""No string has more bytes."""
TOPIC, BROKER = 2, 4
"""Kinds of resources."""
APPEND = 2
MAY_HAVE_MB = 250

OK = ErrorCode.NONE
TOO_MUCH = ErrorCode.POLICY_VIOLATION
REFUSED = ErrorCode.INVALID_REQUEST
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
BAD_COUNT = ErrorCode.INVALID_PARTITIONS
BAD_FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
BAD_NAME = ErrorCode.INVALID_TOPIC_EXCEPTION
BAD_CONFIG = ErrorCode.INVALID_CONFIG
BAD_SESSION = ErrorCode.INVALID_SESSION_TIMEOUT
NO_SESSION = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE

Given = dict[str, Any]

NAMES = [f"name-{number}" for number in range(100_000)]
A_LONG_LIST = ",".join(f"{number}:1" for number in range(4_500))
PROTOCOLS: list[Given] = [{"name": f"protocol-{number}", "metadata": bytes(1_000)} for number in range(10_000)]


def made(cls: type[Any], given: Given) -> Any:
    """A message from plain data; what is not given has its default."""
    values = {}
    for spec in fields_of(cls):
        value = given.get(spec.name, spec.default_factory() if spec.default_factory is not None else spec.default)
        if spec.struct is not None and given.get(spec.name) is not None:
            parts = [made(spec.struct, part) for part in (value if spec.is_array else [value])]
            value = parts if spec.is_array else parts[0]
        values[spec.name] = value
    return cls(**values)


@dataclass(frozen=True, slots=True)
class Hostile:
    what: str
    api: ApiKey
    version: int
    given: Given
    codes: frozenset[int]
    """That the answer has; none where the connection is closed instead."""
    client_id: str

    @property
    def request(self) -> Any:
        return made(request_class(self.api), self.given)


def hostile(what: str, api: ApiKey, version: int, given: Given, *codes: ErrorCode, client_id: str = "me") -> Hostile:
    return Hostile(what, api, version, given, frozenset(codes), client_id)


def topic(name: str, partitions: int, replicas: int = 1, **configs: str) -> Given:
    pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": pairs}


def fetched(partitions: list[Given], **more: Any) -> Given:
    topics = [{"topic": "topic", "partitions": partitions}]
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MAX_INT32, "topics": topics, **more}


def alteration(kind: int, name: str, key: str, value: str, operation: int = 0) -> Given:
    change = {"name": key, "value": value, "config_operation": operation}
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": [change]}]}


def described(count: int, name: str, keys: list[str] | None = None) -> Given:
    resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource] * count, "include_synonyms": True, "include_documentation": True}


def of_partition(partition: Given) -> Given:
    return {"topics": [{"name": "topic", "partitions": [partition]}]}


def produced(name: str, records: bytes) -> Given:
    return {"acks": -1, "topic_data": [{"name": name, "partition_data": [{"index": 0, "records": records}]}]}


def joining(group_id: str, protocols: list[Given], **more: Any) -> Given:
    protocol = {"protocol_type": "consumer", "protocols": protocols}
    return {"group_id": group_id, "session_timeout_ms": 6_000, "rebalance_timeout_ms": 0, **protocol, **more}


def committed(offset: int, metadata: str) -> Given:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
    return {"group_id": "commits", "topics": [{"name": "topic", "partitions": [partition]}]}


TOPIC_CASES = [
    hostile("2**31-1 partitions", ApiKey.CREATE_TOPICS, 7, {"topics": [topic("huge", MAX_INT32)]}, TOO_MUCH),
    hostile("2**31-1 partitions in v2", ApiKey.CREATE_TOPICS, 2, {"topics": [topic("huge", MAX_INT32)]}, TOO_MUCH),
    hostile("-2**31 partitions", ApiKey.CREATE_TOPICS, 7, {"topics": [topic("huge", MIN_INT32)]}, BAD_COUNT),
    hostile("32767 replicas", ApiKey.CREATE_TOPICS, 7, {"topics": [topic("huge", 1, 2**15 - 1)]}, BAD_FACTOR),
    hostile("10,001 topics", ApiKey.CREATE_TOPICS, 7, {"topics": [topic(f"t{n}", 1) for n in range(10_001)]}, TOO_MUCH),
    hostile(
        "10,000 topics that metrics would call otherwise",
        ApiKey.CREATE_TOPICS,
        7,
        {"topics": [topic(f"t.{n}", 1) for n in range(10_000)], "validate_only": True},
        OK,
    ),
    hostile("the longest name in v2", ApiKey.CREATE_TOPICS, 2, {"topics": [topic(LONGEST, 1)]}, BAD_NAME),
    hostile("the longest name in v7", ApiKey.CREATE_TOPICS, 7, {"topics": [topic(LONGEST, 1)]}, BAD_NAME),
    hostile(
        "the longest value in v4", ApiKey.CREATE_TOPICS, 4, {"topics": [topic("c", 1, flush_ms=LONGEST)]}, BAD_CONFIG
    ),
    hostile("a value of 1 MB", ApiKey.CREATE_TOPICS, 7, {"topics": [topic("c", 1, flush_ms="9" * 10**6)]}),
    hostile(
        "2**31-1 more partitions",
        ApiKey.CREATE_PARTITIONS,
        3,
        {"topics": [{"name": "topic", "count": MAX_INT32, "assignments": None}]},
        TOO_MUCH,
    ),
    hostile("100,000 names to delete", ApiKey.DELETE_TOPICS, 5, {"topic_names": NAMES}, UNKNOWN),
    hostile(
        "pages from the end of time",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {"response_partition_limit": MAX_INT32, "cursor": {"topic_name": "", "partition_index": MAX_INT32}},
        OK,
    ),
    hostile(
        "elections in a long name",
        ApiKey.ELECT_LEADERS,
        2,
        {"topic_partitions": [{"topic": LONGEST, "partitions": list(range(100_000))}]},
        OK,
        UNKNOWN,
    ),
]

CONFIG_CASES = [
    hostile("a broker of 5,000 digits", ApiKey.DESCRIBE_CONFIGS, 4, described(1, "9" * 5_000), REFUSED),
    hostile("a broker that is a superscript", ApiKey.DESCRIBE_CONFIGS, 4, described(1, "\u00b2"), REFUSED),
    hostile("all of the broker 200 times", ApiKey.DESCRIBE_CONFIGS, 4, described(200, "1"), OK),
    hostile("100,000 keys", ApiKey.DESCRIBE_CONFIGS, 4, described(1, "1", NAMES), OK),
    hostile("of 5,000 digits", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alteration(BROKER, "9" * 5_000, "a", "b"), REFUSED),
    hostile("of a superscript", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alteration(BROKER, "\u00b2", "a", "b"), REFUSED),
    hostile("of 5,000 digits, anew", ApiKey.ALTER_CONFIGS, 2, alteration(BROKER, "9" * 5_000, "a", "b"), REFUSED),
    hostile(
        "a count of 5,000 digits",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        alteration(BROKER, "1", "max.connections.per.ip.overrides", "localhost:" + "9" * 5_000),
        REFUSED,
    ),
    hostile(
        "a list of thousands",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        alteration(TOPIC, "topic", "leader.replication.throttled.replicas", A_LONG_LIST, APPEND),
        OK,
    ),
]

RECORD_CASES = [
    *(
        hostile(
            f"an offset of {offset}",
            ApiKey.FETCH,
            12,
            fetched([{"partition": 0, "fetch_offset": offset}]),
            OUT_OF_RANGE,
        )
        for offset in (MIN_INT64, -1, 1, MAX_INT64)
    ),
    hostile("100,000 partitions", ApiKey.FETCH, 12, fetched([{"partition": n} for n in range(100_000)]), OK, UNKNOWN),
    hostile(
        "negative sizes", ApiKey.FETCH, 12, fetched([{"partition": 0}], min_bytes=MIN_INT32, max_bytes=MIN_INT32), OK
    ),
    hostile("a session never opened", ApiKey.FETCH, 12, fetched([], session_id=MAX_INT32, session_epoch=1), NO_SESSION),
    hostile("a negative epoch", ApiKey.FETCH, 12, fetched([], session_id=1, session_epoch=MIN_INT32), NO_SESSION),
    hostile(
        "nothing to forget",
        ApiKey.FETCH,
        12,
        fetched([], forgotten_topics_data=[{"topic": LONGEST, "partitions": list(range(100_000))}]),
        OK,
    ),
    *(
        hostile(f"the time {time_ms}", ApiKey.LIST_OFFSETS, 9, of_partition({"timestamp": time_ms}), OK)
        for time_ms in (-1, 0, MAX_INT64)
    ),
    *(
        hostile(f"records below {offset}", ApiKey.DELETE_RECORDS, 2, of_partition({"offset": offset}), OUT_OF_RANGE)
        for offset in (MIN_INT64, -2, 1, MAX_INT64)
    ),
    *(
        hostile(
            f"a bomb of {codec.name}",
            ApiKey.PRODUCE,
            9,
            produced("compacted", bomb(codec)),
            ErrorCode.MESSAGE_TOO_LARGE,
        )
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD)
    ),
]

GROUP_CASES = [
    hostile("10,000 protocols", ApiKey.JOIN_GROUP, 2, joining("protocols", PROTOCOLS), OK),
    hostile("the longest group", ApiKey.JOIN_GROUP, 2, joining(LONGEST, PROTOCOLS[:1]), OK),
    hostile("the longest client", ApiKey.JOIN_GROUP, 2, joining("client", PROTOCOLS[:1]), OK, client_id=LONGEST),
    hostile(
        "the longest instance",
        ApiKey.JOIN_GROUP,
        5,
        joining("instance", PROTOCOLS[:1], group_instance_id=LONGEST),
        OK,
    ),
    hostile(
        "an eternal session", ApiKey.JOIN_GROUP, 2, joining("eternal", [], session_timeout_ms=MAX_INT32), BAD_SESSION
    ),
    hostile("the last offset", ApiKey.OFFSET_COMMIT, 8, committed(MAX_INT64, ""), OK),
    hostile(
        "the longest metadata", ApiKey.OFFSET_COMMIT, 8, committed(1, LONGEST), ErrorCode.OFFSET_METADATA_TOO_LARGE
    ),
    hostile(
        "offsets of 100,000 partitions",
        ApiKey.OFFSET_FETCH,
        8,
        {"groups": [{"group_id": "g", "topics": [{"name": "topic", "partition_indexes": list(range(100_000))}]}]},
        OK,
    ),
    hostile("100,000 coordinators", ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": NAMES}, OK),
    hostile(
        "100,000 members that leave",
        ApiKey.LEAVE_GROUP,
        3,
        {"group_id": "absent", "members": [{"member_id": name} for name in NAMES]},
        OK,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all, which must end well, with the topics it began with and without an error of its own."""
    process = BrokerProcess(tmp_path_factory.mktemp("hostile") / "data", *SETTINGS).start()
    try:
        topics = [topic("topic", 1), topic("compacted", 1, cleanup_policy="compact")]
        call(process, made(request_class(ApiKey.CREATE_TOPICS), {"topics": topics}), 7)
        call(process, made(request_class(ApiKey.FIND_COORDINATOR), {"coordinator_keys": ["g"]}), 4)
        yield process
        listed = call(process, made(request_class(ApiKey.METADATA), {"topics": None}), 12)
        assert {one.name for one in listed.topics} == {"topic", "compacted", "__consumer_offsets"}
        assert memory_mb(process) < MAY_HAVE_MB
        code = process.stop()
    finally:
        process.kill()
    assert code == 0
    assert "Traceback" not in process.log
    assert "error of our own" not in process.log


def talk(broker: BrokerProcess, session: Callable[[Channel], Awaitable[Any]], client_id: str = "me") -> Any:
    async def main() -> Any:
        channel = await Channel.connect(RealNet(), "localhost", broker.port, client_id)
        try:
            return await asyncio.wait_for(session(channel), WAIT_SECONDS)
        finally:
            channel.close()

    return asyncio.run(main())


def call(broker: BrokerProcess, request: Any, version: int, client_id: str = "me") -> Any:
    return talk(broker, lambda channel: channel.call(request, version), client_id)


@pytest.mark.parametrize(
    "case",
    [*TOPIC_CASES, *CONFIG_CASES, *RECORD_CASES, *GROUP_CASES],
    ids=lambda case: f"{case.api.title}: {case.what}",
)
def test_a_hostile_request_is_answered_as_it_deserves(broker: BrokerProcess, case: Hostile) -> None:
    if not case.codes:
        with pytest.raises(ChannelClosed):
            call(broker, case.request, case.version, case.client_id)
        return
    response = call(broker, case.request, case.version, case.client_id)
    codes: Counter[int] = Counter()
    error_counter(type(response))(response, codes)
    assert set(codes) | ({OK} if OK in case.codes else set()) == case.codes


def test_a_million_names_in_one_metadata_request_are_answered_and_forgotten(broker: BrokerProcess) -> None:
    """Over a plain socket: to read a million topics takes a client of ours longer than the broker to find none."""
    count = 1_000_000
    names = b"".join(b"\0\7%07d" % number for number in range(count))
    body = encode_request_header(ApiKey.METADATA, 4, 7, None) + count.to_bytes(4, "big") + names + b"\0"
    with socket.create_connection(("localhost", broker.port), timeout=WAIT_SECONDS) as client:
        client.sendall(len(body).to_bytes(4, "big") + body)
        with client.makefile("rb") as answers:
            size = int.from_bytes(answers.read(4), "big")
            answer = answers.read(size)
    # Of each an error code, its name, whether it is internal, and no partitions.
    assert answer.endswith(b"\0\3\0\7%07d\0\0\0\0\0" % (count - 1))
    assert answer.count(b"\0\3\0\7") == count


@pytest.mark.parametrize(
    ("metadata_size", "assignment_size", "code"),
    [(400_000, 600_000, OK), (10, 1_048_588, ErrorCode.UNKNOWN_SERVER_ERROR), (5_000_000, 20_000_000, -1)],
)
def test_metadata_and_assignments_come_back_whole_if_a_record_can_keep_them(
    broker: BrokerProcess, metadata_size: int, assignment_size: int, code: int
) -> None:
    metadata, assignment = bytes(metadata_size), b"a" * assignment_size

    async def session(channel: Channel) -> None:
        protocols = [{"name": "range", "metadata": metadata}]
        joined = await channel.call(
            made(request_class(ApiKey.JOIN_GROUP), joining("large", protocols, rebalance_timeout_ms=60_000)), 2
        )
        assert joined.members[0].metadata == metadata
        member = {"group_id": "large", "generation_id": joined.generation_id, "member_id": joined.member_id}
        given = {**member, "assignments": [{"member_id": joined.member_id, "assignment": assignment}]}
        synced = await channel.call(made(request_class(ApiKey.SYNC_GROUP), given), 3)
        assert (synced.error_code, synced.assignment) == (code, b"" if code else assignment)
        leaving = {"group_id": "large", "members": [{"member_id": joined.member_id}]}
        assert not (await channel.call(made(request_class(ApiKey.LEAVE_GROUP), leaving), 3)).error_code

    talk(broker, session)


def test_only_so_many_fetch_sessions_are_kept(broker: BrokerProcess) -> None:
    """The cache has 1,000 places, and none of these sessions is worth more than another."""

    async def session(channel: Channel) -> list[int]:
        opening = made(request_class(ApiKey.FETCH), fetched([{"partition": 0}], session_epoch=0))
        return [(await channel.call(opening, 12)).session_id for _ in range(1_100)]

    ids = talk(broker, session)
    assert len(set(ids) - {0}) == 1_000
