"""Images: a snapshot adds up to what it was taken of, batches may be cut anywhere, and no image is ever changed."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from levada.metadata.delta import Delta, apply
from levada.metadata.image import BROKER, TOPIC, Image
from levada.metadata.records import (
    FENCED,
    NO_CHANGE,
    NO_LEADER,
    UNFENCED,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)

NAMES = ("first", "second", "third")
KEYS = ("retention.ms", "segment.ms")
BROKERS = (1, 2, 3)
ids = st.binary(min_size=16, max_size=16)
words = st.text(max_size=3)
endpoints = st.builds(BrokerEndpoint, name=words, host=words, port=st.integers(0, 65_535), security_protocol=st.just(0))
levels = st.integers(0, 30)
features = st.builds(BrokerFeature, name=words, min_supported_version=levels, max_supported_version=levels)
some_brokers = st.lists(st.sampled_from(BROKERS), unique=True, max_size=3)
maybe_brokers = st.none() | some_brokers
leaders = st.sampled_from((NO_LEADER, *BROKERS))


@st.composite
def record_sequences(draw: st.DrawFn) -> list[Any]:
    """Records that fit one after the other, as a controller would write them."""
    image = Image()
    records: list[Any] = []
    for _ in range(draw(st.integers(0, 40))):
        makers = [_config, _register, _feature, _producer_ids]
        makers += [_create] * 3 if len(image.topics) < len(NAMES) else []
        makers += [_remove, _grow, _change, _change, _record_again] if image.topics else []
        makers += [_change_broker, _unregister] if image.brokers else []
        made = list(draw(st.sampled_from(makers))(draw, replace(image, offset=len(records))))
        records += made
        image = apply(image, made, len(records) - 1)
    return records


def _create(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    name = draw(st.sampled_from([name for name in NAMES if name not in image.topics]))
    # No id is ever used again.
    topic_id = image.offset.to_bytes(16, "big")
    yield TopicRecord(name=name, topic_id=topic_id)
    for index in range(draw(st.integers(0, 3))):
        yield draw(_partitions(topic_id, index))


def _remove(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    yield RemoveTopicRecord(topic_id=draw(st.sampled_from(sorted(image.topic_names))))


def _grow(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    topic = image.topics[draw(st.sampled_from(sorted(image.topics)))]
    yield draw(_partitions(topic.topic_id, len(topic.partitions)))


def _record_again(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    topic = image.topics[draw(st.sampled_from(sorted(image.topics)))]
    if topic.partitions:
        yield draw(_partitions(topic.topic_id, draw(st.integers(0, len(topic.partitions) - 1))))


def _change(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    topic = image.topics[draw(st.sampled_from(sorted(image.topics)))]
    if topic.partitions:
        yield PartitionChangeRecord(
            partition_id=draw(st.integers(0, len(topic.partitions) - 1)),
            topic_id=topic.topic_id,
            isr=draw(maybe_brokers),
            leader=draw(st.just(NO_CHANGE) | leaders),
            replicas=draw(maybe_brokers),
            removing_replicas=draw(maybe_brokers),
            adding_replicas=draw(maybe_brokers),
            leader_recovery_state=draw(st.sampled_from((-1, 0, 1))),
            directories=draw(st.none() | st.lists(ids, max_size=2)),
            eligible_leader_replicas=draw(maybe_brokers),
            last_known_elr=draw(maybe_brokers),
        )


@st.composite
def _partitions(draw: st.DrawFn, topic_id: bytes, index: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=draw(some_brokers),
        isr=draw(some_brokers),
        removing_replicas=draw(some_brokers),
        adding_replicas=draw(some_brokers),
        leader=draw(leaders),
        leader_recovery_state=draw(st.sampled_from((0, 1))),
        leader_epoch=draw(st.integers(0, 9)),
        partition_epoch=draw(st.integers(0, 9)),
        directories=draw(st.lists(ids, max_size=2)),
        eligible_leader_replicas=draw(maybe_brokers),
        last_known_elr=draw(maybe_brokers),
    )


def _config(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    kind, name = draw(st.sampled_from([(BROKER, ""), (BROKER, "1"), *((TOPIC, name) for name in image.topics)]))
    value = draw(st.none() | words)
    yield ConfigRecord(resource_type=kind, resource_name=name, name=draw(st.sampled_from(KEYS)), value=value)


def _register(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    yield RegisterBrokerRecord(
        broker_id=draw(st.sampled_from(BROKERS)),
        incarnation_id=draw(ids),
        broker_epoch=draw(st.integers(0, 99)),
        end_points=draw(st.lists(endpoints, max_size=2)),
        features=draw(st.lists(features, max_size=2)),
        rack=draw(st.none() | words),
        fenced=draw(st.booleans()),
        in_controlled_shutdown=draw(st.booleans()),
        log_dirs=draw(st.lists(ids, max_size=2)),
    )


def _change_broker(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    broker = image.brokers[draw(st.sampled_from(sorted(image.brokers)))]
    yield BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=draw(st.sampled_from((UNFENCED, 0, FENCED))),
        in_controlled_shutdown=draw(st.sampled_from((0, 1))),
        log_dirs=draw(st.lists(ids, max_size=2)),
    )


def _unregister(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    broker = image.brokers[draw(st.sampled_from(sorted(image.brokers)))]
    yield UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)


def _feature(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    yield FeatureLevelRecord(name=draw(st.sampled_from(("a", "b"))), feature_level=draw(st.integers(0, 3)))


def _producer_ids(draw: st.DrawFn, image: Image) -> Iterator[Any]:
    yield ProducerIdsRecord(broker_id=1, next_producer_id=image.next_producer_id + 1_000)


def one_by_one(records: list[Any]) -> list[Image]:
    """The images after each record."""
    images = [Image()]
    for offset, record in enumerate(records):
        images.append(apply(images[-1], [record], offset))
    return images


@settings(deadline=None, max_examples=40)
@given(record_sequences())
def test_a_snapshot_adds_up_to_what_it_was_taken_of(records: list[Any]) -> None:
    image = apply(Image(), records, len(records) - 1)
    through_bytes = [decode_record(encode_record(record)) for record in image.records()]
    assert apply(Image(), through_bytes, image.offset) == image


@settings(deadline=None, max_examples=40)
@given(record_sequences(), st.data())
def test_batches_may_be_cut_anywhere(records: list[Any], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(records)))
    first = apply(Image(), records[:cut], cut - 1)
    assert apply(first, records[cut:], len(records) - 1) == one_by_one(records)[-1]


@settings(deadline=None, max_examples=40)
@given(record_sequences())
def test_no_image_is_ever_changed_by_a_later_one(records: list[Any]) -> None:
    images = one_by_one(records)
    snapshots = [list(image.records()) for image in images]
    for image in images:
        apply(image, records[image.offset + 1 :], len(records) - 1)
    assert [list(image.records()) for image in images] == snapshots
    for image, snapshot in zip(images, snapshots):
        assert apply(Image(), snapshot, image.offset) == image


@settings(deadline=None, max_examples=40)
@given(record_sequences(), st.data())
def test_a_delta_names_all_that_differs(records: list[Any], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(records)))
    before = apply(Image(), records[:cut], cut - 1)
    delta = Delta(before).replay(records[cut:])
    after = delta.image(len(records) - 1)
    here, there = dict(before.topic_names), dict(after.topic_names)
    assert set(delta.removed_topics) == set(here) - set(there)
    for topic_id in there:
        if topic_id not in delta.touched_topics:
            assert after.topic_by_id(topic_id) is before.topic_by_id(topic_id)
    assert set(delta.touched_topics) <= set(there)
    for resource in {*before.configs, *after.configs} - set(delta.touched_configs):
        assert before.configs.get(resource) == after.configs.get(resource)
    for broker_id in {*before.brokers, *after.brokers} - set(delta.touched_brokers):
        assert before.brokers.get(broker_id) == after.brokers.get(broker_id)
