"""What the codec of `__consumer_offsets` takes and refuses beside the records that Apache wrote."""

import pytest

from levada.coordination.decision import Record
from levada.groups.record_text import text_of
from levada.groups.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartitions,
    decode,
    encode,
)
from levada.protocol.errors import MalformedMessage

COMMIT = Record(
    OffsetCommitKey(group="g", topic="t", partition=1),
    OffsetCommitValue(offset=5, leader_epoch=3, metadata="m", commit_timestamp=99, topic_id=b"i" * 16),
)
KEY = bytes.fromhex("000100016700017400000001")
VALUE = bytes.fromhex("0004000000000000000500000003026d0000000000000063010010") + b"i" * 16


def test_a_commit_has_its_bytes() -> None:
    assert encode(COMMIT) == (KEY, VALUE)


def test_a_record_without_a_value_ends_its_key() -> None:
    ended = Record(ConsumerGroupPartitionMetadataKey(group_id="g"), None)
    assert encode(ended) == (b"\0\4\0\1g", None)
    assert decode(b"\0\4\0\1g", None) == ended


def test_views_are_read_as_bytes_are() -> None:
    assert decode(memoryview(KEY), memoryview(VALUE)) == COMMIT


@pytest.mark.parametrize("record_type", [9, 10, 15, 17, 23, 300, -1])
def test_a_type_that_is_not_known_here_is_skipped(record_type: int) -> None:
    key = record_type.to_bytes(2, "big", signed=True) + b"whatever"
    assert decode(key, b"\0\0") is None
    assert decode(key, None) is None
    assert text_of(7, key, b"") == (f"Unknown record type {record_type} at offset 7, skipping.", None)


def test_what_follows_a_key_or_a_value_is_ignored_as_apache_does() -> None:
    assert decode(KEY + b"x", VALUE + b"xyz") == COMMIT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", b""),
        (KEY[:-1], VALUE),
        (b"\0\1\0\1\xff\0\1t\0\0\0\1", VALUE),
        (KEY, b""),
        (KEY, b"\0"),
        (KEY, VALUE[:-1]),
        (KEY, b"\0\5" + VALUE[2:]),
        (KEY, b"\xff\xff" + VALUE[2:]),
        (b"\0\2\0\1g", b"\0\3\0\1c\0\0\0\1\xff\xff\xff\xff\0\0\0\0\0\0\0\0\x7f\xff\xff\xff"),
    ],
)
def test_garbage_is_malformed(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        decode(key, value)
    key_text, value_text = text_of(3, key, value)
    assert key_text.startswith("Error at offset 3, skipping. ")
    assert value_text is None


def member(classic: ClassicMemberMetadata | None) -> Record:
    return Record(
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            subscribed_topic_names=[],
            subscribed_topic_regex=None,
            server_assignor=None,
            classic_member_metadata=classic,
        ),
    )


MEMBER = "0000000002630b2f3132372e302e302e310100ffffffff00"


@pytest.mark.parametrize(
    ("classic", "tags"),
    [
        (None, "01000100"),
        (ClassicMemberMetadata(), "00"),
        (ClassicMemberMetadata(session_timeout_ms=1), "01000701000000010100"),
    ],
)
def test_a_member_that_is_not_classic_says_so(classic: ClassicMemberMetadata | None, tags: str) -> None:
    """The bytes are those of Apache 4.3.1's serializer, which drops an empty struct and keeps a null."""
    key, value = encode(member(classic))
    assert value is not None
    assert value.hex() == MEMBER + tags
    assert decode(key, value) == member(classic)
    _, text = text_of(0, key, value)
    assert text is not None
    assert ('"classicMemberMetadata":null' in text) == (classic is None)


@pytest.mark.parametrize(
    ("epochs", "tags"), [(None, "01000100"), ([], "00"), ([3, 4], "01000903" + "0000000300000004")]
)
def test_epochs_of_an_assignment_may_be_missing(epochs: list[int] | None, tags: str) -> None:
    """The bytes are those of Apache 4.3.1's serializer."""
    assigned = TopicPartitions(
        topic_id=bytes(7) + b"\1" + bytes(7) + b"\2", partitions=[1, 2], assignment_epochs=epochs
    )
    record = Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=0,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=[assigned],
            partitions_pending_revocation=[],
        ),
    )
    key, value = encode(record)
    assert value is not None
    assert value.hex() == f"0000000000000000000000020000000000000001000000000000000203{'0000000100000002'}{tags}0100"
    assert decode(key, value) == record


def test_text_is_escaped_as_jackson_does() -> None:
    key, _ = encode(Record(OffsetCommitKey(group='a\x01\x1f\x7f\n\t\b\f\r"\\/é\u2028', topic="", partition=0), None))
    text, _ = text_of(0, key, None)
    assert '"a\\u0001\\u001F\x7f\\n\\t\\b\\f\\r\\"\\\\/é\u2028"' in text
