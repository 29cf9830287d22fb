"""Spells out the records of `__consumer_offsets`, worded as Apache's tools word them."""

from collections.abc import Callable
from typing import Any

from penstock.groups.records import GroupMetadataValue, decode, leading_number
from penstock.model.buffers import Buffer
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.json_text import json_text, plain_of
from penstock.protocol.messages.consumer_protocol import NEWEST_VERSION, decode_assignment, decode_subscription

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
    return key_text, json_text({"version": str(version), "data": _plain_value(record.value, version)})


def _plain_value(value: Any, version: int) -> dict[str, Any]:
    plain = plain_of(value, version)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
        for member, plain_member in zip(value.members, plain["members"]):
            _spell_out(plain_member, "subscription", decode_subscription, member.subscription)
            _spell_out(plain_member, "assignment", decode_assignment, member.assignment)
    return plain


def _spell_out(plain: dict[str, Any], name: str, decode_one: Callable[[bytes], Any], data: bytes) -> None:
    """Put in what the bytes say, if they say anything; a member without an assignment has none."""
    try:
        plain[name] = plain_of(decode_one(data), min(leading_number(data), NEWEST_VERSION))
    except MalformedMessage:
        pass
