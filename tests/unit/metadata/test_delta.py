"""What each record does to an image, and what a delta says of it."""

from dataclasses import replace
from typing import Any

import pytest

from levada.metadata.delta import Delta, InvalidRecordOrder, apply
from levada.metadata.image import BROKER, TOPIC, BrokerState, Image, PartitionState, Resource, TopicState
from levada.metadata.records import (
    FENCED,
    NO_LEADER,
    UNFENCED,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

FIRST, SECOND, THIRD = (bytes([number]) * 16 for number in (1, 2, 3))
DIRECTORY = b"d" * 16
ENDPOINT = BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)
FEATURE = BrokerFeature(name="metadata.version", min_supported_version=1, max_supported_version=30)


def topic(name: str = "first", topic_id: bytes = FIRST) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def partition(index: int, topic_id: bytes = FIRST, replicas: tuple[int, ...] = (1, 2)) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=5,
        partition_epoch=7,
        directories=[DIRECTORY] * len(replicas),
    )


def change(index: int = 0, topic_id: bytes = FIRST, **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)


def config(name: str, value: str | None, topic_name: str = "first") -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC, resource_name=topic_name, name=name, value=value)


def registration(broker_id: int = 1, epoch: int = 10, **fields: Any) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=FIRST,
        broker_epoch=epoch,
        end_points=[ENDPOINT],
        features=[FEATURE],
        **fields,
    )


def broker_change(epoch: int = 10, **fields: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, **fields)


ONE_PARTITION = (topic(), partition(0))
STATE = PartitionState(
    index=0,
    replicas=(1, 2),
    isr=(1, 2),
    leader=1,
    leader_epoch=5,
    partition_epoch=7,
    directories=(DIRECTORY, DIRECTORY),
)
REGISTERED = BrokerState(1, 10, FIRST, (ENDPOINT,), (FEATURE,), is_fenced=True)


def image_of(*records: Any) -> Image:
    return apply(Image(), records, len(records) - 1)


def test_a_topic_has_the_partitions_that_were_recorded() -> None:
    image = image_of(topic(), partition(0), partition(1, replicas=(2,)))
    second = replace(STATE, index=1, replicas=(2,), isr=(2,), leader=2, directories=(DIRECTORY,))
    assert image.topics == {"first": TopicState("first", FIRST, (STATE, second))}
    assert image.topic_names == {FIRST: "first"}
    assert image.topic_by_id(FIRST) is image.topics["first"]
    assert image.partition_count == 2
    assert image.offset == 2


def test_a_partition_keeps_everything_its_record_says() -> None:
    record = replace(
        partition(0, replicas=(1, 2, 3)),
        isr=[1],
        removing_replicas=[2],
        adding_replicas=[3],
        leader_recovery_state=1,
        eligible_leader_replicas=[2],
        last_known_elr=[3],
    )
    (state,) = image_of(topic(), record).topics["first"].partitions
    assert state == PartitionState(
        0, (1, 2, 3), (1,), 1, 5, 7, (2,), (3,), (DIRECTORY,) * 3, eligible=(2,), last_known_eligible=(3,),
        is_recovering=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({}, {}),
        ({"isr": [2]}, {"isr": (2,)}),
        ({"isr": []}, {"isr": ()}),
        ({"leader": 2}, {"leader": 2, "leader_epoch": 6}),
        ({"leader": 1}, {"leader": 1, "leader_epoch": 6}),
        ({"leader": NO_LEADER}, {"leader": NO_LEADER, "leader_epoch": 6}),
        ({"replicas": [2, 1, 3]}, {"replicas": (2, 1, 3)}),
        ({"removing_replicas": [2]}, {"removing": (2,)}),
        ({"adding_replicas": [3]}, {"adding": (3,)}),
        ({"directories": [FIRST, SECOND]}, {"directories": (FIRST, SECOND)}),
        ({"eligible_leader_replicas": [2]}, {"eligible": (2,)}),
        ({"last_known_elr": [2]}, {"last_known_eligible": (2,)}),
        ({"leader_recovery_state": 1}, {"is_recovering": True}),
        ({"leader_recovery_state": 0}, {"is_recovering": False}),
    ],
)
def test_a_change_touches_what_it_names_and_moves_the_partition_epoch(
    fields: dict[str, Any], changed: dict[str, Any]
) -> None:
    (state,) = image_of(*ONE_PARTITION, change(**fields)).topics["first"].partitions
    assert state == replace(STATE, partition_epoch=8, **changed)


def test_every_election_is_an_epoch_of_its_own() -> None:
    (state,) = (
        image_of(*ONE_PARTITION, change(leader=NO_LEADER), change(leader=1), change(isr=[1])).topics["first"].partitions
    )
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 7, 10)


def test_what_an_unclean_election_left_can_be_recovered_from() -> None:
    (state,) = (
        image_of(*ONE_PARTITION, change(leader_recovery_state=1), change(leader_recovery_state=0))
        .topics["first"]
        .partitions
    )
    assert not state.is_recovering


def test_a_partition_recorded_again_is_as_the_last_record_says() -> None:
    image = image_of(*ONE_PARTITION, partition(0, replicas=(3,)))
    assert [one.replicas for one in image.topics["first"].partitions] == [(3,)]


def test_a_removed_topic_leaves_nothing_behind() -> None:
    image = image_of(*ONE_PARTITION, config("retention.ms", "1"), RemoveTopicRecord(topic_id=FIRST))
    assert image == Image(offset=3)
    assert image.topic_by_id(FIRST) is None


def test_a_name_can_be_used_again_with_another_id() -> None:
    before = image_of(*ONE_PARTITION, partition(1), config("retention.ms", "1"))
    delta = Delta(before).replay([RemoveTopicRecord(topic_id=FIRST), topic("first", SECOND), partition(0, SECOND)])
    after = delta.image(6)
    assert after.topics == {"first": TopicState("first", SECOND, (STATE,))}
    assert after.topic_names == {SECOND: "first"}
    assert after.config_of(TOPIC, "first") == {}
    assert delta.removed_topics == {FIRST: before.topics["first"]}
    assert list(delta.touched_topics) == [SECOND]
    assert list(delta.touched_configs) == [Resource(TOPIC, "first")]


def test_the_settings_of_a_name_used_again_are_new_ones() -> None:
    before = image_of(*ONE_PARTITION, config("retention.ms", "1"), config("segment.ms", "2"))
    again = [RemoveTopicRecord(topic_id=FIRST), topic("first", SECOND), partition(0, SECOND)]
    after = apply(before, [*again, config("segment.ms", "3")], 9)
    assert after.config_of(TOPIC, "first") == {"segment.ms": "3"}


def test_a_topic_made_and_removed_in_one_delta_was_never_there() -> None:
    delta = Delta(Image()).replay([*ONE_PARTITION, config("retention.ms", "1"), RemoveTopicRecord(topic_id=FIRST)])
    assert delta.image(3) == Image(offset=3)
    assert delta.touched_topics == delta.removed_topics == {}


def test_a_delta_names_the_topics_that_it_touched() -> None:
    before = image_of(*ONE_PARTITION, topic("second", SECOND), partition(0, SECOND), topic("third", THIRD))
    delta = Delta(before).replay([partition(1), change(0, SECOND, leader=2), RemoveTopicRecord(topic_id=THIRD)])
    assert list(delta.touched_topics) == [FIRST, SECOND]
    assert delta.removed_topics == {THIRD: before.topics["third"]}
    assert delta.touched_configs == {}
    assert delta.touched_brokers == {}


def test_topics_that_a_delta_did_not_touch_are_the_same_objects() -> None:
    before = image_of(*ONE_PARTITION, partition(1), topic("second", SECOND), partition(0, SECOND))
    after = apply(before, [change(1, leader=2)], 9)
    assert after.topics["second"] is before.topics["second"]
    assert after.topics["first"].partitions[0] is before.topics["first"].partitions[0]


def test_a_setting_is_kept_changed_and_removed() -> None:
    image = image_of(
        *ONE_PARTITION, config("retention.ms", "1"), config("segment.ms", "2"), config("retention.ms", "3")
    )
    assert image.config_of(TOPIC, "first") == {"retention.ms": "3", "segment.ms": "2"}
    delta = Delta(image).replay([config("retention.ms", None), config("never.set", None)])
    assert delta.image(9).config_of(TOPIC, "first") == {"segment.ms": "2"}
    assert list(delta.touched_configs) == [Resource(TOPIC, "first")]
    assert apply(image, [config("retention.ms", None), config("segment.ms", None)], 9).configs == {}


def test_settings_belong_to_a_type_and_a_name() -> None:
    kinds = [(TOPIC, "1"), (BROKER, "1"), (BROKER, "")]
    image = image_of(
        *(ConfigRecord(resource_type=kind, resource_name=name, name="x", value=f"{kind}{name}") for kind, name in kinds)
    )
    assert [image.config_of(*kind) for kind in kinds] == [{"x": "21"}, {"x": "41"}, {"x": "4"}]
    assert image.config_of(TOPIC, "other") == {}


def test_a_broker_is_as_it_registered() -> None:
    image = image_of(registration(rack="r1", log_dirs=[DIRECTORY], in_controlled_shutdown=True, fenced=False))
    expected = replace(REGISTERED, rack="r1", log_dirs=(DIRECTORY,), is_shutting_down=True, is_fenced=False)
    assert image.brokers == {1: expected}


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({}, {}),
        ({"fenced": UNFENCED}, {"is_fenced": False}),
        ({"fenced": FENCED}, {"is_fenced": True}),
        ({"in_controlled_shutdown": 1}, {"is_shutting_down": True}),
        ({"log_dirs": [SECOND]}, {"log_dirs": (SECOND,)}),
    ],
)
def test_a_change_of_a_broker_touches_what_it_names(fields: dict[str, Any], changed: dict[str, Any]) -> None:
    delta = Delta(image_of(registration())).replay([broker_change(**fields)])
    assert delta.image(1).brokers == {1: replace(REGISTERED, **changed)}
    assert list(delta.touched_brokers) == [1]


def test_a_broker_can_be_fenced_again() -> None:
    image = image_of(registration(), broker_change(fenced=UNFENCED))
    assert [broker.broker_id for broker in image.live_brokers()] == [1]
    assert apply(image, [broker_change(fenced=FENCED)], 9).live_brokers() == []


def test_live_brokers_come_by_id() -> None:
    image = image_of(registration(3, 1, fenced=False), registration(1, 2, fenced=False), registration(2, 3))
    assert [broker.broker_id for broker in image.live_brokers()] == [1, 3]


def test_a_second_registration_begins_anew() -> None:
    image = image_of(registration(rack="r1"), broker_change(fenced=UNFENCED), registration(epoch=20))
    assert image.brokers == {1: replace(REGISTERED, epoch=20)}


def test_an_unregistered_broker_is_gone() -> None:
    delta = Delta(image_of(registration(), registration(2))).replay(
        [UnregisterBrokerRecord(broker_id=1, broker_epoch=10)]
    )
    assert list(delta.image(2).brokers) == [2]
    assert list(delta.touched_brokers) == [1]


def test_features_and_producer_ids_are_as_last_said() -> None:
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=29),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="other", feature_level=1),
        FeatureLevelRecord(name="other", feature_level=0),
        ProducerIdsRecord(broker_id=1, next_producer_id=1_000),
        ProducerIdsRecord(broker_id=1, next_producer_id=2_000),
    )
    assert image.features == {"metadata.version": 30}
    assert image.next_producer_id == 2_000


@pytest.mark.parametrize(
    "record",
    [
        topic("first", SECOND),
        topic("second", FIRST),
        RemoveTopicRecord(topic_id=SECOND),
        partition(0, SECOND),
        partition(2),
        partition(-1),
        change(0, SECOND),
        change(1),
        change(-1),
        broker_change(),
    ],
    ids=repr,
)
def test_a_record_that_does_not_fit_is_refused(record: Any) -> None:
    with pytest.raises(InvalidRecordOrder):
        apply(image_of(*ONE_PARTITION), [record], 9)


@pytest.mark.parametrize("epoch", [9, 11])
def test_a_change_of_another_registration_is_refused(epoch: int) -> None:
    with pytest.raises(InvalidRecordOrder):
        apply(image_of(registration()), [broker_change(epoch)], 9)


def test_nothing_of_a_topic_fits_after_its_removal() -> None:
    for record in (partition(1), change(), RemoveTopicRecord(topic_id=FIRST)):
        with pytest.raises(InvalidRecordOrder):
            image_of(*ONE_PARTITION, RemoveTopicRecord(topic_id=FIRST), record)


def test_an_unknown_record_is_a_bug() -> None:
    with pytest.raises(KeyError):
        apply(Image(), [MetadataRecord()], 0)
