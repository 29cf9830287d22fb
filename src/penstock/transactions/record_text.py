"""Spells out the records of `__transaction_state`, worded as Apache's tools word them."""

from penstock.model.buffers import Buffer
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.json_text import json_text, plain_of
from penstock.transactions.records import decode, leading_number

ENDED = "<DELETE>"


def text_of(offset: int, key: Buffer, value: Buffer | None) -> tuple[str, str | None]:
    """Key and value of the record at `offset`; what cannot be read becomes one sentence in the place of the key."""
    try:
        record = decode(key, value)
    except MalformedMessage as error:
        return f"Error at offset {offset}, skipping. {error}", None
    record_type = leading_number(key)
    if record is None:
        return f"Unknown record type {record_type} at offset {offset}, skipping.", None
    key_text = json_text({"type": str(record_type), "data": plain_of(record.key, 0)})
    if value is None or record.value is None:
        return key_text, ENDED
    version = leading_number(value)
    return key_text, json_text({"version": str(version), "data": plain_of(record.value, version)})
