"""The records of `__transaction_state`, in Apache's layout: their keys, their values, and the bytes of both."""

from copy import copy
from typing import Annotated

from levada.coordination.decision import Record
from levada.model.buffers import Buffer
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.declare import Bytes, Int8, Int16, Int32, Int64, Since, String, Tag, struct
from levada.protocol.declare import message as record
from levada.protocol.errors import MalformedMessage
from levada.transactions.settings import EPOCH_BUMP_VERSION

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1
NO_GROUP = b""

GROUP_TAG = 10_000
"""Far from the tags that Apache may come to use; a reader that does not know a tag skips it."""


@record(api_key=0, versions="0")
class TransactionLogKey:
    transactional_id: String


@struct
class PartitionsSchema:
    topic: String
    partition_ids: list[Int32]


@record(api_key=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: Int64
    previous_producer_id: Annotated[Int64, Since(1), Tag(0)] = NO_PRODUCER_ID
    next_producer_id: Annotated[Int64, Since(1), Tag(1)] = NO_PRODUCER_ID
    producer_epoch: Int16
    next_producer_epoch: Annotated[Int16, Since(1), Tag(3)] = NO_EPOCH
    """Reserved by Apache for transactions that are prepared by others; 4.3 neither reads nor writes it."""
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Annotated[Int16, Since(1), Tag(2)] = 0
    group_commit: Annotated[Bytes, Since(1), Tag(GROUP_TAG)] = NO_GROUP
    """Ours: stands for the group that this transaction was committed with; the same in all its members."""


TRANSACTION_LOG = TransactionLogKey.api_key  # type: ignore[attr-defined]
_KEY_VERSION = 0


def encode(one: Record, transaction_version: int = EPOCH_BUMP_VERSION) -> tuple[bytes, bytes | None]:
    """Key and value, the value in the version that Apache writes at this level of the feature."""
    key = TRANSACTION_LOG.to_bytes(2, "big") + encode_bytes(one.key, _KEY_VERSION)
    value = one.value
    if value is None:
        return key, None
    assert isinstance(value, TransactionLogValue)
    version = written_version(value, transaction_version)
    return key, version.to_bytes(2, "big") + encode_bytes(value if version else _plain(value), version)


def written_version(value: TransactionLogValue, transaction_version: int) -> int:
    """Version 0 has no place for tags; every Apache since 3.5 reads version 1, so a group is never lost for it."""
    return 1 if transaction_version >= 1 or value.group_commit else 0


def decode(key: Buffer, value: Buffer | None) -> Record | None:
    """The record; None if its type or version is not known here, as it is skipped then; else MalformedMessage.

    Bytes that follow a well-formed key or value are ignored, as Apache does.
    """
    if leading_number(key) != TRANSACTION_LOG:
        return None
    decoded_key, _ = decode_prefix(TransactionLogKey, _KEY_VERSION, key, 2)
    if value is None:
        return Record(decoded_key, None)
    version = leading_number(value)
    if version not in TransactionLogValue.versions:  # type: ignore[attr-defined]
        return None
    decoded_value, _ = decode_prefix(TransactionLogValue, version, value, 2)
    return Record(decoded_key, decoded_value)


def leading_number(data: Buffer) -> int:
    """The type of a key, the version of a value."""
    if len(data) < 2:
        raise MalformedMessage(f"a key or value of {len(data)} bytes")
    return int.from_bytes(data[:2], "big", signed=True)


def _plain(value: TransactionLogValue) -> TransactionLogValue:
    plain = copy(value)
    plain.previous_producer_id = plain.next_producer_id = NO_PRODUCER_ID
    plain.next_producer_epoch = NO_EPOCH
    plain.client_transaction_version = 0
    return plain
