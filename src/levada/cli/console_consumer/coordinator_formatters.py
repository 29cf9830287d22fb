"""The records of `__consumer_offsets` and `__transaction_state` as JSON."""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Final

from levada.cli.console_consumer.formatters import Formatter, Unprintable
from levada.groups import records as group_records
from levada.protocol.errors import MalformedMessage
from levada.protocol.json_text import json_text, plain_of
from levada.transactions import records as transaction_records

if TYPE_CHECKING:
    from levada.coordination.decision import Record
    from levada.records import ConsumerRecord


class CoordinatorFormatter:
    """The records of some types, one behind the other without an end of line, as Kafka prints them."""

    def __init__(self, decode: "Callable[[bytes, bytes | None], Record | None]", types: Container[int]) -> None:
        self._decode = decode
        self._types = types

    def write(self, record: "ConsumerRecord", out: bytearray) -> None:
        if record.key is None:
            return
        try:
            decoded = self._decode(record.key, record.value)
        except MalformedMessage as error:
            raise Unprintable(f"cannot read the record at offset {record.offset} of {record.topic}: {error}") from None
        if decoded is None or (record_type := _leading_number(record.key)) not in self._types:
            return
        plain: dict[str, Any] = {"key": {"type": record_type, "data": plain_of(decoded.key, 0)}, "value": None}
        if record.value is not None and decoded.value is not None:
            version = _leading_number(record.value)
            plain["value"] = {"version": version, "data": plain_of(decoded.value, version)}
        out += json_text(plain).encode()


def _leading_number(data: bytes) -> int:
    """The type of a key, the version of a value."""
    return int.from_bytes(data[:2], "big", signed=True)


OFFSET_TYPES: Final = (0, group_records.OffsetCommitKey.api_key)  # type: ignore[attr-defined]
GROUP_TYPES: Final = (group_records.GroupMetadataKey.api_key,)  # type: ignore[attr-defined]
TRANSACTION_TYPES: Final = (transaction_records.TRANSACTION_LOG,)

COORDINATOR_FORMATTERS: Final[dict[str, Callable[[], Formatter]]] = {
    "OffsetsMessageFormatter": lambda: CoordinatorFormatter(group_records.decode, OFFSET_TYPES),
    "GroupMetadataMessageFormatter": lambda: CoordinatorFormatter(group_records.decode, GROUP_TYPES),
    "TransactionLogMessageFormatter": lambda: CoordinatorFormatter(transaction_records.decode, TRANSACTION_TYPES),
}
