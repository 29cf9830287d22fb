"""Apache's own log directories: the same appends give the same files, and broken ones recover alike."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from levada.model.errors import (
    ApiError,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    OffsetOutOfRange,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from levada.records import BatchView
from levada.storage.loading import LogState, open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.lookups import locate
from levada.storage.producers import Origin
from levada.storage.validation import validate
from levada.world.real_disk import RealDisk
from tests.logs import delete_old_segments, run_search

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "logs"
CASES = ("a-plain", "a2-log-append-time", "b-transactions", "c-epochs", "c2-truncated", "d-restart")
STATES = ("clean", "killed", "torn", "noindex", "corrupt")
T0 = 1_700_000_000_000

ERRORS: dict[str, type[ApiError]] = {
    "OutOfOrderSequenceException": OutOfOrderSequence,
    "InvalidProducerEpochException": InvalidProducerEpoch,
    "InvalidTxnStateException": InvalidTransactionState,
    "TransactionCoordinatorFencedException": TransactionCoordinatorFenced,
    "InvalidRecordException": InvalidRecord,
}


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def config_of(case: Any) -> LogConfig:
    given = case["topicConfig"]
    return LogConfig(
        segment_bytes=int(given["internal.segment.bytes"]),
        index_interval_bytes=int(given["index.interval.bytes"]),
        max_index_bytes=int(given["segment.index.bytes"]),
        uses_log_append_time=given.get("message.timestamp.type") == "LogAppendTime",
        producer_id_expiration_ms=case["producerIdExpirationMs"],
    )


class Replay:
    """A case's steps, done to a log of ours."""

    def __init__(self, name: str, directory: Path) -> None:
        self.case = load(GOLDEN / name / "case.json")
        self.config = config_of(self.case)
        self.log, cuts = open_log(RealDisk(), str(directory), self.config, now_ms=T0)
        assert cuts == []
        self.now_ms = T0

    def run(self) -> None:
        for number, step in enumerate(self.case["steps"]):
            if step["op"] == "close":
                return
            self.step(number, step)

    def step(self, number: int, step: Any) -> None:
        operation = step["op"].split("(")[0].split(" ")[0]
        if operation == "appendAsLeader":
            self.append(number, step)
        elif operation == "updateHighWatermark":
            self.log.set_high_watermark(step["offset"])
        elif operation == "assignEpochStartOffset":
            self.log.epochs.assign(step["arg"], self.log.end_offset)
        elif operation == "truncateTo":
            self.log.truncate(step["arg"], self.now_ms)
            assert self.log.end_offset == step["logEndOffset"]
        elif operation == "maybeIncrementLogStartOffset":
            self.log.raise_start(step["arg"])
        elif operation == "deleteOldSegments":
            assert delete_old_segments(self.log) == step["arg"]
        else:
            raise AssertionError(step["op"])

    def append(self, number: int, step: Any) -> None:
        data = base64.b64decode(step["recordsIn"])
        self.now_ms = step["now"]
        origin = Origin[step["origin"]]

        def append() -> Any:
            batch = BatchView(data)
            if origin is Origin.CLIENT:
                batch = validate(data, self.config, allows_zstd=True, now_ms=step["now"])
            return self.log.append(
                batch,
                leader_epoch=step["leaderEpoch"],
                origin=origin,
                now_ms=step["now"],
                transaction_version=max(step["transactionVersion"], 0),
            )

        if "error" in step:
            before = self.log.end_offset
            with pytest.raises(ERRORS[step["error"]]):
                append()
            assert self.log.end_offset == before
            return
        result, appended = step["result"], append()
        assert (appended.base_offset, appended.last_offset) == (result["firstOffset"], result["lastOffset"]), number
        assert self.log.end_offset == result["logEndOffset"], number
        assert self.log.active.base_offset == result["activeSegmentBaseOffset"], number
        assert self.log.producers.first_unstable_offset == result["firstUnstableOffset"], number


def contents(directory: Path) -> dict[str, bytes]:
    names = (path for path in directory.iterdir() if not path.name.endswith(".deleted"))
    return {path.name: path.read_bytes() for path in names if path.name != "partition.metadata"}


def expected_directory(case: str, state: str = "") -> Path:
    (found,) = (path for path in (GOLDEN / case / state).iterdir() if path.is_dir() and path.name.endswith("-0"))
    return found


def assert_same_files(ours: Path, theirs: Path) -> None:
    mine, other = contents(ours), contents(theirs)
    assert sorted(mine) == sorted(other)
    for name, data in other.items():
        assert mine[name] == data, name


@pytest.fixture(params=CASES)
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> Replay:
    name: str = request.param
    return Replay(name, tmp_path / "log")


def test_the_same_appends_give_apaches_files(replay: Replay, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    replay.run()
    replay.log.close()
    case = request.node.callspec.params["replay"]
    assert_same_files(tmp_path / "log", expected_directory(case, "clean" if case == "d-restart" else ""))


def test_the_open_log_answers_as_apaches_does(replay: Replay, request: pytest.FixtureRequest) -> None:
    replay.run()
    case = request.node.callspec.params["replay"]
    check_lookups(replay.log, load(GOLDEN / case / "lookups.json"))


def check_lookups(log: Log, expected: Any) -> None:
    assert log.start_offset == expected["logStartOffset"]
    assert log.end_offset == expected["logEndOffset"]
    assert log.high_watermark == expected["highWatermark"]
    assert log.last_stable_offset == expected["lastStableOffset"]
    assert log.producers.first_unstable_offset == expected["firstUnstableOffset"]
    assert log.size == expected["size"]
    check_segments(log, expected["segments"])
    check_offsets(log, expected)
    check_reads(log, expected.get("reads", []))
    check_times(log, expected)
    check_epochs(log, expected)
    for question in expected["abortedTransactions"]:
        # Apache's question for the cleaner: every entry of these segments, not only those behind the start.
        found = log.aborted_transactions(question["start"], question["upperBound"])
        wanted = [one for one in question["aborted"] if one["lastOffset"] >= question["start"]]
        assert [(one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset) for one in found] == [
            (one["producerId"], one["firstOffset"], one["lastOffset"], one["lastStableOffset"]) for one in wanted
        ], question


def check_segments(log: Log, expected: Any) -> None:
    for segment, other in zip(log.segments, expected, strict=True):
        assert segment.base_offset == other["baseOffset"]
        assert segment.size == other["size"]
        assert segment.next_offset == other["nextOffset"]
        assert len(segment.offset_index) == other["indexEntries"], other
        assert len(segment.time_index) == other["timeIndexEntries"], other
        assert segment.largest_timestamp == other["largestTimestamp"]
        assert segment.largest.offset == other["offsetOfMaxTimestampSoFar"]


def check_offsets(log: Log, expected: Any) -> None:
    for one in expected.get("offsetLookups", []):
        found = locate(log.segments, [segment.base_offset for segment in log.segments], one["offset"])
        if "batchBaseOffset" not in one:
            continue
        assert found is not None
        segment, batch = found
        assert segment.base_offset == one["segmentBaseOffset"], one
        assert (batch.position, batch.size) == (one["position"], one["batchSize"]), one
        entry = segment.offset_index.lookup(one["offset"])
        assert {"offset": entry.offset, "position": entry.position} == one["offsetIndexLookup"], one
        if one.get("epochForOffset") is not None:
            assert log.epochs.epoch_at(one["offset"]) == one["epochForOffset"], one
    for one in expected["offsetErrors"]:
        with pytest.raises(OffsetOutOfRange):
            log.read(one["offset"], 1, at_least_one_batch=True, upper_offset=log.end_offset)


def check_reads(log: Log, expected: Any) -> None:
    upper = {
        "LOG_END": log.end_offset,
        "HIGH_WATERMARK": log.high_watermark,
        "TXN_COMMITTED": log.last_stable_offset,
    }
    for one in expected:
        found = log.read(
            one["startOffset"],
            one["maxLength"],
            at_least_one_batch=one["minOneMessage"],
            upper_offset=upper[one["isolation"]],
        )
        assert (0 if found is None else found.size) == one["bytes"], one
        if found is not None:
            assert found.position == one["position"], one
            assert Path(found.file.path).name == f"{one['segmentBaseOffset']:020d}.log"
        if one["isolation"] == "TXN_COMMITTED" and one["startOffset"] < log.last_stable_offset:
            aborted = log.aborted_in_read(one["startOffset"], one["bytes"])
            assert [(each.producer_id, each.first_offset) for each in aborted] == [
                (each["producerId"], each["firstOffset"]) for each in one["abortedTransactions"]
            ], one


def check_times(log: Log, expected: Any) -> None:
    for one in expected["timestampLookups"]:
        found = run_search(log.search_since(one["timestamp"]))
        mine = None if found is None else (found.timestamp_ms, found.offset, found.leader_epoch)
        other = one["found"] and (one["found"]["timestamp"], one["found"]["offset"], one["found"]["leaderEpoch"])
        assert mine == other, one
        for segment, entry in zip(log.segments, one["timeIndexLookup"], strict=True):
            looked_up = segment.time_index.lookup(one["timestamp"])
            assert (looked_up.timestamp_ms, looked_up.offset) == (entry["timestamp"], entry["offset"]), one
    newest = next(one["found"] for one in expected["specialTimestamps"] if one["name"] == "MAX_TIMESTAMP")
    found = run_search(log.search_newest())
    assert (None if found is None else found.offset) == (newest and newest["offset"])


def check_epochs(log: Log, expected: Any) -> None:
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [
        (one["epoch"], one["startOffset"]) for one in expected["epochEntries"]
    ]
    for one in expected["endOffsetForEpoch"]:
        answer = log.epochs.end_offset_of(one["requestedEpoch"], log.end_offset)
        assert answer == (one["cacheEpoch"], one["cacheEndOffset"]), one


@pytest.mark.parametrize("state", STATES)
def test_broken_logs_recover_to_what_apache_recovered_them_to(tmp_path: Path, state: str) -> None:
    source = expected_directory("d-restart", state)
    shutil.copytree(source, tmp_path / "log", copy_function=shutil.copyfile)
    config = config_of(load(GOLDEN / "d-restart" / "case.json"))
    was_clean = state == "clean"
    log, cuts = open_log(
        RealDisk(), str(tmp_path / "log"), config, now_ms=T0 + 100_000, state=LogState(was_clean=was_clean)
    )
    assert bool(cuts) == (state in ("torn", "corrupt"))
    expected = load(GOLDEN / "d-restart" / "recovered.json")[state]
    log.set_high_watermark(expected["highWatermark"])
    check_lookups(log, expected)
    log.close()
    assert_same_files(tmp_path / "log", source if was_clean else expected_directory("d-restart", f"{state}-recovered"))
