"""An offset belongs to the topic it was committed for: one that is made anew under the name begins without any."""

from collections.abc import Callable

import pytest

from levada.groups import GroupSettings
from levada.groups.records import OffsetCommitKey
from levada.metadata.delta import apply
from levada.metadata.image import Image
from levada.metadata.records import PartitionRecord, TopicRecord
from levada.model.error_codes import ErrorCode
from levada.model.errors import KafkaStorageError
from levada.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.unit.groups.harness import GROUP, Coordinator
from tests.unit.groups.test_offset_upkeep import stable_with
from tests.unit.groups.test_transactional_offsets import OTHER, commit_in_transaction, end

OLD, NEW, KEPT = b"o" * 16, b"n" * 16, b"k" * 16
CHECK_MS = 60_000
SETTINGS = GroupSettings(offsets_check_interval_ms=CHECK_MS)


def image_of(**ids: bytes) -> Image:
    records = [
        record
        for name, topic_id in ids.items()
        for record in (
            TopicRecord(name=name, topic_id=topic_id),
            PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1]),
        )
    ]
    return apply(Image(), records, len(records))


def with_commit(topic_id: bytes = OLD) -> Coordinator:
    """A group that has committed an offset of `topic`, which has that id."""
    coordinator = Coordinator(SETTINGS)
    coordinator.image = image_of(topic=OLD, kept=KEPT)
    assert coordinator.commit(offset=1, topic_id=topic_id) == ErrorCode.NONE
    return coordinator


def unstable(coordinator: Coordinator) -> frozenset[tuple[str, int]]:
    wanted = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    token = coordinator.run(lambda machine, token: machine.committed(token, wanted, require_stable=True))
    found: frozenset[tuple[str, int]] = coordinator.replies[token].unstable
    return found


LATER = [image_of(kept=KEPT), image_of(topic=NEW, kept=KEPT)]


@pytest.mark.parametrize("image", LATER, ids=["gone", "made anew"])
@pytest.mark.parametrize("is_loaded", [False, True])
def test_offsets_of_a_deleted_topic_whose_ends_were_not_written_are_ended_by_the_next_cleanup(
    image: Image, is_loaded: bool
) -> None:
    coordinator = with_commit()
    coordinator.commit(topic="kept", topic_id=KEPT, group="other")
    coordinator.image = image
    coordinator.journal.refusal = KafkaStorageError("no space left")
    coordinator.run(lambda machine, _: machine.forget_topics(["topic"], coordinator.now_ms))
    coordinator.journal.refusal = None
    if is_loaded:
        coordinator.load()
    assert coordinator.committed() == 1, "its end could not be written"
    coordinator.advance(CHECK_MS)
    assert coordinator.committed() is None
    assert coordinator.find() is None, "it was the last offset of the group"
    coordinator.load()
    assert coordinator.committed() is None


def test_the_offset_of_a_deleted_topic_goes_though_the_group_reads_the_name() -> None:
    coordinator = Coordinator(SETTINGS)
    coordinator.image = image_of(topic=OLD, kept=KEPT)
    member = stable_with(coordinator, "topic", "kept")
    coordinator.commit(member, 1, topic_id=OLD)
    coordinator.commit(member, 1, topic="kept", topic_id=KEPT)
    coordinator.image = image_of(topic=NEW, kept=KEPT)
    coordinator.advance(CHECK_MS)
    assert coordinator.committed() is None
    assert coordinator.committed(topic="kept") == 7


@pytest.mark.parametrize("image", [*LATER, Image()], ids=["gone", "made anew", "not loaded"])
def test_a_cleanup_keeps_offsets_without_an_id_and_all_while_topics_are_not_known(image: Image) -> None:
    coordinator = with_commit(topic_id=bytes(16))
    coordinator.commit(topic="kept", topic_id=KEPT)
    coordinator.image = image
    coordinator.advance(3 * CHECK_MS)
    assert coordinator.committed() == 1
    assert coordinator.committed(topic="kept") == 7


def commit(coordinator: Coordinator, topic_id: bytes) -> ErrorCode:
    return coordinator.commit(offset=5, topic_id=topic_id)


def commit_pending(coordinator: Coordinator, topic_id: bytes) -> ErrorCode:
    return commit_in_transaction(coordinator, 5, topic_id=topic_id)


COMMITS = pytest.mark.parametrize("commit", [commit, commit_pending], ids=["plain", "in a transaction"])


@COMMITS
@pytest.mark.parametrize("image", LATER, ids=["gone", "made anew"])
def test_a_commit_that_was_on_its_way_when_its_topic_was_deleted_is_refused(
    image: Image, commit: Callable[[Coordinator, bytes], ErrorCode]
) -> None:
    coordinator = Coordinator()
    coordinator.image = image
    assert commit(coordinator, OLD) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    end(coordinator, is_commit=True)
    assert (coordinator.committed(), coordinator.find(), coordinator.journal.records()[:-1]) == (None, None, [])


@COMMITS
def test_a_commit_for_the_new_topic_outlives_a_deletion_in_the_same_millisecond(
    commit: Callable[[Coordinator, bytes], ErrorCode],
) -> None:
    coordinator = with_commit()
    coordinator.image = image_of(topic=NEW)
    assert commit(coordinator, NEW) == ErrorCode.NONE
    coordinator.run(lambda machine, _: machine.forget_topics(["topic"], coordinator.now_ms))
    coordinator.advance(3 * CHECK_MS)
    end(coordinator, is_commit=True)
    assert coordinator.committed() == 5
    coordinator.load()
    coordinator.advance(3 * CHECK_MS)
    assert coordinator.committed() == 5


def test_a_deletion_ends_what_its_topic_has_however_the_clock_was_set() -> None:
    coordinator = with_commit()
    coordinator.image = image_of()
    coordinator.run(lambda machine, _: machine.forget_topics(["topic"], coordinator.now_ms - 1_000))
    assert coordinator.committed() is None
    last = coordinator.journal.records()[-1]
    assert isinstance(last.key, OffsetCommitKey)
    assert last.value is None


def test_what_is_pending_for_a_deleted_topic_does_not_make_readers_of_the_new_one_wait() -> None:
    coordinator = with_commit()
    commit_in_transaction(coordinator, 5, topic_id=OLD)
    assert unstable(coordinator) == {("topic", 0)}
    coordinator.image = image_of(topic=NEW)
    assert unstable(coordinator) == frozenset()
    commit_in_transaction(coordinator, 6, producer=OTHER, topic_id=NEW)
    assert unstable(coordinator) == {("topic", 0)}


def test_what_is_committed_for_the_new_topic_is_not_lost_to_a_transaction_on_the_old_one() -> None:
    coordinator = with_commit()
    commit_in_transaction(coordinator, 5, topic_id=OLD)
    coordinator.image = image_of(topic=NEW)
    coordinator.commit(offset=9, topic_id=NEW)
    end(coordinator, is_commit=True)
    assert coordinator.committed() == 9
