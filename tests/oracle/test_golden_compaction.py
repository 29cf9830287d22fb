"""Logs that Apache's cleaner cleaned, pass by pass: ours leaves the same batches, and the same bytes where it can."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from levada.records import BatchView, parse_control_record
from levada.storage.cleaning.cleaner import Cleaned, Cleaner, Order, SourceSegment
from levada.storage.cleaning.dirty import dirty_part
from levada.storage.cleaning.filtering import LastRecord
from levada.storage.cleaning.swapping import Swap
from levada.storage.loading import open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.producers import Origin
from levada.world.real_disk import RealDisk
from tests.cleaning import swap_in

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "compaction"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/case.json"))

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def config_of(case: dict[str, Any]) -> LogConfig:
    given = case["topicConfig"]
    return LogConfig(
        segment_bytes=int(given.get("internal.segment.bytes", 1 << 30)),
        index_interval_bytes=int(given.get("index.interval.bytes", 4096)),
        max_index_bytes=int(given.get("segment.index.bytes", 10 << 20)),
        deletes_old_segments=False,
        is_compacted=True,
        delete_retention_ms=int(given.get("delete.retention.ms", 86_400_000)),
        min_compaction_lag_ms=int(given.get("min.compaction.lag.ms", 0)),
        producer_id_expiration_ms=case["producerIdExpirationMs"],
    )


class Replay:
    """A log that goes through a case's steps and passes."""

    def __init__(self, name: str, directory: Path) -> None:
        self.case = json.loads((GOLDEN / name / "case.json").read_text())
        self.directory = directory / f"{name}-0"
        self.config = config_of(self.case)
        self.disk = RealDisk()
        self.files = OpenFiles(self.disk)
        start_ms = self.case["clockStart"]
        self.log, _ = open_log(self.disk, str(self.directory), self.config, now_ms=start_ms, files=self.files)
        self._done = 0

    def take_steps(self, upto: int) -> None:
        for step in self.case["steps"][self._done : upto]:
            self._take(self.log, step)
        self._done = upto

    def _take(self, log: Log, step: dict[str, Any]) -> None:
        if step["op"] == "roll":
            log.roll(step["arg"], self.case["clockStart"])
        elif step["op"] == "updateHighWatermark":
            log.set_high_watermark(step["offset"])
        elif step["op"] == "appendAsLeader":
            log.append(
                BatchView(base64.b64decode(step["recordsIn"])),
                leader_epoch=step["leaderEpoch"],
                origin=Origin(step["origin"].lower()),
                now_ms=step["now"],
                transaction_version=max(step["transactionVersion"], 0),
            )
        else:
            pytest.fail(f"a step that is not known: {step}")

    def clean(self, given: dict[str, Any]) -> Cleaned:
        log = self.log
        order = Order(
            directory=str(self.directory),
            config=self.config,
            sources=[SourceSegment(one.base_offset, one.size, one.next_offset) for one in log.segments[:-1]],
            first_dirty=given["firstDirtyOffset"],
            first_uncleanable=given["firstUncleanableOffset"],
            now_ms=given["now"],
            last_records={one: LastRecord(*last) for one, last in log.producers.last_records().items()},
            later_aborts=list(log.active.transactions.entries()),
            memory_bytes=given["offsetMapMemory"],
            load_factor=given["offsetMapLoadFactor"],
            hash_key=bytes(16),
        )
        cleaned = Cleaner(self.disk, order).clean()
        for group in cleaned.groups:
            assert swap_in(Swap(self.disk, self.files, log, group, order.ending))
        return cleaned


def described(log: Log) -> list[dict[str, Any]]:
    """Every batch as the golden files have it."""
    found = []
    for segment in log.segments:
        for place in segment.headers():
            batch = segment.read_batch(place)
            batch.validate()
            found.append(_described(segment.base_offset, batch))
    return found


def _described(base_offset: int, batch: BatchView) -> dict[str, Any]:
    return {
        "segment": base_offset,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "size": batch.size,
        "compression": CODECS[batch.codec],
        "maxTimestamp": batch.max_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "leaderEpoch": batch.partition_leader_epoch,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "records": [_record(batch, record) for record in batch.records()],
    }


def _record(batch: BatchView, record: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp_ms}
    if batch.is_control:
        control = parse_control_record(record).type
        assert control is not None
        return {**found, "controlType": control.name}
    return {
        **found,
        "key": None if record.key is None else record.key.decode(),
        "value": None if record.value is None else record.value.decode(),
    }


def comparable(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the size of what was compressed, which depends on the library."""
    return [{**one, "size": None if one["compression"] != "none" else one["size"]} for one in batches]


@pytest.mark.parametrize("name", CASES)
def test_every_pass_leaves_the_same_batches_and_files(name: str, tmp_path: Path) -> None:
    replay = Replay(name, tmp_path)
    passes = [json.loads(path.read_text()) for path in sorted((GOLDEN / name).glob("pass*.json"))]
    log = replay.log
    for given in passes:
        replay.take_steps(given["stepsDoneBefore"])
        log.producers.expire(given["now"], replay.config.producer_id_expiration_ms)
        cleaned = replay.clean(given)
        assert cleaned.end_offset == given["nextDirtyOffset"]
        assert comparable(described(log)) == comparable(given["outputBatches"]), given["pass"]
        counts = cleaned.counts
        assert (counts.records_read, counts.records_kept) == (given["messagesRead"], given["messagesWritten"])
        assert counts.without_key == given["invalidMessagesRead"]
        check_files(name, given["pass"], log)


def check_files(name: str, number: int, log: Log) -> None:
    [expected] = [path for path in (GOLDEN / name / f"output{number}").iterdir() if path.name != "dump"]
    for segment in log.segments[:-1]:
        is_plain = all(place.header.codec == 0 for place in segment.headers())
        for suffix in (".log", ".index", ".timeindex", ".txnindex") if is_plain else ():
            theirs, ours = expected / f"{segment.base_offset:020d}{suffix}", Path(segment.path(suffix))
            assert ours.exists() == theirs.exists(), ours.name
            if ours.exists():
                assert ours.read_bytes() == theirs.read_bytes(), ours.name
    logs = {path.name for path in expected.iterdir() if path.suffix in (".log", ".snapshot")}
    found = {path.name for path in Path(log.directory).iterdir() if path.suffix in (".log", ".snapshot")}
    assert found == logs


@pytest.mark.parametrize("name", CASES)
def test_the_dirty_part_is_the_same(name: str, tmp_path: Path) -> None:
    replay = Replay(name, tmp_path)
    given = json.loads((GOLDEN / name / "pass1.json").read_text())
    replay.take_steps(given["stepsDoneBefore"])
    part = dirty_part(replay.log, given["lastCleanOffset"], given["now"])
    assert (part.first_dirty, part.first_uncleanable) == (given["firstDirtyOffset"], given["firstUncleanableOffset"])
    assert (part.clean_bytes, part.dirty_bytes) == (given["cleanBytes"], given["cleanableBytes"])
    assert part.ratio == given["cleanableRatio"]
