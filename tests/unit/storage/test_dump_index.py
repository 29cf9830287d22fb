"""`dump-log` of index files and snapshots: the faults that Apache reports, and what it takes for an error."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from levada.cli.main import main
from levada.records import Codec, build_batch
from levada.storage.formats import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    AbortedTransaction,
    ProducerEntry,
    encode_snapshot,
)

NEWEST_MS = 1_700_000_000_001
BASE = 1000
NAME = f"{BASE:020}"

Printed: TypeAlias = tuple[list[str], list[str], int]
DumpFile: TypeAlias = Callable[..., Printed]


def batch(base_offset: int, codec: Codec = Codec.NONE) -> bytes:
    """Two records, of which the first is the newer one."""
    return build_batch(
        [(NEWEST_MS, b"k", b"v", ()), (NEWEST_MS - 9, b"k", b"v", ())], base_offset=base_offset, codec=codec
    )


SIZE = len(batch(0))
LOG = b"".join(batch(BASE + 2 * n) for n in range(10))


def offsets(*entries: tuple[int, int]) -> bytes:
    return b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries)


def times(*entries: tuple[int, int]) -> bytes:
    return b"".join(TIME_ENTRY.pack(*entry) for entry in entries)


@pytest.fixture
def dump_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> DumpFile:
    """Dumps a file beside the log: (lines after the title, lines on stderr, exit code)."""

    def dump(suffix: str, data: bytes, *flags: str, log: bytes | None = LOG, index: bytes | None = None) -> Printed:
        for name, content in (("log", log), ("index", index), (suffix, data)):
            path = tmp_path / f"{NAME}.{name}"
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
        code = main(["dump-log", "--files", str(path), *flags])
        printed = capsys.readouterr()
        lines = printed.out.replace(f"{tmp_path}/", "").splitlines()
        assert lines[0] == f"Dumping {NAME}.{suffix}"
        return lines[1:], printed.err.replace(f"{tmp_path}/", "").splitlines(), code

    return dump


def test_an_index_shows_offsets_and_positions(dump_file: DumpFile) -> None:
    data = offsets((3, SIZE), (5, 2 * SIZE))
    lines = [f"offset: 1003 position: {SIZE}", f"offset: 1005 position: {2 * SIZE}"]
    assert dump_file("index", data) == (lines, [], 0)
    assert dump_file("index", data, "--verify-index-only") == ([], [], 0)
    assert dump_file("index", data, "--index-sanity-check") == ([f"{NAME}.index passed sanity check."], [], 0)
    assert dump_file("index", data + b"torn") == (lines, [], 0)
    assert dump_file("index", data + bytes(80)) == (lines, [], 0)
    assert dump_file("index", b"") == ([f"{NAME}.index is empty."], [], 0)
    assert dump_file("index", b"abc", "--index-sanity-check") == ([f"{NAME}.index is empty."], [], 0)


@pytest.mark.parametrize("flags", [[], ["--verify-index-only"]])
def test_offsets_that_their_batch_does_not_end_with_are_mismatches(dump_file: DumpFile, flags: list[str]) -> None:
    data = offsets((4, SIZE), (5, 2 * SIZE), (9, 0), (9, 3 * SIZE))
    lines, errors, code = dump_file("index", data, *flags)
    assert len(lines) == (0 if flags else 4)
    assert errors == [
        f"Mismatches in :{NAME}.index",
        "  Index offset: 1009, log offset: 1007",
        "  Index offset: 1004, log offset: 1003",
    ]
    assert code == 0


@pytest.mark.parametrize("log", [LOG, b""])
def test_the_zeros_of_a_live_segment_without_entries_are_shown_and_are_no_fault(
    dump_file: DumpFile, log: bytes
) -> None:
    assert dump_file("index", bytes(80), log=log) == (["offset: 1000 position: 0"], [], 0)
    blank_times = ["timestamp: 0 offset: 1000"]
    assert dump_file("timeindex", bytes(24), log=log, index=bytes(80)) == (blank_times, [], 0)


@pytest.mark.parametrize("position", [-5, 5, 10 * SIZE, 10 * SIZE - 17, 100 * SIZE])
def test_an_entry_that_points_at_no_batch_is_one_line(dump_file: DumpFile, position: int) -> None:
    lines, errors, code = dump_file("index", offsets((1, 0), (3, position), (5, 2 * SIZE)))
    assert lines == ["offset: 1001 position: 0"]
    assert len(errors) == code == 1
    assert errors[0].startswith(f"levada: {NAME}.index: ")


def test_a_batch_must_not_exceed_the_largest_message(dump_file: DumpFile) -> None:
    data = offsets((3, SIZE))
    assert dump_file("index", data, "--max-message-size", str(SIZE))[2] == 0
    assert dump_file("index", data, "--max-message-size", str(SIZE - 1))[2] == 1


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            offsets((3, SIZE), (-3, SIZE)),
            (
                "Corrupt index found, index file INDEX has non-zero size but the last offset is 997"
                " which is less than the base offset 1000"
            ),
        ),
        (
            offsets((3, SIZE)) + b"abc",
            "Index file INDEX is corrupt, found 11 bytes which is neither positive nor a multiple of 8",
        ),
    ],
)
def test_an_insane_index_is_said_to_be_so(dump_file: DumpFile, data: bytes, error: str) -> None:
    lines, errors, code = dump_file("index", data, "--index-sanity-check")
    assert lines == []
    assert errors == [f"levada: {NAME}.index: " + error.replace("INDEX", f"{NAME}.index")]
    assert code == 1


def test_an_index_needs_its_log(dump_file: DumpFile) -> None:
    for suffix in ("index", "timeindex"):
        lines, errors, code = dump_file(suffix, b"", log=None, index=b"")
        assert (lines, code) == ([], 1)
        assert errors == [f"levada: cannot read {NAME}.log: No such file or directory"]


def test_a_time_index_needs_its_index_and_does_not_make_one(dump_file: DumpFile, tmp_path: Path) -> None:
    _, errors, code = dump_file("timeindex", times((NEWEST_MS, 3)))
    assert errors == [f"levada: cannot read {NAME}.index: No such file or directory"]
    assert code == 1
    assert not (tmp_path / f"{NAME}.index").exists()


@pytest.mark.parametrize("codec", Codec)
def test_a_time_index_shows_timestamps_and_offsets(dump_file: DumpFile, codec: Codec) -> None:
    log = LOG + batch(BASE + 20, codec)
    data = times((NEWEST_MS, 21))
    lines = [f"timestamp: {NEWEST_MS} offset: 1021"]
    for index in (b"", bytes(80), offsets((3, SIZE), (19, 9 * SIZE)), offsets((3, SIZE), (19, 9 * SIZE)) + bytes(80)):
        assert dump_file("timeindex", data, log=log, index=index) == (lines, [], 0)
        assert dump_file("timeindex", data + bytes(24), log=log, index=index) == (lines, [], 0)
        assert dump_file("timeindex", data, "--verify-index-only", log=log, index=index) == ([], [], 0)
    assert dump_file("timeindex", b"", log=log, index=b"") == ([], [], 0)


def test_a_time_index_is_searched_from_the_index_on(dump_file: DumpFile) -> None:
    """An index that leads past the batch hides it, which shows that the search begins there."""
    for index, found in ((offsets((3, 2 * SIZE)), 1005), (offsets((3, 10 * SIZE)), -1)):
        for tail in (b"", bytes(80)):
            _, errors, _ = dump_file("timeindex", times((NEWEST_MS, 3)), index=index + tail)
            assert errors[1] == f"Indexed offset: 1003, found log offset: {found}"


@pytest.mark.parametrize("flags", [[], ["--verify-index-only"]])
def test_faults_of_a_time_index_are_reported(dump_file: DumpFile, flags: list[str]) -> None:
    data = times((NEWEST_MS, 3), (NEWEST_MS + 7, 5), (NEWEST_MS, 7), (NEWEST_MS, 9), (NEWEST_MS, 10), (1, 50))
    lines, errors, code = dump_file("timeindex", data, *flags, index=offsets((3, SIZE)))
    assert len(lines) == (0 if flags else 6)
    assert errors == [
        f"Found timestamp mismatch in :{NAME}.timeindex",
        f"  Index timestamp: {NEWEST_MS + 7}, log timestamp: {NEWEST_MS}",
        f"Found out of order timestamp in :{NAME}.timeindex",
        f"  Index timestamp: {NEWEST_MS}, Previously indexed timestamp: {NEWEST_MS + 7}",
        f"  Index timestamp: {NEWEST_MS}, Previously indexed timestamp: {NEWEST_MS}",
        f"The following indexed offsets are not found in :{NAME}.timeindex",
        "Indexed offset: 1010, found log offset: 1011",
        "Indexed offset: 1050, found log offset: -1",
    ]
    assert code == 0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            times((NEWEST_MS, 3), (NEWEST_MS - 1, 4)),
            (
                "Corrupt time index found, time index file (INDEX) has non-zero size but the last timestamp is"
                f" {NEWEST_MS - 1} which is less than the first timestamp {NEWEST_MS}"
            ),
        ),
        (
            times((NEWEST_MS, -3)),
            (
                "Corrupt time index found, time index file (INDEX) has non-zero size but the last offset is 997"
                " which is less than the first offset 1000"
            ),
        ),
        (
            times((NEWEST_MS, 3)) + b"a",
            "Time index file INDEX is corrupt, found 13 bytes which is neither positive nor a multiple of 12",
        ),
    ],
)
def test_an_insane_time_index_is_said_to_be_so(dump_file: DumpFile, data: bytes, error: str) -> None:
    lines, errors, code = dump_file("timeindex", data, "--index-sanity-check", index=b"")
    assert lines == []
    assert errors == [f"levada: {NAME}.timeindex: " + error.replace("INDEX", f"{NAME}.timeindex")]
    assert code == 1
    passed: Printed = ([f"{NAME}.timeindex passed sanity check."], [], 0)
    assert dump_file("timeindex", times((NEWEST_MS, 3)), "--index-sanity-check", index=b"") == passed
    assert dump_file("timeindex", b"", "--index-sanity-check", index=b"") == passed


def test_a_transaction_index_shows_what_was_aborted(dump_file: DumpFile) -> None:
    data = AbortedTransaction(1, 2, 3, 4).encode()
    lines = ["version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"]
    assert dump_file("txnindex", data) == (lines, [], 0)
    assert dump_file("txnindex", b"") == ([], [], 0)
    torn = [f"levada: {NAME}.txnindex: 3 bytes after the last whole entry"]
    assert dump_file("txnindex", data + b"abc") == (lines, torn, 1)
    unknown = [f"levada: {NAME}.txnindex: an aborted transaction of version 1"]
    assert dump_file("txnindex", b"\0\1" + data[2:]) == ([], unknown, 1)


def test_a_snapshot_shows_its_producers(dump_file: DumpFile) -> None:
    producers = [
        ProducerEntry(1, 0, 5, 10, 5, 77, 3, 8),
        ProducerEntry(2, 0, 2, 10, 5, 7, 9, -1),
        ProducerEntry(3, 0, -1, -1, 0, 6, 4, -1),
    ]
    data = encode_snapshot(producers)
    heads = [
        "producerId: 1 producerEpoch: 0 coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong[8] lastTimestamp: 77",
        "producerId: 2 producerEpoch: 0 coordinatorEpoch: 9 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 7",
        "producerId: 3 producerEpoch: 0 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 6",
    ]
    lines = [
        f"{heads[0]} firstSequence: 0 lastSequence: 5 lastOffset: 10 offsetDelta: 5 timestamp: 77",
        f"{heads[1]} firstSequence: 2147483645 lastSequence: 2 lastOffset: 10 offsetDelta: 5 timestamp: 7",
        heads[2],
    ]
    assert dump_file("snapshot", data) == (lines, [], 0)
    for damaged in (b"", data[:-1], b"\0\2" + data[2:], data[:-1] + b"x"):
        lines, errors, code = dump_file("snapshot", damaged)
        assert lines == []
        assert len(errors) == code == 1
