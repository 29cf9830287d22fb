"""Brokers that register, live and go, the elections this brings, producer ids, and data that is taken over."""

from dataclasses import replace
from typing import Any

import pytest

from levada.controller.adoption import (
    METADATA_LEVEL,
    METADATA_VERSION,
    AdoptRequest,
    FoundTopic,
    SkipProducerIdsRequest,
)
from levada.metadata.records import (
    NO_LEADER,
    UNFENCED,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.controller.clusters import Cluster, heartbeat, register

PREFERRED, UNCLEAN = 0, 1


def leaders(cluster: Cluster, name: str = "first") -> list[tuple[int, int, tuple[int, ...]]]:
    return [(one.leader, one.leader_epoch, one.isr) for one in cluster.partitions(name)]


def come_back(cluster: Cluster, broker: int) -> None:
    """Register and be given work again."""
    epoch = cluster.do(register(broker)).broker_epoch
    cluster.do(heartbeat(broker, epoch, cluster.image.offset))


# Registering


def test_the_epoch_of_a_broker_is_the_offset_of_its_registration() -> None:
    cluster = Cluster(2, 3).with_topic("first", (2,))
    offset = cluster.image.offset
    decision = cluster.decide(register(1, rack="r1"))
    registration = decision.records[0]
    assert isinstance(registration, RegisterBrokerRecord)
    assert decision.reply.broker_epoch == registration.broker_epoch == offset + 1
    cluster.do(register(1, rack="r1"))
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.rack, broker.is_fenced) == (offset + 1, "r1", True)
    assert broker.endpoints == (BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092),)


def test_every_registration_has_an_epoch_of_its_own() -> None:
    cluster = Cluster()
    epochs = [cluster.do(register(1)).broker_epoch for _ in range(3)]
    assert epochs == [0, 1, 2]


def test_a_new_broker_changes_no_partition() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2))
    assert len(cluster.decide(register(3)).records) == 1


def test_who_registers_again_has_lost_what_it_led() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2), (2, 1), (1,))
    cluster.do(register(1))
    assert leaders(cluster) == [(2, 1, (2,)), (2, 0, (2,)), (NO_LEADER, 1, (1,))]


def test_the_next_leader_is_the_first_replica_that_lives_and_is_in_sync() -> None:
    cluster = Cluster(1, 3, 4, fenced=[2]).with_topic("first", (1, 2, 3, 4)).with_topic("second", (1, 4, 3), isr=(1, 3))
    cluster.do(register(1))
    assert leaders(cluster) == [(3, 1, (2, 3, 4))]
    assert leaders(cluster, "second") == [(3, 1, (3,))]


def test_a_broker_alone_in_sync_stays_so_while_it_is_away() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2), isr=(1,))
    cluster.do(register(1))
    assert leaders(cluster) == [(NO_LEADER, 1, (1,))]
    assert cluster.partitions()[0].partition_epoch == 1


def test_a_partition_that_has_no_leader_already_is_left_as_it_is() -> None:
    cluster = Cluster(1).with_topic("first", (1,))
    cluster.do(register(1))
    assert len(cluster.decide(register(1)).records) == 1


# Heartbeats


def test_a_broker_that_has_read_its_registration_is_given_work() -> None:
    cluster = Cluster(2).with_topic("first", (1,), isr=(1,)).with_topic("second", (2,))
    epoch = cluster.do(register(1)).broker_epoch
    reply = cluster.do(heartbeat(1, epoch, epoch))
    assert (reply.error_code, reply.is_caught_up, reply.is_fenced, reply.should_shut_down) == (0, True, False, False)
    assert not cluster.image.brokers[1].is_fenced
    assert leaders(cluster) == [(1, 2, (1,))]
    assert leaders(cluster, "second") == [(2, 0, (2,))]


def test_unfencing_is_one_record_and_one_for_each_election() -> None:
    cluster = Cluster().with_topic("first", (1,), (1,))
    epoch = cluster.do(register(1)).broker_epoch
    unfence, *elections = cluster.decide(heartbeat(1, epoch, epoch)).records
    assert unfence == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=UNFENCED)
    changes = [one for one in elections if isinstance(one, PartitionChangeRecord)]
    assert len(changes) == len(elections)
    assert [(one.partition_id, one.leader, one.isr) for one in changes] == [(0, 1, None), (1, 1, None)]


def test_a_broker_that_is_back_takes_nothing_from_others() -> None:
    cluster = Cluster(2, fenced=[1]).with_topic("first", (1, 2), isr=(2, 1))
    cluster.do(heartbeat(1, cluster.image.brokers[1].epoch, cluster.image.offset))
    assert leaders(cluster) == [(2, 0, (2, 1))]


def test_a_broker_leads_only_what_it_was_in_sync_with() -> None:
    cluster = Cluster(2).with_topic("first", (1, 2), isr=(2,))
    cluster.do(register(2))
    come_back(cluster, 1)
    assert leaders(cluster) == [(NO_LEADER, 1, (2,))]
    come_back(cluster, 2)
    assert leaders(cluster) == [(2, 2, (2,))]


@pytest.mark.parametrize(
    ("read_to", "want_fence", "is_caught_up"), [(-1, False, False), (2, False, False), (3, True, True), (9, True, True)]
)
def test_a_broker_stays_fenced_while_it_is_behind_or_wants_to(
    read_to: int, want_fence: bool, is_caught_up: bool
) -> None:
    cluster = Cluster(2).with_topic("first", (2,))
    epoch = cluster.do(register(1)).broker_epoch
    assert epoch == 3
    decision = cluster.decide(heartbeat(1, epoch, read_to, want_fence=want_fence))
    assert decision.records == []
    assert (decision.reply.is_caught_up, decision.reply.is_fenced) == (is_caught_up, True)


def test_a_heartbeat_of_a_living_broker_writes_nothing() -> None:
    cluster = Cluster().with_topic("first", (1,))
    come_back(cluster, 1)
    decision = cluster.decide(heartbeat(1, cluster.image.brokers[1].epoch, cluster.image.offset))
    assert decision.records == []
    assert (decision.reply.is_caught_up, decision.reply.is_fenced) == (True, False)


@pytest.mark.parametrize(("broker", "epoch"), [(1, 99), (1, -1), (7, 0)])
def test_a_heartbeat_of_another_registration_is_stale(broker: int, epoch: int) -> None:
    cluster = Cluster()
    cluster.do(register(1))
    decision = cluster.decide(heartbeat(broker, epoch, 99))
    assert decision.reply.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert decision.records == []


def test_a_broker_that_wants_to_stop_may() -> None:
    cluster = Cluster()
    come_back(cluster, 1)
    epoch = cluster.image.brokers[1].epoch
    assert cluster.do(heartbeat(1, epoch, 99, want_shut_down=True)).should_shut_down


# Unregistering


def test_a_broker_that_is_away_can_be_forgotten() -> None:
    cluster = Cluster(2, fenced=[1]).with_topic("first", (1, 2), isr=(1, 2)).with_topic("second", (1,))
    reply = cluster.do(UnregisterBrokerRequest(broker_id=1))
    assert (reply.error_code, reply.error_message) == (ErrorCode.NONE, None)
    assert list(cluster.image.brokers) == [2]
    assert leaders(cluster) == [(2, 1, (2,))]
    assert leaders(cluster, "second") == [(NO_LEADER, 1, (1,))]


def test_the_record_names_the_registration_that_is_forgotten() -> None:
    records = Cluster(2, fenced=[1]).decide(UnregisterBrokerRequest(broker_id=1)).records
    assert records == [UnregisterBrokerRecord(broker_id=1, broker_epoch=1)]


@pytest.mark.parametrize(
    ("broker", "code", "message"),
    [
        (7, ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 7 is not currently registered"),
        (2, ErrorCode.INVALID_REQUEST, "Broker 2 is alive: stop it first."),
    ],
)
def test_brokers_that_live_or_never_were_are_not_forgotten(broker: int, code: int, message: str) -> None:
    decision = Cluster(2, fenced=[1]).decide(UnregisterBrokerRequest(broker_id=broker))
    assert (decision.reply.error_code, decision.reply.error_message) == (code, message)
    assert decision.records == []


# Leaders by order


def elect(kind: int, *partitions: tuple[str, list[int]]) -> ElectLeadersRequest:
    wanted = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in partitions]
    return ElectLeadersRequest(election_type=kind, topic_partitions=wanted)


def outcomes(reply: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in reply.replica_election_results
        for one in topic.partition_result
    }


def test_the_preferred_leader_leads_again_in_a_new_epoch() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2), isr=(2, 1))
    reply = cluster.do(elect(PREFERRED, ("first", [0])))
    assert outcomes(reply) == {("first", 0): ErrorCode.NONE}
    assert leaders(cluster) == [(1, 1, (2, 1))]


@pytest.mark.parametrize(
    ("kind", "wanted", "code"),
    [
        (PREFERRED, ("first", [0]), ErrorCode.ELECTION_NOT_NEEDED),
        (PREFERRED, ("first", [1]), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, ("first", [2]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, ("first", [-1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, ("other", [0]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, ("behind", [0]), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, ("away", [0]), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, ("first", [0]), ErrorCode.ELECTION_NOT_NEEDED),
        (UNCLEAN, ("alone", [0]), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (7, ("first", [0]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_election_that_cannot_be_changes_nothing(kind: int, wanted: tuple[str, list[int]], code: int) -> None:
    cluster = Cluster(1, 2, fenced=[3]).with_topic("first", (1, 2), (3, 2)).with_topic("alone", (3,))
    cluster.with_topic("behind", (2, 1), isr=(1,))
    cluster.add(*cluster.decide(register(3)).records[1:])
    cluster.with_topic("away", (3, 1), isr=(1, 3))
    decision = cluster.decide(elect(kind, wanted))
    assert outcomes(decision.reply) == {(wanted[0], wanted[1][0]): code}
    assert decision.records == []


def test_an_unclean_election_takes_who_is_there_and_says_that_records_may_be_gone() -> None:
    cluster = Cluster(2, fenced=[1]).with_topic("first", (1, 2), isr=(1,))
    cluster.do(register(1))
    assert outcomes(cluster.do(elect(UNCLEAN, ("first", [0])))) == {("first", 0): ErrorCode.NONE}
    assert leaders(cluster) == [(2, 2, (2,))]
    assert cluster.partitions()[0].is_recovering


def test_an_unclean_election_prefers_who_has_everything() -> None:
    cluster = Cluster(2, 3, fenced=[1]).with_topic("first", (1, 2, 3), isr=(1, 3))
    assert outcomes(cluster.do(elect(UNCLEAN, ("first", [0])))) == {("first", 0): ErrorCode.NONE}
    assert leaders(cluster) == [(3, 1, (1, 3))]
    assert not cluster.partitions()[0].is_recovering


def test_all_partitions_can_be_meant_and_those_in_order_go_unsaid() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2), (2, 1)).with_topic("second", (1, 2), isr=(2, 1))
    request = replace(elect(PREFERRED), topic_partitions=None)
    reply = cluster.do(request)
    assert outcomes(reply) == {("second", 0): ErrorCode.NONE}
    assert leaders(cluster, "second") == [(1, 1, (2, 1))]


# Producer ids


def test_blocks_of_producer_ids_never_overlap() -> None:
    cluster = Cluster(1, 2)
    starts = []
    for broker in (1, 2, 1):
        epoch = cluster.image.brokers[broker].epoch
        reply = cluster.do(AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch))
        assert (reply.error_code, reply.producer_id_len) == (ErrorCode.NONE, 1_000)
        starts.append(reply.producer_id_start)
    assert starts == [0, 1_000, 2_000]
    assert cluster.image.next_producer_id == 3_000


@pytest.mark.parametrize(("broker", "epoch"), [(1, 5), (7, 0)])
def test_producer_ids_are_for_those_who_are_registered(broker: int, epoch: int) -> None:
    decision = Cluster(1).decide(AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch))
    assert decision.reply.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert decision.records == []


# Taking over


def test_found_topics_are_taken_over_with_their_ids() -> None:
    cluster = Cluster()
    found = [FoundTopic("first", b"f" * 16, 2), FoundTopic("second", b"s" * 16, 1)]
    assert cluster.do(AdoptRequest(1, found)) is True
    assert {name: (topic.topic_id, len(topic.partitions)) for name, topic in cluster.image.topics.items()} == {
        "first": (b"f" * 16, 2),
        "second": (b"s" * 16, 1),
    }
    assert cluster.image.features == {METADATA_VERSION: METADATA_LEVEL}
    assert leaders(cluster) == [(NO_LEADER, 0, (1,)), (NO_LEADER, 0, (1,))]
    come_back(cluster, 1)
    assert [(leader, isr) for leader, _, isr in leaders(cluster)] == [(1, (1,)), (1, (1,))]


def test_nothing_is_taken_over_by_a_cluster_that_has_a_past() -> None:
    cluster = Cluster()
    assert cluster.do(AdoptRequest(1)) is True
    decision = cluster.decide(AdoptRequest(1, [FoundTopic("first", b"f" * 16, 2)]))
    assert decision.reply is False
    assert decision.records == []


def test_producer_ids_go_on_behind_those_of_adopted_logs() -> None:
    cluster = Cluster(1)
    assert cluster.do(SkipProducerIdsRequest(4_321)) is True
    assert cluster.do(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)).producer_id_start == 4_321
    for behind in (0, 4_321, 5_321):
        decision = cluster.decide(SkipProducerIdsRequest(behind))
        assert (decision.reply, decision.records) == (False, [])
