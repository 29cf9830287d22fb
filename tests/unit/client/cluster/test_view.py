"""What a client makes of the answers about topics: newer leaders are believed, older ones are not."""

from levada.client.cluster import NO_NODE, ClusterView
from levada.client.cluster.view import Address, read_view, with_leader, with_topics
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = bytes(15) + b"\x01"
OTHER_ID = bytes(15) + b"\x02"


def answer(*topics: MetadataResponseTopic, brokers: int = 3) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each, host="h", port=each) for each in range(1, brokers + 1)],
        cluster_id="c",
        controller_id=1,
        topics=list(topics),
    )


def topic(*leaders: tuple[int, int], name: str = "t", topic_id: bytes = ID, code: int = 0) -> MetadataResponseTopic:
    """Partitions with these leaders in these epochs."""
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader], isr_nodes=[leader]
        )
        for index, (leader, epoch) in enumerate(leaders)
    ]
    # In any order: brokers do not sort them.
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=partitions[::-1])


def leaders(view: ClusterView, name: str = "t") -> list[tuple[int, int]]:
    return [(each.leader, each.leader_epoch) for each in view.topics[name].partitions]


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    view = read_view(answer(topic((1, 0), (2, 0), (3, 0))), ClusterView())
    assert [each.index for each in view.topics["t"].partitions] == [0, 1, 2]
    assert view.leader("t", 2) == 3
    assert view.leader("t", 3) == NO_NODE
    assert view.leader("other", 0) == NO_NODE
    assert view.names == {ID: "t"}
    assert view.brokers[2].address == Address("h", 2)


def test_an_older_leader_is_not_believed_again() -> None:
    before = read_view(answer(topic((1, 5), (1, 5))), ClusterView())
    after = read_view(answer(topic((2, 4), (2, 6))), before)
    assert leaders(after) == [(1, 5), (2, 6)]


def test_of_a_topic_made_anew_everything_is_believed() -> None:
    before = read_view(answer(topic((1, 5))), ClusterView())
    assert leaders(read_view(answer(topic((2, 0), topic_id=OTHER_ID)), before)) == [(2, 0)]


def test_faults_are_kept_apart_and_end() -> None:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    before = with_topics(ClusterView(), read_view(answer(topic((1, 0)), topic(name="x", code=code)), ClusterView()))
    assert before.faults == {"x": code}
    assert set(before.topics) == {"t"}
    found = with_topics(before, read_view(answer(topic((1, 0), name="x", topic_id=OTHER_ID)), before))
    assert not found.faults
    assert set(found.topics) == {"t", "x"}
    gone = with_topics(found, read_view(answer(topic(name="t", code=code)), found))
    assert set(gone.topics) == {"x"}
    assert gone.names == {OTHER_ID: "x"}


def test_an_unknown_error_is_an_error() -> None:
    view = read_view(answer(topic(name="x", code=32_000)), ClusterView())
    assert view.faults == {"x": ErrorCode.UNKNOWN_SERVER_ERROR}


def test_the_brokers_are_those_of_the_last_answer() -> None:
    before = read_view(answer(topic((1, 0))), ClusterView())
    assert set(with_topics(before, read_view(answer(brokers=1), before)).brokers) == {1}


def test_a_broker_may_name_a_newer_leader() -> None:
    view = read_view(answer(topic((1, 3), (1, 3))), ClusterView())
    assert leaders(with_leader(view, "t", 1, 2, 4)) == [(1, 3), (2, 4)]
    for partition, leader, epoch in ((0, 2, 3), (0, 2, 2), (5, 2, 9), (0, 9, 9)):
        assert with_leader(view, "t", partition, leader, epoch) is view, "old, or about a broker we do not know"
    assert with_leader(view, "other", 0, 2, 9) is view
