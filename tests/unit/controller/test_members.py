"""Brokers that come, fall silent, stop and come back, as the controller decides about them; what it tells of itself."""

from dataclasses import replace

import pytest

from levada.controller.brokers import FenceRequest
from levada.controller.sessions import BrokerSessions, Liveness
from levada.metadata.delta import Delta
from levada.metadata.image import Image
from levada.metadata.records import NO_LEADER, FeatureLevelRecord
from levada.model.error_codes import ErrorCode
from levada.model.hashes import uuid_to_text
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from levada.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from levada.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.controller.clusters import Cluster, create, topic

SESSION_MS = 9_000
OLD, NEW = b"o" * 16, b"n" * 16


def registration(broker_id: int, incarnation: bytes, cluster_id: str = "") -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id, cluster_id=cluster_id, incarnation_id=incarnation, listeners=[], features=[], rack=None
    )


def heartbeat(cluster: Cluster, broker_id: int, *, wants_to_stop: bool = False) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=cluster.image.brokers[broker_id].epoch,
        current_metadata_offset=cluster.image.offset,
        want_fence=False,
        want_shut_down=wants_to_stop,
    )


class TestSessions:
    def test_a_controller_that_begins_gives_every_broker_a_whole_session(self) -> None:
        image = Cluster(1, 2).image
        sessions = BrokerSessions(image.brokers, SESSION_MS, 1_000)
        for now_ms in range(1_000, 1_000 + SESSION_MS, 1_000):
            assert sessions.look(image, now_ms) == []
        assert sessions.look(image, 1_000 + SESSION_MS) == [1, 2]

    def test_a_broker_that_is_heard_lives_on(self) -> None:
        image = Cluster(1, 2).image
        sessions = BrokerSessions(image.brokers, SESSION_MS, 0)
        for now_ms in range(0, 3 * SESSION_MS, 1_000):
            sessions.hear(1, 5, 5, now_ms)
            dead = sessions.look(image, now_ms)
        assert dead == [2]

    def test_a_controller_that_stood_still_does_not_take_it_for_the_brokers_silence(self) -> None:
        image = Cluster(1).image
        sessions = BrokerSessions(image.brokers, SESSION_MS, 0)
        sessions.look(image, 1_000)
        assert sessions.look(image, 1_000 + 10 * SESSION_MS) == []
        later = 1_000 + 10 * SESSION_MS
        for now_ms in range(later, later + SESSION_MS, 1_000):
            sessions.look(image, now_ms)
        assert sessions.look(image, later + SESSION_MS) == [1]

    def test_a_broker_that_lives_and_does_not_read_is_deaf_after_a_session(self) -> None:
        image = Cluster(1).image
        sessions = BrokerSessions(image.brokers, SESSION_MS, 0)
        for now_ms in range(0, SESSION_MS, 1_000):
            sessions.hear(1, 4, 5 + now_ms, now_ms)
            assert sessions.look(image, now_ms) == []
        sessions.hear(1, 4, 20_000, SESSION_MS)
        assert sessions.look(image, SESSION_MS) == [1]
        sessions.hear(1, 20_000, 20_000, SESSION_MS + 1)
        assert sessions.look(image, SESSION_MS + 1) == []

    def test_a_broker_that_reads_on_is_not_deaf_though_the_log_is_always_ahead(self) -> None:
        image = Cluster(1).image
        sessions = BrokerSessions(image.brokers, SESSION_MS, 0)
        for now_ms in range(0, 5 * SESSION_MS, 1_000):
            sessions.hear(1, now_ms, now_ms + 10, now_ms)
            assert sessions.look(image, now_ms) == []


class TestRegistration:
    def cluster(self, now_ms: int = 0, incarnations: dict[int, str] | None = None) -> Cluster:
        cluster = Cluster()
        cluster.do(registration(1, OLD))
        sessions = BrokerSessions([1], SESSION_MS, 0)
        cluster.liveness = Liveness(sessions, now_ms, incarnations)
        return cluster

    def test_an_id_whose_broker_lives_is_not_given_again(self) -> None:
        reply = self.cluster().do(registration(1, NEW))
        assert reply.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    def test_it_is_when_the_broker_was_silent_for_a_session(self) -> None:
        assert self.cluster(now_ms=SESSION_MS).do(registration(1, NEW)).error_code == ErrorCode.NONE

    def test_it_is_when_the_coordinator_has_it_for_the_new_process(self) -> None:
        """Only one process can have it there, so the other one is dead, however short ago it was heard."""
        cluster = self.cluster(incarnations={1: uuid_to_text(NEW)})
        assert cluster.do(registration(1, NEW)).error_code == ErrorCode.NONE

    def test_a_client_that_calls_itself_a_broker_is_refused(self) -> None:
        """The coordinator has no such process."""
        reply = self.cluster(SESSION_MS, incarnations={2: uuid_to_text(NEW)}).do(registration(1, NEW))
        assert reply.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def test_a_broker_of_another_cluster_is_refused(self) -> None:
        cluster = Cluster()
        cluster.defaults = replace(cluster.defaults, cluster_id="ours")
        assert cluster.do(registration(1, NEW, "theirs")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert cluster.do(registration(1, NEW, "ours")).error_code == ErrorCode.NONE

    def test_every_registration_has_a_higher_epoch(self) -> None:
        cluster = Cluster()
        epochs = [cluster.do(registration(1, bytes([number]) * 16)).broker_epoch for number in range(5)]
        assert epochs == sorted(set(epochs))


def led(cluster: Cluster, name: str = "t") -> list[int]:
    return [partition.leader for partition in cluster.image.topics[name].partitions]


def a_cluster_with_a_topic() -> Cluster:
    cluster = Cluster(1, 2)
    cluster.do(create(topic("t", assignments=[(0, [1]), (1, [2])])))
    return cluster


class TestFencing:
    def test_a_silent_broker_leads_nothing_and_leads_again_when_it_is_back(self) -> None:
        cluster = a_cluster_with_a_topic()
        assert cluster.do(FenceRequest(2)) is True
        assert cluster.image.brokers[2].is_fenced
        assert led(cluster) == [1, NO_LEADER]
        assert cluster.do(FenceRequest(2)) is False
        before = [partition.leader_epoch for partition in cluster.partitions("t")]
        assert cluster.do(heartbeat(cluster, 2), version=2).is_fenced is False
        assert led(cluster) == [1, 2]
        assert [partition.leader_epoch for partition in cluster.partitions("t")] == [before[0], before[1] + 1]

    def test_one_that_was_heard_meanwhile_is_left_alone(self) -> None:
        cluster = a_cluster_with_a_topic()
        cluster.liveness = Liveness(BrokerSessions([2], SESSION_MS, 0), 1)
        assert cluster.do(FenceRequest(2)) is False
        assert led(cluster) == [1, 2]

    def test_a_deaf_broker_is_fenced_and_stays_so_while_it_beats(self) -> None:
        cluster = a_cluster_with_a_topic()
        sessions = BrokerSessions([2], SESSION_MS, 0)
        sessions.hear(2, 0, 9, 0)
        sessions.hear(2, 0, 9, SESSION_MS)
        cluster.liveness = Liveness(sessions, SESSION_MS)
        assert cluster.do(FenceRequest(2)) is True
        assert cluster.do(heartbeat(cluster, 2), version=2).is_fenced is True

    def test_a_broker_that_says_that_it_stops_leads_nothing_and_stays_fenced(self) -> None:
        cluster = a_cluster_with_a_topic()
        reply = cluster.do(heartbeat(cluster, 2, wants_to_stop=True), version=2)
        assert (reply.should_shut_down, reply.is_fenced) == (True, True)
        assert led(cluster) == [1, NO_LEADER]
        offset = cluster.image.offset
        assert cluster.do(heartbeat(cluster, 2), version=2).is_fenced is True
        assert cluster.do(heartbeat(cluster, 2, wants_to_stop=True), version=2).should_shut_down
        assert cluster.image.offset == offset


def test_more_replicas_than_are_kept_are_refused_after_all_else() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.defaults = replace(cluster.defaults, max_replicas=1)
    [refused] = cluster.do(create(topic("t", partitions=1, factor=2))).topics
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "does not copy records between brokers yet" in (refused.error_message or "")
    [refused] = cluster.do(create(topic("t", assignments=[(0, [1, 2])]))).topics
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    [refused] = cluster.do(create(topic("t", partitions=1, factor=4))).topics
    assert "only 3 broker(s) are registered" in (refused.error_message or "")
    [made] = cluster.do(create(topic("t", partitions=1, factor=1))).topics
    assert made.error_code == ErrorCode.NONE


def test_the_controller_is_described_as_the_only_voter() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.defaults = replace(cluster.defaults, node_id=2)
    sessions = BrokerSessions([1, 2, 3], SESSION_MS, 0)
    sessions.hear(1, 1, 2, 0)
    cluster.liveness = Liveness(sessions, 0)
    cluster.controller_epoch = 7
    request = DescribeQuorumRequest(
        topics=[
            RequestTopicData(
                topic_name="__cluster_metadata",
                partitions=[RequestPartitionData(partition_index=0), RequestPartitionData(partition_index=1)],
            )
        ]
    )
    [described] = cluster.do(request, version=2).topics
    found, unknown = described.partitions
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (2, 7, cluster.image.offset + 1)
    assert [one.replica_id for one in found.current_voters] == [2]
    assert [(one.replica_id, one.log_end_offset) for one in found.observers] == [(1, 2), (3, 0)]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def feature_cluster() -> Cluster:
    cluster = Cluster()
    for broker_id, most in ((1, 3), (2, 2)):
        request = registration(broker_id, bytes([broker_id]) * 16)
        request.features = [Feature(name="f.level", min_supported_version=0, max_supported_version=most)]
        cluster.do(request)
    cluster.add(FeatureLevelRecord(name="f.level", feature_level=1))
    return cluster


@pytest.mark.parametrize(
    ("level", "kind", "code", "words"),
    [
        (2, 1, ErrorCode.NONE, None),
        (1, 1, ErrorCode.NONE, None),
        (3, 1, ErrorCode.INVALID_UPDATE_VERSION, "Broker 2 only supports versions 0-2"),
        (0, 1, ErrorCode.INVALID_UPDATE_VERSION, "Can't downgrade"),
        (0, 2, ErrorCode.NONE, None),
        (-1, 3, ErrorCode.INVALID_UPDATE_VERSION, "not negative"),
    ],
)
def test_a_feature_has_a_level_that_every_broker_knows(
    level: int, kind: int, code: ErrorCode, words: str | None
) -> None:
    cluster = feature_cluster()
    update = FeatureUpdateKey(feature="f.level", max_version_level=level, upgrade_type=kind)
    [result] = cluster.do(UpdateFeaturesRequest(feature_updates=[update]), version=1).results
    assert result.error_code == code
    assert (words or "") in (result.error_message or "")
    expected = level if code == ErrorCode.NONE else 1
    assert cluster.image.features.get("f.level", 0) == expected


def test_of_several_features_all_are_changed_or_none() -> None:
    cluster = feature_cluster()
    updates = [
        FeatureUpdateKey(feature="f.level", max_version_level=2),
        FeatureUpdateKey(feature="unknown", max_version_level=1),
    ]
    reply = cluster.do(UpdateFeaturesRequest(feature_updates=updates), version=2)
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Broker 1 does not support this feature" in (reply.error_message or "")
    assert cluster.image.features["f.level"] == 1


def test_what_changed_between_two_images_is_told_as_a_delta_tells_it() -> None:
    before = a_cluster_with_a_topic()
    cluster = a_cluster_with_a_topic()
    kept, image = cluster.image.topics["t"].topic_id, cluster.image
    cluster.do(create(topic("u", partitions=1, factor=1)))
    cluster.do(FenceRequest(2))
    delta = Delta.between(image, cluster.image)
    assert set(delta.touched_topics) == {kept, cluster.image.topics["u"].topic_id}
    assert set(delta.touched_brokers) == {2}
    assert delta.removed_topics == {}
    back = Delta.between(cluster.image, image)
    assert [one.name for one in back.removed_topics.values()] == ["u"]
    assert set(Delta.between(Image(), before.image).touched_brokers) == {1, 2}
