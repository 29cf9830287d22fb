"""Answers made comparable: flattened to one line a field, with what must differ between two brokers masked."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from levada.protocol.declare import NO_UUID, Struct
from levada.records import BatchView, RecordsError, iter_batches
from tests.interop.differential.cases import UNKNOWN_ID

PRESENT, ABSENT = "(present)", "(absent)"
"""Of a member of a list, whatever it holds."""
SOME, NONE = "(some)", "(none)"
"""Of a list, whatever its members are."""
CLOSED = {"connection": "closed"}
ALIVE = {"connection": "alive"}
SILENT = {"connection": "silent"}
PARKED = {"connection": "waits"}

KEY_FIELDS = (
    "name",
    "topic",
    "key",
    "api_key",
    "partition_index",
    "index",
    "partition",
    "partition_id",
    "broker_id",
    "node_id",
    "group_id",
    "member_id",
    "transactional_id",
)
"""What tells the members of a list apart, the first that they have: most of Apache's lists are in no order."""
RESOURCE_FIELDS = ("resource_type", "resource_name")
ORDERED = {"synonyms", "record_errors"}

MASKED = {
    "throttle_time_ms", "cluster_id", "host", "port", "session_id", "finalized_features_epoch",
    "log_dir", "total_bytes", "usable_bytes", "documentation", "log_append_time_ms",
    "last_timestamp", "transaction_start_time_ms",
}  # fmt: skip
"""Compared is only whether there is something: null, nothing, a negative number, or a value."""

_RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER_OF_MOMENT = re.compile(r"-?\d{13,}")
_PRODUCER = re.compile(r"(producer(?: id| Id|Id:)? )\d+")


def flatten(answer: Any, topic_names: Mapping[bytes, str]) -> dict[str, str]:
    """Every field of a response by its path, `topics[orders].partitions[0].error_code`."""
    return dict(_flatten("", "", answer, topic_names))


def name_members(answer: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The random part of member ids, in paths and values, replaced by the name of the case that was given the id."""

    def replace(text: str) -> str:
        return _RANDOM_ID.sub(lambda found: f"<{names.get(found[0], 'another')}>", text)

    return {replace(path): replace(value) for path, value in answer.items()}


def random_part(member_id: str) -> str:
    found = _RANDOM_ID.search(member_id)
    return found[0] if found else member_id


def _flatten(path: str, name: str, value: Any, topic_names: Mapping[bytes, str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Struct):
        for one in fields(value):
            if one.name != "unknown_tags" or value.unknown_tags:
                inner = f"{path}.{one.name}" if path else one.name
                yield from _flatten(inner, one.name, getattr(value, one.name), topic_names)
    elif isinstance(value, list) and all(isinstance(member, Struct) for member in value):
        yield path, SOME if value else NONE
        seen: dict[str, int] = {}
        for position, member in enumerate(value):
            key = str(position) if name in ORDERED else _key(member, topic_names)
            seen[key] = seen.get(key, 0) + 1
            again = f"#{seen[key]}" if seen[key] > 1 else ""
            yield f"{path}[{key}{again}]", PRESENT
            yield from _flatten(f"{path}[{key}{again}]", name, member, topic_names)
    elif name == "records" and value is not None:
        yield from _flatten_records(path, bytes(value))
    else:
        yield path, _shown(name, value, topic_names)


def _key(member: Any, topic_names: Mapping[bytes, str]) -> str:
    if all(hasattr(member, one) for one in RESOURCE_FIELDS):
        return ":".join(str(getattr(member, one)) for one in RESOURCE_FIELDS)
    for one in KEY_FIELDS:
        key = getattr(member, one, None)
        if key not in (None, ""):
            return str(key)
    return _shown("topic_id", getattr(member, "topic_id", None), topic_names)


def _shown(name: str, value: Any, topic_names: Mapping[bytes, str]) -> str:
    if name == "topic_id" and isinstance(value, bytes):
        return _shown_id(value, topic_names)
    if name == "producer_id":
        # The first that Apache gives is 0.
        return "given" if value >= 0 else str(value)
    if name in MASKED:
        return _masked(value)
    if isinstance(value, str):
        for topic_id, topic in topic_names.items():
            value = value.replace(urlsafe_b64encode(topic_id).decode().rstrip("="), f"<id of {topic}>")
        return repr(_PRODUCER.sub(r"\1<id>", _NUMBER_OF_MOMENT.sub("<long>", value)))
    if isinstance(value, int):
        return str(int(value))
    return repr(value)


def _shown_id(topic_id: bytes, topic_names: Mapping[bytes, str]) -> str:
    known = {NO_UUID: "none", UNKNOWN_ID: "unknown"}
    return known.get(topic_id) or (f"of {topic_names[topic_id]}" if topic_id in topic_names else "new")


def _masked(value: Any) -> str:
    if isinstance(value, int):
        return str(value) if value <= 0 else "<number>"
    return "<text>" if value else repr(value)


def _flatten_records(path: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Batches by their contents: two compressors need not agree about every byte."""
    whole = list(iter_batches(data))
    yield f"{path}.batches", str(len(whole))
    for number, batch in enumerate(whole):
        for name, value in _batch_fields(batch):
            yield f"{path}[{number}].{name}", str(value)


def _batch_fields(batch: BatchView) -> Iterator[tuple[str, Any]]:
    batch.validate()
    yield "offsets", (batch.base_offset, batch.last_offset)
    yield "leader_epoch", batch.partition_leader_epoch
    yield "attributes", batch.attributes
    yield "producer", (min(batch.producer_id, 0), batch.producer_epoch, batch.base_sequence)
    if not batch.is_log_append_time:
        yield "times", (batch.base_timestamp, batch.max_timestamp)
    try:
        records = batch.records()
    except RecordsError:
        yield "records", bytes(batch.body)
        return
    yield "records", [record._replace(timestamp_ms=0) if batch.is_log_append_time else record for record in records]
