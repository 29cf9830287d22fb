"""Three brokers on one coordinator directory, as clients meet them: any of them can be asked for anything."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer, KafkaProducer

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.declare import NO_UUID, Request
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.describe_cluster import DescribeClusterRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.world.real import real_world
from tests.brokers import BrokerProcess
from tests.clusters import ClusterProcesses, sound_cluster, wait_for

T = TypeVar("T")

ALL = [1, 2, 3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with sound_cluster(ClusterProcesses(tmp_path_factory.mktemp("cluster"))) as cluster:
        yield cluster


def ask(broker: BrokerProcess, request: Request[T], version: int | None = None, port: int | None = None) -> T:
    async def main() -> T:
        channel = await Channel.connect(real_world().net, "localhost", port or broker.port)
        try:
            return await channel.call(request, request.versions[-1] if version is None else version)
        finally:
            channel.close()

    return asyncio.run(main())


def metadata(broker: BrokerProcess, *names: str, port: int | None = None) -> MetadataResponse:
    topics = [MetadataRequestTopic(topic_id=NO_UUID, name=name) for name in names]
    return ask(broker, MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12, port)


def create(broker: BrokerProcess, name: str, partitions: int = 1, replicas: int = 1) -> tuple[int, str | None]:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=[]
    )
    [result] = ask(broker, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7).topics
    return result.error_code, result.error_message


def leaders(broker: BrokerProcess, name: str) -> list[int]:
    [topic] = metadata(broker, name).topics
    return [one.leader_id for one in sorted(topic.partitions, key=lambda one: one.partition_index)]


def controllers(cluster: ClusterProcesses) -> set[int]:
    return {metadata(broker).controller_id for broker in cluster.brokers.values()}


def controller_of(cluster: ClusterProcesses) -> int:
    """The one that all brokers name, once they do."""

    def agreed() -> int | None:
        named = controllers(cluster)
        return named.pop() if len(named) == 1 else None

    return wait_for(agreed, "all brokers name one controller")


def test_every_broker_tells_of_the_same_cluster(cluster: ClusterProcesses) -> None:
    replies = [metadata(broker) for broker in cluster.brokers.values()]
    ports = {node_id: broker.port for node_id, broker in cluster.brokers.items()}
    for reply in replies:
        assert {one.node_id: one.port for one in reply.brokers} == ports
        assert reply.cluster_id == replies[0].cluster_id
    assert controller_of(cluster) in ALL
    described = [
        ask(broker, DescribeClusterRequest(include_cluster_authorized_operations=False), 2)
        for broker in cluster.brokers.values()
    ]
    assert {one.controller_id for one in described} == {controller_of(cluster)}
    assert all(sorted(broker.broker_id for broker in one.brokers) == ALL for one in described)


@pytest.mark.parametrize("asked", ALL)
def test_a_topic_that_any_broker_was_asked_for_is_at_all_of_them(cluster: ClusterProcesses, asked: int) -> None:
    name = f"asked-of-{asked}"
    assert create(cluster.brokers[asked], name, partitions=6) == (0, None)
    assert sorted(leaders(cluster.brokers[asked], name)) == [1, 1, 2, 2, 3, 3]
    for broker in cluster.brokers.values():
        wait_for(lambda broker=broker: leaders(broker, name) or None, "the topic at every broker")  # type: ignore[misc]
        assert leaders(broker, name) == leaders(cluster.brokers[asked], name)
        assert create(broker, name)[0] == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_broker_that_does_not_lead_says_so(cluster: ClusterProcesses) -> None:
    assert create(cluster.brokers[1], "led-elsewhere", partitions=3) == (0, None)
    for node_id, broker in cluster.brokers.items():
        wait_for(lambda broker=broker: leaders(broker, "led-elsewhere") or None, "the topic")  # type: ignore[misc]
        for index, leader in enumerate(leaders(broker, "led-elsewhere")):
            batch = build_batch([(0, None, b"v", ())])
            data = TopicProduceData(
                name="led-elsewhere", partition_data=[PartitionProduceData(index=index, records=batch)]
            )
            reply = ask(broker, ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), 9)
            [partition] = reply.responses[0].partition_responses
            expected = ErrorCode.NONE if leader == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert partition.error_code == expected


def test_records_reach_a_group_through_every_broker(cluster: ClusterProcesses) -> None:
    """librdkafka and kafka-python, each given one broker to begin with."""
    first, _, third = cluster.brokers.values()
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.create_topics([NewTopic("shared", num_partitions=6, replication_factor=1)])["shared"].result()
    producer = Producer({"bootstrap.servers": third.bootstrap, "enable.idempotence": True})
    for number in range(300):
        producer.produce("shared", key=str(number), value=str(number))
    assert producer.flush(20) == 0
    plain = KafkaProducer(bootstrap_servers=first.bootstrap)
    for number in range(300, 600):
        plain.send("shared", key=str(number).encode(), value=str(number).encode())
    plain.close()

    consumer = Consumer({"bootstrap.servers": third.bootstrap, "group.id": "one", "auto.offset.reset": "earliest"})
    consumer.subscribe(["shared"])
    seen: list[int] = []

    def all_seen() -> bool:
        for message in consumer.consume(600, 0.5):
            assert message.error() is None
            seen.append(int(message.value() or b""))
        return len(seen) >= 600

    wait_for(all_seen, "all records")
    consumer.commit(asynchronous=False)
    consumer.close()
    assert sorted(seen) == list(range(600))

    again = KafkaConsumer(
        "shared", bootstrap_servers=first.bootstrap, group_id="one", auto_offset_reset="earliest",
        consumer_timeout_ms=1_000,
    )  # fmt: skip
    assert list(again) == []
    again.close()


def test_more_replicas_than_this_release_keeps_are_refused(cluster: ClusterProcesses) -> None:
    code, text = create(cluster.brokers[2], "copied", replicas=2)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert text is not None
    assert "it does not copy records between brokers yet" in text


def test_a_broker_whose_id_is_taken_is_refused(cluster: ClusterProcesses, tmp_path: Path) -> None:
    twin = BrokerProcess(tmp_path / "twin", node_id=2, coordinator=cluster.coordinator)
    with pytest.raises(
        AssertionError, match=r"a broker with id 2 is running on .*; stop it or choose another --node-id"
    ):
        twin.start()


def test_a_broker_of_another_cluster_is_refused(cluster: ClusterProcesses, tmp_path: Path) -> None:
    alone = BrokerProcess(tmp_path / "alone", node_id=7)
    alone.start()
    assert alone.stop() == 0
    lost = BrokerProcess(tmp_path / "alone", node_id=7, coordinator=cluster.coordinator)
    with pytest.raises(AssertionError, match=r"belongs to cluster .*, its coordinator to"):
        lost.start()


def test_brokers_own_requests_are_refused_on_the_listeners_of_clients(tmp_path: Path) -> None:
    settings = (
        "listeners=CLIENTS://localhost:0,BROKERS://127.0.0.1:0",
        "listener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name=BROKERS",
    )
    cluster = ClusterProcesses(tmp_path / "cluster", 2, *settings)
    # The flag of a test's broker would win over the listeners that are set.
    for broker in cluster.brokers.values():
        broker.listens_by_flag = False
    with sound_cluster(cluster):
        first, second = cluster.brokers.values()
        assert create(second, "t", partitions=4) == (0, None)
        wait_for(lambda: leaders(first, "t") == leaders(second, "t"), "the topic")
        told = {one.node_id: (one.host, one.port) for one in metadata(first).brokers}
        assert told == {1: ("localhost", first.port), 2: ("localhost", second.port)}
        with pytest.raises(ChannelClosed):
            ask(first, BrokerHeartbeatRequest(
                broker_id=2, current_metadata_offset=0, want_fence=False, want_shut_down=True
            ))  # fmt: skip
        # Over the brokers' listener clients are told of the brokers' addresses.
        for_brokers = first.port_of("BROKERS")
        hosts = {one.node_id: one.host for one in metadata(first, port=for_brokers).brokers}
        assert hosts == {1: "127.0.0.1", 2: "127.0.0.1"}


def test_a_client_that_calls_itself_a_broker_is_refused(cluster: ClusterProcesses) -> None:
    controller = cluster.brokers[controller_of(cluster)]
    listener = Listener(name="PLAINTEXT", host="localhost", port=1, security_protocol=0)
    stranger = BrokerRegistrationRequest(
        broker_id=99,
        cluster_id=metadata(controller).cluster_id or "",
        incarnation_id=bytes(range(16)),
        listeners=[listener],
        features=[],
        rack=None,
    )
    assert ask(controller, stranger).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for node_id in ALL:
        with pytest.raises(ChannelClosed):
            ask(controller, BrokerHeartbeatRequest(
                broker_id=node_id, current_metadata_offset=0, want_fence=False, want_shut_down=True
            ))  # fmt: skip
    assert len(metadata(controller).brokers) == len(ALL)


def test_when_the_controller_is_killed_another_decides_and_nothing_is_lost(tmp_path: Path) -> None:
    with sound_cluster(ClusterProcesses(tmp_path / "cluster")) as cluster:
        for node_id, broker in cluster.brokers.items():
            assert create(broker, f"before-{node_id}", partitions=3) == (0, None)
        killed = controller_of(cluster)
        cluster.brokers[killed].kill()
        left = {node_id: broker for node_id, broker in cluster.brokers.items() if node_id != killed}
        for node_id, broker in left.items():
            # Held until there is a controller again.
            assert create(broker, f"after-{node_id}") == (0, None)
        for broker in left.values():
            wait_for(lambda broker=broker: -1 in leaders(broker, "before-1"), "the dead broker is fenced")  # type: ignore[misc]
            assert metadata(broker).controller_id in left
            assert sorted(one.node_id for one in metadata(broker).brokers) == sorted(left)
        cluster.brokers[killed].start()
        names = [f"before-{one}" for one in ALL] + [f"after-{one}" for one in left]
        for broker in cluster.brokers.values():
            wait_for(lambda broker=broker: sorted(leaders(broker, "before-1")) == ALL, "it leads again")  # type: ignore[misc]
            assert [topic.error_code for topic in metadata(broker, *names).topics] == [0] * len(names)


def test_a_controller_that_stood_still_is_succeeded_and_changes_nothing_when_it_goes_on(tmp_path: Path) -> None:
    with sound_cluster(ClusterProcesses(tmp_path / "cluster")) as cluster:
        paused = controller_of(cluster)
        left = {node_id: broker for node_id, broker in cluster.brokers.items() if node_id != paused}
        one, other = left.values()
        cluster.brokers[paused].pause()
        # The one that was asked may have carried it out, so it is for the client to ask again.
        made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        wait_for(lambda: create(one, "meanwhile", partitions=2)[0] in made, "another controller decides")
        successor = wait_for(lambda: metadata(other).controller_id in left and metadata(other).controller_id, "another")
        cluster.brokers[paused].resume()
        assert create(cluster.brokers[paused], "afterwards") == (0, None)
        # On a machine that is busy enough there may have been another election since.
        assert successor in left
        assert controller_of(cluster) in ALL
        for broker in cluster.brokers.values():
            wait_for(lambda broker=broker: len(metadata(broker).brokers) == 3 or None, "all are back")  # type: ignore[misc]
            assert [topic.error_code for topic in metadata(broker, "meanwhile", "afterwards").topics] == [0, 0]


def test_a_controller_that_is_stopped_is_succeeded_at_once(tmp_path: Path) -> None:
    """A broker that said nothing would be waited for as long as its session lasts, and the test would not end."""
    settings = ("broker.session.timeout.ms=60000",)
    with sound_cluster(ClusterProcesses(tmp_path / "cluster", 3, *settings)) as cluster:
        stopped = controller_of(cluster)
        assert create(cluster.brokers[stopped], "t", partitions=3) == (0, None)
        assert cluster.brokers[stopped].stop() == 0
        left = {node_id: broker for node_id, broker in cluster.brokers.items() if node_id != stopped}
        expected = [-1, *sorted(left)]
        for broker in left.values():
            wait_for(lambda broker=broker: metadata(broker).controller_id in left, "another controller")  # type: ignore[misc]
            # It has said that it goes, so it was fenced without a session's wait.
            wait_for(lambda broker=broker: sorted(leaders(broker, "t")) == expected, "it is fenced")  # type: ignore[misc]
        assert create(next(iter(left.values())), "u") == (0, None)
        cluster.brokers[stopped].start()
