"""`dump-log` of .log files: what Apache prints for them, whole, damaged or strange."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from levada.cli.main import main
from levada.records import Codec, ControlType, build_batch, end_transaction_marker
from levada.storage.dump import Dump, DumpOptions
from levada.storage.dump_batches import WINDOW_BYTES
from levada.storage.dump_log import LogOptions, java_text
from levada.world.real_disk import RealDisk, RealFile

NOW_MS = 1_700_000_000_000
COUNT_AT = 57

Printed: TypeAlias = tuple[list[str], list[str], int]
DumpLog: TypeAlias = Callable[..., Printed]


def batch(count: int = 3, base_offset: int = 0, codec: Codec = Codec.NONE, value_size: int = 2) -> bytes:
    records = [(NOW_MS + n, b"k%d" % n, b"v%d" % n * (value_size // 2), [("h", b"x")]) for n in range(count)]
    return build_batch(records, base_offset=base_offset, codec=codec, partition_leader_epoch=0)


@pytest.fixture
def dump_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> DumpLog:
    """Dumps a log of these bytes: (lines after the two of the title, lines on stderr, exit code)."""

    def dump(data: bytes, *flags: str) -> Printed:
        path = tmp_path / "00000000000000000000.log"
        path.write_bytes(data)
        code = main(["dump-log", "--files", str(path), *flags])
        printed = capsys.readouterr()
        lines = printed.out.replace(f"{tmp_path}/", "").split("\n")
        assert lines[:2] == ["Dumping 00000000000000000000.log", "Log starting offset: 0"]
        assert lines.pop() == ""
        return lines[2:], printed.err.replace(f"{tmp_path}/", "").splitlines(), code

    return dump


def test_scenario_7_a_plain_batch_of_one_record_is_one_line(dump_log: DumpLog) -> None:
    data = build_batch(
        [(1672737508744, None, b"hello", ())],
        producer_id=1000,
        producer_epoch=0,
        base_sequence=0,
        partition_leader_epoch=0,
    )
    line = (
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 lastSequence: 0 producerId: 1000 producerEpoch: 0"
        " partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
        " position: 0 CreateTime: 1672737508744 size: 73 magic: 2 compresscodec: none crc: 1685517854 isvalid: true"
    )
    assert dump_log(data) == ([line], [], 0)


def test_an_empty_log_has_no_lines(dump_log: DumpLog) -> None:
    assert dump_log(b"", "--deep-iteration") == ([], [], 0)


def test_keys_and_values_are_printed_on_request(dump_log: DumpLog) -> None:
    data = build_batch([(1, b"", b"", ()), (2, None, b"a\nb", ()), (3, b"k", None, [("x", None), ("y", b"")])])
    head = "| offset: 0 CreateTime: 1 keySize: 0 valueSize: 0 sequence: -1 headerKeys: []"
    lines, _, _ = dump_log(data, "--print-data-log")
    assert lines[1] == f"{head} key:  payload: "
    assert lines[2:4] == [
        "| offset: 1 CreateTime: 2 keySize: -1 valueSize: 3 sequence: -1 headerKeys: [] payload: a",
        "b",
    ]
    assert lines[4] == "| offset: 2 CreateTime: 3 keySize: 1 valueSize: -1 sequence: -1 headerKeys: [x,y] key: k"
    assert dump_log(data, "--deep-iteration")[0][1] == head
    assert dump_log(data, "--print-data-log", "--skip-record-metadata")[0][1:] == [
        "| key:  payload: ",
        "| payload: a",
        "b",
        "| key: k",
    ]


def test_the_offsets_decoder_spells_out_what_it_knows_and_names_what_it_does_not(dump_log: DumpLog) -> None:
    records = [
        (NOW_MS, b"\0\1\0\1g\0\1t\0\0\0\7", None, ()),
        (NOW_MS, b"\0\x0b\0\1g", b"\0\0", ()),
        (NOW_MS, b"\0\2\0\1g", b"\0\3\0", ()),
    ]
    lines, errors, code = dump_log(build_batch(records), "--offsets-decoder", "--skip-record-metadata")
    assert lines[1:3] == [
        '| key: {"type":"1","data":{"group":"g","topic":"t","partition":7}} payload: <DELETE>',
        "| key: Unknown record type 11 at offset 1, skipping.",
    ]
    assert lines[3].startswith("| key: Error at offset 2, skipping. GroupMetadataValue v3: ")
    assert (errors, code) == ([], 0)


def test_the_offsets_decoder_needs_keys(dump_log: DumpLog) -> None:
    _, errors, code = dump_log(build_batch([(NOW_MS, None, b"v", ())]), "--offsets-decoder")
    name = "00000000000000000000.log"
    assert errors == [f"levada: {name}: the record at offset 0 has no key, which the decoder needs"]
    assert code == 1


@pytest.mark.parametrize("flags", [["--key-decoder-class"], ["--value-decoder-class"]])
def test_a_decoder_implies_the_contents(dump_log: DumpLog, flags: list[str]) -> None:
    assert dump_log(batch(1), *flags)[0][1].endswith("key: k0 payload: v0")
    assert dump_log(batch(1), *flags, "org.apache.kafka.tools.api.StringDecoder")[0][1].endswith("payload: v0")


def test_transaction_markers_are_named(dump_log: DumpLog) -> None:
    marker = end_transaction_marker(
        ControlType.ABORT, producer_id=7, producer_epoch=1, coordinator_epoch=-1, timestamp_ms=5
    )
    lines, _, _ = dump_log(marker, "--print-data-log")
    assert lines[1].endswith(
        "keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: -1"
    )
    # As Apache's: the line of a record is left empty, not left out.
    assert dump_log(marker, "--print-data-log", "--skip-record-metadata")[0][1:] == [""]


@pytest.mark.parametrize(("number", "name"), [(7, "UNKNOWN(7)"), (-2, "UNKNOWN(-2)"), (2, "LEADER_CHANGE(2)")])
def test_other_control_records_are_named_by_their_type(dump_log: DumpLog, number: int, name: str) -> None:
    data = build_batch([(1, struct.pack(">hh", 0, number), b"x", ())], is_control=True)
    assert dump_log(data, "--deep-iteration")[0][1].endswith(f"headerKeys: [] controlType: {name}")


def test_sequences_wrap_around(dump_log: DumpLog) -> None:
    records = [(NOW_MS, None, b"", ())] * 3
    data = build_batch(records, producer_id=5, producer_epoch=1, base_sequence=2**31 - 2)
    lines, _, _ = dump_log(data, "--deep-iteration")
    assert "baseSequence: 2147483646 lastSequence: 0 " in lines[0]
    assert [line.split("sequence: ")[1].split()[0] for line in lines[1:]] == ["2147483646", "2147483647", "0"]


def test_delete_horizon_and_append_time_are_shown(dump_log: DumpLog) -> None:
    assert (
        " deleteHorizonMs: OptionalLong[77] "
        in dump_log(build_batch([(1, b"k", None, ())], delete_horizon_ms=77))[0][0]
    )
    lines, _, _ = dump_log(build_batch([(1, b"k", None, ())], log_append_time_ms=99), "--deep-iteration")
    assert " LogAppendTime: 99 size" in lines[0]
    assert " LogAppendTime: 99 keySize" in lines[1]


def test_gaps_are_reported_by_the_offset_before_them(dump_log: DumpLog) -> None:
    data = b"".join(batch(count, offset) for count, offset in [(3, 0), (2, 10), (2, 5), (1, 20), (3, 0), (1, 33)])
    assert dump_log(data, "--deep-iteration")[1:] == (
        [
            "Non-consecutive offsets in 00000000000000000000.log",
            "  2 is followed by 33",
            "  6 is followed by 20",
            "  11 is followed by 5",
            "  20 is followed by 0",
        ],
        0,
    )
    assert dump_log(data)[1:] == ([], 0)


@pytest.mark.parametrize("tail", [bytes(16), bytes(17), batch(1, 3)[:17], batch(1, 3)[:-1]])
def test_a_torn_tail_is_counted(dump_log: DumpLog, tail: bytes) -> None:
    lines, errors, code = dump_log(batch() + tail)
    assert lines[1:] == [f"Found {len(tail)} invalid bytes at the end of 00000000000000000000.log"]
    assert (errors, code) == ([], 0)


def test_zeros_after_the_last_batch_end_the_dump(dump_log: DumpLog) -> None:
    lines, errors, code = dump_log(batch() + bytes(100))
    assert len(lines) == 1
    found = "Found record size 0 smaller than minimum record overhead (14) in file 00000000000000000000.log."
    assert errors == [f"levada: 00000000000000000000.log: {found}"]
    assert code == 1


def test_max_bytes_limits_what_is_read(dump_log: DumpLog) -> None:
    data = batch() + batch(2, 3)
    assert len(dump_log(data, "--max-bytes", str(len(data)))[0]) == 2
    assert len(dump_log(data, "--max-bytes", str(len(data) - 1))[0]) == 1
    assert dump_log(data, "--max-bytes", "0") == ([], [], 0)


def test_a_flipped_byte_is_invalid_and_still_shown(dump_log: DumpLog) -> None:
    data = batch().replace(b"v2", b"w2")
    lines, errors, code = dump_log(data, "--print-data-log")
    assert lines[0].endswith("isvalid: false")
    assert lines[3].endswith("payload: w2")
    assert (errors, code) == ([], 0)


def test_records_before_the_damage_are_shown(dump_log: DumpLog) -> None:
    damaged = bytearray(batch())
    # The length of the second of three records of 15 bytes.
    damaged[61 + 15] = 0x7F
    lines, errors, code = dump_log(bytes(damaged), "--print-data-log")
    assert len(lines) == 2
    assert lines[1].endswith("payload: v0")
    assert len(errors) == code == 1


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [-1, 1, 5, 2**31 - 1])
def test_a_wrong_count_is_an_error(dump_log: DumpLog, codec: Codec, count: int) -> None:
    data = bytearray(batch(codec=codec))
    data[COUNT_AT : COUNT_AT + 4] = count.to_bytes(4, signed=True)
    lines, errors, code = dump_log(bytes(data), "--deep-iteration")
    assert lines[0].endswith("isvalid: false")
    assert len(errors) == code == 1
    assert dump_log(bytes(data))[1:] == ([], 0)


@pytest.mark.parametrize(
    ("at", "replacement", "error"),
    [
        (16, b"\x00", "record format 0 at position 0 is not supported, only 2"),
        (16, b"\xff", "record format -1 at position 0 is not supported, only 2"),
        (21, b"\x00\x05", "no compression codec has the number 5"),
    ],
)
def test_what_is_no_batch_is_one_line(dump_log: DumpLog, at: int, replacement: bytes, error: str) -> None:
    data = batch()
    _, errors, code = dump_log(data[:at] + replacement + data[at + len(replacement) :])
    assert errors == [f"levada: 00000000000000000000.log: {error}"]
    assert code == 1


def test_a_batch_shorter_than_its_header_has_no_records(dump_log: DumpLog) -> None:
    short = struct.pack(">qiib", 3, 20, 0, 2) + bytes(15)
    lines, errors, code = dump_log(short + bytes(29), "--deep-iteration")
    assert "size: 32 magic: 2" in lines[0]
    assert lines[0].endswith("isvalid: false")
    assert errors == ["levada: 00000000000000000000.log: batch at position 0 is smaller than a header"]
    assert code == 1
    assert dump_log(short)[1] == ["levada: 00000000000000000000.log: the file ends within the header at position 0"]


@pytest.mark.parametrize("key", [None, b"a", struct.pack(">hh", -1, 0), struct.pack(">hh", 0, 1)])
def test_a_broken_control_record_is_one_line(dump_log: DumpLog, key: bytes | None) -> None:
    _, errors, code = dump_log(build_batch([(1, key, b"x", ())], is_control=True), "--deep-iteration")
    assert len(errors) == code == 1


def test_text_is_read_as_java_reads_it() -> None:
    assert java_text("größe €".encode()) == "größe €"
    assert java_text(b"\xff\xed\xa0\x80k") == "\ufffd\ufffdk"
    assert java_text(b"\xed\xa0k\xed\x80") == "\ufffdk\ufffd"
    assert java_text(b"\xf5\x80\xe2\x82") == "\ufffd\ufffd\ufffd"


class WatchedFile(RealFile):
    def __init__(self, path: str, fd: int, sizes: list[int]) -> None:
        super().__init__(path, fd)
        self.sizes = sizes

    def read(self, position: int, size: int) -> bytes:
        self.sizes.append(size)
        return super().read(position, size)


class WatchedDisk(RealDisk):
    """Keeps the sizes of all reads."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> RealFile:
        opened = super().open(path, create=create, exclusive=exclusive)
        file = WatchedFile(path, opened.duplicate(), self.sizes)
        opened.close()
        return file


def test_a_log_is_read_in_windows(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    large = WINDOW_BYTES + 1000
    # The last length is damaged and names 5 MB; without records only their checksum is asked for.
    damaged = struct.pack(">qiibI", 9000, 5_000_000 - 12, 0, 2, 0) + bytes(4_999_979)
    path.write_bytes(b"".join(batch(3, 3 * n) for n in range(3000)) * 10 + batch(1, 9000, value_size=large) + damaged)
    disk = WatchedDisk()
    shallow = list(Dump(disk, DumpOptions(), str).lines(str(path)))
    assert len(shallow) == 2 + 30_002
    assert [line.rpartition(" ")[2] for line in shallow[-2:]] == ["true", "false"]
    assert max(disk.sizes) == WINDOW_BYTES
    assert len(disk.sizes) < 20

    disk.sizes.clear()
    path.write_bytes(path.read_bytes()[: -len(damaged)])
    deep = list(Dump(disk, DumpOptions(LogOptions(deep=True)), str).lines(str(path)))
    assert len(deep) == 2 + 30_001 + 90_001
    assert WINDOW_BYTES < max(disk.sizes) < WINDOW_BYTES + 2000
