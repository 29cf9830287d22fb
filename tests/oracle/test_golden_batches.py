"""Reads and rewrites the 66 record batches that Apache Kafka 4.3.1 wrote, and compares every field and byte."""

import base64
import hashlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from levada.records import (
    BatchView,
    Codec,
    ControlType,
    InvalidRecord,
    Record,
    _writer,
    build_batch,
    end_transaction_marker,
    iter_batches,
    kernel,
    parse_control_record,
    parse_produced,
    pure,
    pure_writer,
)
from levada.records import _kernel as compiled
from levada.records.record import RecordInput

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "batches"
NAMES = [entry["name"] for entry in json.loads((GOLDEN / "INDEX.json").read_text())]
CURRENT = [name for name in NAMES if not name.startswith("legacy-")]
LEGACY = [name for name in NAMES if name.startswith("legacy-")]

# What only brokers do to a batch.
NOT_FILLED = ("none-delete-horizon", "none-log-append-time")

HEADER_FIELDS = {
    "sizeInBytes": "size",
    "baseOffset": "base_offset",
    "batchLength": "batch_length",
    "partitionLeaderEpoch": "partition_leader_epoch",
    "magic": "magic",
    "crc": "crc",
    "attributes": "attributes",
    "lastOffsetDelta": "last_offset_delta",
    "baseTimestamp": "base_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "recordsCount": "record_count",
    "isTransactional": "is_transactional",
    "isControlBatch": "is_control",
    "deleteHorizonMs": "delete_horizon_ms",
    "lastOffset": "last_offset",
    "nextOffset": "next_offset",
    "lastSequence": "last_sequence",
    "position": "start",
}


def test_all_vectors_are_here() -> None:
    assert len(NAMES) == 66
    assert len(LEGACY) == 6


@pytest.mark.parametrize("name", CURRENT)
def test_header_reads_as_apache_reads_it(name: str) -> None:
    data, expected = load(name)
    views = list(iter_batches(data))
    assert len(views) == len(expected)
    for view, batch in zip(views, expected):
        read = {json_name: getattr(view, attribute) for json_name, attribute in HEADER_FIELDS.items()}
        assert read == {json_name: batch[json_name] for json_name in HEADER_FIELDS}
        assert view.codec is Codec[batch["compression"].upper()]
        assert view.is_log_append_time == (batch["timestampType"] == "LogAppendTime")
        assert view.crc_is_valid() == batch["isValid"]
        view.validate()


@pytest.mark.parametrize("name", CURRENT)
def test_records_read_as_apache_reads_them(name: str) -> None:
    data, expected = load(name)
    for view, batch in zip(iter_batches(data), expected):
        assert view.records() == [record_of(entry) for entry in batch["records"]]


@pytest.mark.parametrize("name", CURRENT)
def test_record_section_decompresses_to_apaches_bytes(name: str) -> None:
    data, expected = load(name)
    for view, batch in zip(iter_batches(data), expected):
        if batch["records"]:
            body = view.uncompressed_body()
            assert len(body) == batch["uncompressedRecordsLength"]
            assert hashlib.sha256(body).hexdigest() == batch["uncompressedRecordsSha256"]


@pytest.mark.parametrize("kernel_name", ["compiled", "pure"])
@pytest.mark.parametrize("name", CURRENT)
def test_scan_finds_what_apache_derives(name: str, kernel_name: str) -> None:
    scan = {"compiled": compiled.scan, "pure": pure.scan}[kernel_name]
    data, expected = load(name)
    for view, batch in zip(iter_batches(data), expected):
        found = scan(view.uncompressed_body(), view.record_count)
        records = batch["records"]
        assert found.record_count == len(records)
        assert found.null_key_count == sum(record["key"] is None for record in records)
        if not records:
            continue
        assert view.base_offset + found.first_offset_delta == records[0]["offset"]
        assert view.base_offset + found.last_offset_delta == records[-1]["offset"]
        assert found.is_consecutive == (
            [record["offset"] - view.base_offset for record in records] == list(range(len(records)))
        )
        if not view.is_log_append_time:
            assert view.base_timestamp + found.max_timestamp_delta == batch["maxTimestamp"]
            assert records[found.max_timestamp_index]["offset"] == batch["offsetOfMaxTimestamp"]


@pytest.mark.parametrize("name", CURRENT)
def test_batch_is_written_back_as_apache_wrote_it(name: str) -> None:
    data, expected = load(name)
    for view, batch in zip(iter_batches(data), expected):
        original = data[view.start : view.start + view.size]
        rewritten = rebuild(view)
        if view.codec is Codec.NONE:
            assert rewritten == original
            continue
        # Compressed bytes depend on the library and its version; all else must be the same.
        again = BatchView(rewritten)
        again.validate()
        digest = hashlib.sha256(again.uncompressed_body()).hexdigest()
        assert digest == batch["uncompressedRecordsSha256"]
        assert again.records() == view.records()
        ours, theirs = rewritten[:8] + rewritten[12:17], original[:8] + original[12:17]
        assert (ours, rewritten[21:61]) == (theirs, original[21:61])


@pytest.mark.parametrize("twin", [_writer, pure_writer], ids=["compiled", "pure"])
@pytest.mark.parametrize("name", [name for name in CURRENT if name.startswith("none-") and name not in NOT_FILLED])
def test_a_batch_filled_record_by_record_is_apaches(name: str, twin: ModuleType) -> None:
    data, _ = load(name)
    view = BatchView(data)
    writer = twin.BatchWriter(len(data))
    for record in view.records():
        writer.append(*record[1:])
    sealed = writer.seal(
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        base_sequence=view.base_sequence,
        is_transactional=view.is_transactional,
    )
    # What comes before is the broker's to fill in, and outside of the checksum.
    assert sealed[16:] == data[16:]


@pytest.mark.parametrize("name", [name for name in CURRENT if name.startswith(("control-commit", "control-abort"))])
def test_transaction_marker_equals_apaches(name: str) -> None:
    data, [batch] = load(name)
    [record] = BatchView(data).records()
    control = parse_control_record(record)
    assert control.type is ControlType[batch["records"][0]["controlType"]]
    assert control.coordinator_epoch == batch["records"][0]["coordinatorEpoch"]
    rewritten = end_transaction_marker(
        control.type,
        producer_id=batch["producerId"],
        producer_epoch=batch["producerEpoch"],
        coordinator_epoch=batch["records"][0]["coordinatorEpoch"],
        timestamp_ms=batch["baseTimestamp"],
        base_offset=batch["baseOffset"],
        partition_leader_epoch=batch["partitionLeaderEpoch"],
    )
    assert rewritten == data


@pytest.mark.parametrize("name", [name for name in CURRENT if name.startswith("control-")])
def test_control_record_names_its_type(name: str) -> None:
    data, [batch] = load(name)
    for record, entry in zip(BatchView(data).records(), batch["records"], strict=True):
        control = parse_control_record(record)
        assert control.type is ControlType[entry["controlType"]]
        assert control.value == record.value


@pytest.mark.parametrize("name", LEGACY)
def test_old_formats_are_refused(name: str) -> None:
    data, _ = load(name)
    with pytest.raises(InvalidRecord):
        parse_produced(data)
    with pytest.raises(InvalidRecord):
        list(iter_batches(data))


@pytest.mark.parametrize("name", CURRENT)
def test_produce_takes_exactly_what_apache_would(name: str) -> None:
    data, expected = load(name)
    not_from_clients = ("control-", "empty-batch", "multi-batch", "offset-gaps")
    if name.startswith(not_from_clients) or name.endswith("-delete-horizon"):
        with pytest.raises(InvalidRecord):
            parse_produced(data)
    else:
        assert parse_produced(data).crc == expected[0]["crc"]


def load(name: str) -> tuple[bytes, list[dict[str, Any]]]:
    batches: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text())["batches"]
    return (GOLDEN / f"{name}.bin").read_bytes(), batches


def record_of(entry: dict[str, Any]) -> Record:
    return Record(
        entry["offset"],
        entry["timestamp"],
        bytes_of(entry["key"]),
        bytes_of(entry["value"]),
        tuple((header["keyText"], bytes_of(header["value"])) for header in entry["headers"]),
    )


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def rebuild(view: BatchView) -> bytes:
    """The batch built anew from its records and header fields; the append time would hide the records' own times."""
    raw = kernel.decode(view.uncompressed_body(), view.record_count, view.base_offset, view.base_timestamp, None)
    records: list[RecordInput] = [record[1:] for record in raw]
    return build_batch(
        records,
        base_offset=view.base_offset,
        codec=view.codec,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        base_sequence=view.base_sequence,
        partition_leader_epoch=view.partition_leader_epoch,
        is_transactional=view.is_transactional,
        is_control=view.is_control,
        base_timestamp=view.base_timestamp,
        max_timestamp=view.max_timestamp if not records else None,
        log_append_time_ms=view.log_append_timestamp,
        delete_horizon_ms=view.delete_horizon_ms,
        offset_deltas=[record.offset - view.base_offset for record in raw],
        last_offset_delta=view.last_offset_delta,
    )
