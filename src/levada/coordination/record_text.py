"""Spells out the records of coordinators, worded as Apache's tools word them."""

from collections.abc import Callable
from typing import Any

from levada.coordination.decision import Record
from levada.model.buffers import Buffer
from levada.protocol.errors import MalformedMessage
from levada.protocol.json_text import json_text, plain_of

ENDED = "<DELETE>"


def spelled(
    offset: int,
    key: Buffer,
    value: Buffer | None,
    decode: Callable[[Buffer, Buffer | None], Record | None],
    plain_value: Callable[[Any, int], dict[str, Any]] = plain_of,
) -> tuple[str, str | None]:
    """Key and value of the record at `offset`; what cannot be read becomes one sentence in the place of the key."""
    try:
        record = decode(key, value)
    except MalformedMessage as error:
        return f"Error at offset {offset}, skipping. {error}", None
    record_type = _leading_number(key)
    if record is None:
        return f"Unknown record type {record_type} at offset {offset}, skipping.", None
    key_text = json_text({"type": str(record_type), "data": plain_of(record.key, 0)})
    if value is None or record.value is None:
        return key_text, ENDED
    version = _leading_number(value)
    return key_text, json_text({"version": str(version), "data": plain_value(record.value, version)})


def _leading_number(data: Buffer) -> int:
    """The type of a key, the version of a value; `decode` has found that it is there."""
    return int.from_bytes(data[:2], "big", signed=True)
