"""ListPartitionReassignments, for an image in which partitions are on their way."""

from types import SimpleNamespace
from typing import cast

from levada.broker.broker import Broker
from levada.broker.handlers.list_partition_reassignments import handle
from levada.broker.route import Request
from levada.metadata.delta import apply
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from levada.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

ADDING, REMOVING = {0: [2]}, {2: [3]}
"""Of the partitions of orders."""


def image() -> Image:
    records: list[MetadataRecord] = []
    for number, name in enumerate(("orders", "bills"), 1):
        topic_id = bytes([number]) * 16
        records.append(TopicRecord(name=name, topic_id=topic_id))
        for index in range(3):
            adding = ADDING.get(index, []) if name == "orders" else []
            removing = REMOVING.get(index, []) if name == "orders" else []
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=[1, *adding, *removing],
                    isr=[1],
                    adding_replicas=adding,
                    removing_replicas=removing,
                )
            )
    return apply(Image(), records, len(records))


def listed(*topics: tuple[str, list[int]], everything: bool = False) -> list[tuple[str, int, list[int], list[int]]]:
    broker = cast(Broker, SimpleNamespace(image=image()))
    wanted = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in topics]
    message = ListPartitionReassignmentsRequest(topics=None if everything else wanted)
    response = handle(message, Request(0, None, "", broker, {}))
    assert all(topic.partitions for topic in response.topics)
    return [
        (topic.name, one.partition_index, one.adding_replicas, one.removing_replicas)
        for topic in response.topics
        for one in topic.partitions
    ]


def test_what_is_on_its_way_is_listed_and_nothing_else() -> None:
    assert listed(everything=True) == [("orders", 0, [2], []), ("orders", 2, [], [3])]


def test_only_those_are_listed_that_were_asked_for() -> None:
    assert listed(("orders", [1, 2, 7]), ("bills", [0]), ("nothing", [0])) == [("orders", 2, [], [3])]
    assert listed() == []
