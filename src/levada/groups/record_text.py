"""Spells out the records of `__consumer_offsets`, worded as Apache's tools word them."""

from collections.abc import Callable
from typing import Any

from levada.coordination.record_text import spelled
from levada.groups.records import GroupMetadataValue, decode, leading_number
from levada.model.buffers import Buffer
from levada.protocol.errors import MalformedMessage
from levada.protocol.json_text import plain_of
from levada.protocol.messages.consumer_protocol import NEWEST_VERSION, decode_assignment, decode_subscription


def text_of(offset: int, key: Buffer, value: Buffer | None) -> tuple[str, str | None]:
    return spelled(offset, key, value, decode, _plain_value)


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
