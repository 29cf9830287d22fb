"""Cases that ask where things are: offsets by time and by epoch, and partitions on disk."""

from levada.protocol.api import ApiKey
from levada.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from levada.records import Codec
from tests.interop.differential.cases import EVERY, Case, Side, Table, each, since
from tests.interop.differential.requests import NOW_MS, batch, produce


def _fill(topic: str) -> list[Case]:
    """Batches whose times rise, fall and rise again, one of them compressed."""
    given = [
        batch(b"a", b"b", b"c", first_ms=NOW_MS - 5_000),
        batch(b"d", b"e", first_ms=NOW_MS - 1_000, codec=Codec.LZ4),
        batch(b"f", b"g", first_ms=NOW_MS - 3_000),
    ]
    batches = {str(number): data for number, data in enumerate(given)}
    return each(
        batches, lambda side, data: produce(side, topic, data), prefix="filled: ", api=ApiKey.PRODUCE, versions=[13]
    )


def _list(
    *asked: tuple[str, int, int], epoch: int = -1, replica_id: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)],
        )
        for topic, index, timestamp in asked
    ]
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation, topics=topics)


def _twice() -> ListOffsetsRequest:
    request = _list(("found", 0, -1))
    request.topics[0].partitions *= 2
    return request


_TIMES = {
    "0": 0,
    "before the first": NOW_MS - 6_000,
    "of the first": NOW_MS - 5_000,
    "of the third": NOW_MS - 4_998,
    "between batches": NOW_MS - 4_000,
    "of the compressed": NOW_MS - 1_000,
    "of the newest": NOW_MS - 999,
    "of an older one behind": NOW_MS - 3_000,
    "behind the newest": NOW_MS,
    "far ahead": NOW_MS + 10**9,
}

_SPECIAL_TIMES = {str(time): time for time in range(-7, 0)}

LIST_OFFSETS = Table(
    "ListOffsets",
    ApiKey.LIST_OFFSETS,
    [
        *_fill("found"),
        *each(_SPECIAL_TIMES | _TIMES, lambda _, time: _list(("found", 0, time)), prefix="time ", versions=EVERY),
        *each(
            _SPECIAL_TIMES, lambda _, time: _list(("found", 1, time)), prefix="empty partition, time ", versions=EVERY
        ),
        Case("unknown partition", lambda _: _list(("found", 9, -1)), versions=EVERY),
        Case("negative partition", lambda _: _list(("found", -1, -1))),
        Case("unknown topic", lambda _: _list(("found-never", 0, -1)), versions=EVERY),
        Case("illegal topic", lambda _: _list(("found/never", 0, -1))),
        Case("known and unknown topic", lambda _: _list(("found", 0, -1), ("found-never", 0, -1))),
        Case("a partition twice", lambda _: _twice()),
        Case("a topic twice", lambda _: _list(("found", 0, -1), ("found", 0, -2))),
        Case("a topic twice, two partitions", lambda _: _list(("found", 0, -1), ("found", 1, -2))),
        Case("nothing", lambda _: _list()),
        Case("the leader's epoch", lambda _: _list(("found", 0, -1), epoch=0), versions=since(4)),
        Case("a later epoch", lambda _: _list(("found", 0, -1), epoch=5), versions=since(4)),
        Case("a negative epoch", lambda _: _list(("found", 0, -1), epoch=-5), versions=since(4)),
        Case("a later epoch, by time", lambda _: _list(("found", 0, 0), epoch=5), versions=since(4)),
        Case("committed only", lambda _: _list(("found", 0, -1), isolation=1), versions=since(2)),
        Case("unknown isolation", lambda _: _list(("found", 0, -1), isolation=7), versions=since(2)),
        Case("as a replica", lambda _: _list(("found", 0, -1), replica_id=1)),
        Case("as an unknown replica", lambda _: _list(("found", 0, -1), replica_id=9)),
        Case("as a debugger", lambda _: _list(("found", 0, -1), replica_id=-2)),
    ],
    topics={"found": {}},
)


def offset_of_epoch(
    topic: str, index: int, epoch: int, current: int = -1, replica_id: int = -1
) -> OffsetForLeaderEpochRequest:
    partition = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])]
    )


OFFSET_FOR_LEADER_EPOCH = Table(
    "OffsetForLeaderEpoch",
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    [
        *_fill("epochs"),
        Case("epoch 0", lambda _: offset_of_epoch("epochs", 0, 0), versions=EVERY),
        Case("epoch 0 in epoch 0", lambda _: offset_of_epoch("epochs", 0, 0, current=0), versions=EVERY),
        Case("epoch 5", lambda _: offset_of_epoch("epochs", 0, 5), versions=EVERY),
        Case("epoch -1", lambda _: offset_of_epoch("epochs", 0, -1)),
        Case("epoch -5", lambda _: offset_of_epoch("epochs", 0, -5)),
        Case("in a later epoch", lambda _: offset_of_epoch("epochs", 0, 0, current=5)),
        Case("of an empty partition", lambda _: offset_of_epoch("epochs", 1, 0), versions=EVERY),
        Case("epoch 5 of an empty partition", lambda _: offset_of_epoch("epochs", 1, 5)),
        Case("unknown partition", lambda _: offset_of_epoch("epochs", 9, 0)),
        Case("negative partition", lambda _: offset_of_epoch("epochs", -1, 0)),
        Case("unknown topic", lambda _: offset_of_epoch("epochs-never", 0, 0)),
        Case("illegal topic", lambda _: offset_of_epoch("epochs/never", 0, 0)),
        Case("as a replica", lambda _: offset_of_epoch("epochs", 0, 0, replica_id=1), versions=since(3)),
        Case("as an unknown replica", lambda _: offset_of_epoch("epochs", 0, 0, replica_id=9), versions=since(3)),
        Case("nothing", lambda _: OffsetForLeaderEpochRequest(topics=[])),
    ],
    topics={"epochs": {}},
)


def _on_disk(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    wanted = [DescribableLogDirTopic(topic=topic, partitions=partitions) for topic, partitions in topics]
    return DescribeLogDirsRequest(topics=wanted)


def _one_record(side: Side) -> object:
    return produce(side, "on-disk", batch(b"one"))


DESCRIBE_LOG_DIRS = Table(
    "DescribeLogDirs",
    ApiKey.DESCRIBE_LOG_DIRS,
    [
        Case("filled", _one_record, api=ApiKey.PRODUCE, versions=[13]),
        Case("a partition", lambda _: _on_disk(("on-disk", [0])), versions=EVERY),
        Case("both partitions", lambda _: _on_disk(("on-disk", [0, 1]))),
        Case("a partition twice", lambda _: _on_disk(("on-disk", [0, 0]))),
        Case("unknown partition", lambda _: _on_disk(("on-disk", [9]))),
        Case("unknown topic", lambda _: _on_disk(("on-disk-never", [0]))),
        Case("no partitions", lambda _: _on_disk(("on-disk", []))),
        Case("no topics", lambda _: _on_disk()),
        Case("all topics", lambda _: DescribeLogDirsRequest(topics=None), versions=EVERY),
    ],
    topics={"on-disk": {}},
)
