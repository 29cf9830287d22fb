"""Reads and writes the records of `__consumer_offsets` as Apache Kafka 4.3.1 does."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from levada.cli.main import main
from levada.coordination.decision import Record
from levada.groups import records
from levada.groups.records import RECORD_TYPES, decode, encode, written_version
from levada.protocol.codec import encode_bytes
from levada.protocol.json_text import plain_of
from levada.records import iter_batches

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "records"
ALL: list[Any] = json.loads((GOLDEN / "consumer-offsets.json").read_text())
KNOWN = [golden for golden in ALL if golden["keyType"] in RECORD_TYPES]
OTHERS = [golden for golden in ALL if golden["keyType"] not in RECORD_TYPES]


def name_of(golden: Any) -> str:
    return f"{golden['type']} v{golden.get('valueVersion')} {golden['case']}"


def bytes_of(golden: Any) -> tuple[bytes, bytes | None]:
    value = golden["value"]
    return base64.b64decode(golden["key"]), None if value is None else base64.b64decode(value)


def test_the_known_types_are_there_in_all_their_versions() -> None:
    found: dict[int, set[int]] = {}
    for golden in KNOWN:
        if golden["value"] is not None:
            found.setdefault(golden["keyType"], set()).add(golden["valueVersion"])
    assert found == {
        number: set(of_value.versions) if number else {0} for number, (_, of_value) in RECORD_TYPES.items()
    }
    assert any(golden["value"] is None for golden in KNOWN)


@pytest.mark.parametrize("golden", KNOWN, ids=name_of)
def test_a_record_says_what_apache_reads_in_it(golden: Any) -> None:
    record = decode(*bytes_of(golden))
    assert record is not None
    assert plain_of(record.key, 0) == golden["keyJson"]
    assert (record.value is None) == (golden["value"] is None)
    if record.value is not None:
        assert plain_of(record.value, golden["valueVersion"]) == golden["valueJson"]


@pytest.mark.parametrize("golden", KNOWN, ids=name_of)
def test_a_record_is_written_back_to_the_byte(golden: Any) -> None:
    key, value = bytes_of(golden)
    record = decode(key, value)
    assert record is not None
    written_key, written_value = encode(record)
    assert written_key[2:] == key[2:]
    # The oldest key type is only read.
    assert written_key[:2] == (key[:2] if golden["keyType"] else b"\0\1")
    if value is None:
        assert written_value is None
        return
    version = golden["valueVersion"]
    assert version.to_bytes(2, "big") + encode_bytes(record.value, version) == value
    if version == written_version(record.value):
        assert written_value == value


@pytest.mark.parametrize("golden", OTHERS, ids=name_of)
def test_a_record_of_another_kind_of_group_is_skipped(golden: Any) -> None:
    assert golden["type"].startswith(("Share", "Streams"))
    assert decode(*bytes_of(golden)) is None


def test_the_log_that_apache_wrote_has_all_the_realistic_records() -> None:
    log = (GOLDEN / "__consumer_offsets-0" / "00000000000000000000.log").read_bytes()
    stored = [(record.key, record.value) for batch in iter_batches(log) for record in batch.records()]
    assert stored == [bytes_of(golden) for golden in ALL[: len(stored)]]
    assert len(stored) == 43
    assert all(isinstance(decode(key or b"", value), Record) for key, value in stored)


HELPERS_WROTE = {
    "0003000167 0000000000030100080000000000000005": Record(
        records.ConsumerGroupMetadataKey(group_id="g"), records.ConsumerGroupMetadataValue(epoch=3, metadata_hash=5)
    ),
    "0006000167 000000000003010008000000000000004d": Record(
        records.ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=3, assignment_timestamp=77),
    ),
    "000100016700017400000001"
    " 0004000000000000000500000003026d000000000000006301001000000000000000010000000000000002": Record(
        records.OffsetCommitKey(group="g", topic="t", partition=1),
        records.OffsetCommitValue(
            offset=5, leader_epoch=3, metadata="m", commit_timestamp=99, topic_id=bytes(7) + b"\1" + bytes(7) + b"\2"
        ),
    ),
    "000100016700017400000001 00040000000000000005ffffffff026d000000000000006300": Record(
        records.OffsetCommitKey(group="g", topic="t", partition=1),
        records.OffsetCommitValue(offset=5, metadata="m", commit_timestamp=99),
    ),
    "000100016700017400000001 0001000000000000000500016d00000000000000630000000000000064": Record(
        records.OffsetCommitKey(group="g", topic="t", partition=1),
        records.OffsetCommitValue(
            offset=5, leader_epoch=3, metadata="m", commit_timestamp=99, expire_timestamp=100, topic_id=b"\1" * 16
        ),
    ),
}


@pytest.mark.parametrize("golden", HELPERS_WROTE)
def test_the_written_version_is_that_of_apaches_own_coordinator(golden: str) -> None:
    """What its GroupCoordinatorRecordHelpers made of the same values, an expiry among them."""
    key, value = encode(HELPERS_WROTE[golden])
    assert value is not None
    assert f"{key.hex()} {value.hex()}" == golden


def test_the_log_is_dumped_to_the_letter(capsys: pytest.CaptureFixture[str]) -> None:
    log = GOLDEN / "__consumer_offsets-0" / "00000000000000000000.log"
    assert main(["dump-log", "--files", str(log), "--offsets-decoder"]) == 0
    printed = capsys.readouterr()
    assert printed.out.replace(f"{log.parent}/", "") == (GOLDEN / "__consumer_offsets-0.dump.txt").read_text()
    assert printed.err == ""
