"""What both batch writers write, refuse and leave alone."""

import gc
import mmap
import sys
from array import array
from types import ModuleType
from typing import Any

import pytest

from levada.model import hashes
from levada.records import BatchView, Codec, RecordInput, _writer, build_batch, parse_produced, pure_writer
from levada.records.sources import BinarySource, HeaderSource, NumberSource, RecordSource

TWINS = [pytest.param(_writer, id="compiled"), pytest.param(pure_writer, id="pure")]
PRODUCER: dict[str, Any] = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 70, "is_transactional": False}
NO_PRODUCER: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "is_transactional": False}
RECORDS: list[RecordInput] = [
    (1000, b"key", b"value", ()),
    (1007, None, b"value", [("one", b"1"), ("zwölf", None), ("", b"")]),
    (5, b"", None, ()),
    (-1, None, None, [("two", b"2" * 300)]),
    (2**62, b"k" * 200, b"v" * 70_000, ()),
]


def filled(twin: ModuleType, records: list[RecordInput] = RECORDS, capacity: int = 1 << 20) -> Any:
    writer = twin.BatchWriter(capacity)
    for index, record in enumerate(records):
        assert writer.append(*record) == index
    return writer


@pytest.mark.parametrize("twin", TWINS)
def test_a_sealed_batch_is_the_one_that_the_builder_builds(twin: ModuleType) -> None:
    writer = filled(twin)
    built = build_batch(RECORDS)
    assert (writer.count, writer.size) == (len(RECORDS), len(built))
    assert (writer.base_timestamp, writer.max_timestamp) == (1000, 2**62)
    assert writer.seal(**NO_PRODUCER) == built
    parse_produced(writer.seal(**PRODUCER))


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("codec", Codec)
def test_a_retry_changes_the_producer_and_keeps_the_records(twin: ModuleType, codec: Codec) -> None:
    writer = filled(twin)
    first = writer.seal(**PRODUCER, codec=codec)
    assert first == build_batch(RECORDS, codec=codec, producer_id=9, producer_epoch=3, base_sequence=70)
    # Neither codec nor level count any more.
    again = writer.seal(producer_id=9, producer_epoch=4, base_sequence=0, is_transactional=True, level=1)
    assert again == build_batch(
        RECORDS, codec=codec, producer_id=9, producer_epoch=4, base_sequence=0, is_transactional=True
    )
    assert again == first, "both are views of the same memory"
    assert again.readonly
    parse_produced(again)
    assert writer.size == len(build_batch(RECORDS))


@pytest.mark.parametrize("twin", TWINS)
def test_a_level_reaches_the_codec(twin: ModuleType) -> None:
    batch = filled(twin).seal(**PRODUCER, codec=Codec.GZIP, level=1)
    assert batch == build_batch(RECORDS, codec=Codec.GZIP, level=1, producer_id=9, producer_epoch=3, base_sequence=70)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("codec", [None, *Codec])
def test_records_read_back_before_and_after_sealing(twin: ModuleType, codec: Codec | None) -> None:
    writer = filled(twin)
    if codec is not None:
        writer.seal(**PRODUCER, codec=codec)
    assert writer.records() == [(*record[:3], tuple(record[3])) for record in RECORDS]
    if codec is None:
        assert writer.append(0, None, b"more") == len(RECORDS)


@pytest.mark.parametrize("twin", TWINS)
def test_a_sealed_batch_takes_no_more_records(twin: ModuleType) -> None:
    writer = filled(twin)
    size = writer.size
    writer.seal(**PRODUCER)
    assert writer.append(0, None, None) == -1
    assert (writer.count, writer.size) == (len(RECORDS), size)
    assert writer.seal(**NO_PRODUCER) == build_batch(RECORDS)


@pytest.mark.parametrize("twin", TWINS)
def test_an_empty_batch_cannot_be_sealed(twin: ModuleType) -> None:
    writer = twin.BatchWriter(1000)
    assert (writer.count, writer.size, writer.base_timestamp, writer.max_timestamp) == (0, 61, -1, -1)
    assert writer.records() == []
    with pytest.raises(ValueError, match="without records"):
        writer.seal(**PRODUCER)
    assert writer.append(7, None, None) == 0


@pytest.mark.parametrize("twin", TWINS)
def test_a_batch_that_could_not_be_sealed_goes_on(twin: ModuleType) -> None:
    writer = filled(twin)
    with pytest.raises((TypeError, OverflowError)):
        writer.seal(**PRODUCER, codec=Codec.ZSTD, level="high")
    assert writer.append(3, None, bytes(100_000)) == len(RECORDS)
    assert writer.seal(**NO_PRODUCER) == build_batch([*RECORDS, (3, None, bytes(100_000), ())])


@pytest.mark.parametrize("twin", TWINS)
def test_capacity_is_exact(twin: ModuleType) -> None:
    size = len(build_batch([(0, None, b"x" * 50, ())] * 3))
    for capacity, count in ((size - 1, 2), (size, 3)):
        writer = twin.BatchWriter(capacity)
        answers = [writer.append(0, None, b"x" * 50) for _ in range(4)]
        assert answers == [*range(count), *[-1] * (4 - count)]
        assert writer.seal(**NO_PRODUCER) == build_batch([(0, None, b"x" * 50, ())] * count)


@pytest.mark.parametrize("twin", TWINS)
def test_a_full_batch_still_takes_what_is_smaller(twin: ModuleType) -> None:
    writer = twin.BatchWriter(200)
    assert writer.append(0, None, bytes(80)) == 0
    before = (writer.count, writer.size, writer.max_timestamp)
    assert writer.append(99, None, bytes(80)) == -1
    assert (writer.count, writer.size, writer.max_timestamp) == before
    assert writer.append(0, None, bytes(10)) == 1


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("capacity", [1, 61, 100, 1 << 10, 1 << 16])
def test_an_empty_batch_takes_a_record_of_any_size(twin: ModuleType, capacity: int) -> None:
    record: RecordInput = (0, b"k" * 70_000, b"v" * 3_000_000, [("h" * 300, b"x" * 20_000)] * 40)
    writer = twin.BatchWriter(capacity)
    assert writer.append(*record) == 0
    assert writer.append(0, None, None) == -1
    assert writer.seal(**NO_PRODUCER) == build_batch([record])


@pytest.mark.parametrize("twin", TWINS)
def test_no_batch_grows_beyond_31_bits(twin: ModuleType) -> None:
    for capacity in (0, -1, 2**31):
        with pytest.raises(ValueError, match="bytes"):
            twin.BatchWriter(capacity)
    writer = twin.BatchWriter(2**31 - 1)
    with mmap.mmap(-1, 2**31) as huge, memoryview(huge) as view, pytest.raises(OverflowError):
        writer.append(0, None, view)
    assert (writer.count, writer.size) == (0, 61)


@pytest.mark.parametrize("twin", TWINS)
def test_times_wrap_as_java_longs_do(twin: ModuleType) -> None:
    records: list[RecordInput] = [(time, None, None, ()) for time in (2**63 - 1, -(2**63), 0)]
    writer = filled(twin, records)
    assert writer.seal(**NO_PRODUCER) == build_batch(records)
    assert (writer.base_timestamp, writer.max_timestamp) == (2**63 - 1, 2**63 - 1)


@pytest.mark.parametrize("twin", TWINS)
def test_any_buffer_of_contiguous_bytes_is_a_field(twin: ModuleType) -> None:
    writer = twin.BatchWriter(10_000)
    fields: list[Any] = [bytearray(b"abcd"), memoryview(b"xabcdx")[1:5], memoryview(b"abcd").cast("H"), b"abcd"]
    for field in fields:
        writer.append(0, field, field, [("h", field)])
    assert writer.seal(**NO_PRODUCER) == build_batch([(0, b"abcd", b"abcd", [("h", b"abcd")])] * len(fields))
    fields[0].append(0)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((2**63, None, None), OverflowError),
        ((-(2**63) - 1, None, None), OverflowError),
        (("1", None, None), TypeError),
        ((None, None, None), TypeError),
        ((1, 5, None), TypeError),
        ((1, "key", None), TypeError),
        ((1, None, 5), TypeError),
        ((1, bytearray(b"k"), "value"), TypeError),
        ((1, memoryview(b"abcdef")[::2], None), BufferError),
        ((1, None, memoryview(b"abcdef")[::-1]), BufferError),
        ((1, None, None, [("h", memoryview(b"abcdef")[::2])]), BufferError),
        ((1, None, None, ((b"name", b""),)), TypeError),
        ((1, None, None, (("name", 7),)), TypeError),
        ((1, None, None, (("name", "x"),)), TypeError),
        ((1, None, None, ("name",)), ValueError),
        ((1, None, None, 5), TypeError),
        ((1, None, None, (("\ud800", b""),)), UnicodeEncodeError),
    ],
)
def test_what_cannot_be_written_is_refused_and_changes_nothing(
    twin: ModuleType, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    writer = filled(twin)
    with pytest.raises(error):
        writer.append(*arguments)
    assert writer.seal(**NO_PRODUCER) == build_batch(RECORDS)


@pytest.mark.parametrize("twin", TWINS)
def test_rows_go_to_the_writers_of_their_partitions(twin: ModuleType) -> None:
    writers = [twin.BatchWriter(10_000) for _ in range(3)]
    partitions = array("i", [2, 0, 2, 0])
    keys = [b"a", None, bytearray(b"c"), b"d"]
    values = (b"1", None, memoryview(b"3"), b"4")
    assert twin.write_lists(writers, partitions, 50, keys, values, 0, 4) == 4
    assert writers[0].records() == [(50, None, None, ()), (50, b"d", b"4", ())]
    assert writers[1].count == 0
    assert writers[2].records() == [(50, b"a", b"1", ()), (50, b"c", b"3", ())]
    assert twin.write_lists([None, None, writers[2]], partitions, 51, None, values, 2, 4) == 3
    assert writers[2].records()[2:] == [(51, None, b"3", ())]
    assert twin.write_lists(writers, None, 52, None, values, 1, 3) == 3
    assert writers[0].records()[2:] == [(52, None, None, ()), (52, None, b"3", ())]
    assert twin.write_lists(writers, None, 52, None, values, 4, 4) == 4
    keys[2].append(0)  # type: ignore[union-attr]


@pytest.mark.parametrize("twin", TWINS)
def test_rows_stop_at_a_full_writer_and_go_on_with_another(twin: ModuleType) -> None:
    values = [b"%03d" % number for number in range(300)]
    done: list[Any] = []
    row = 0
    while row < len(values):
        writer = twin.BatchWriter(700)
        row = twin.write_lists([writer], None, 5, None, values, row, len(values))
        done.append(writer)
    assert all(writer.size <= 700 for writer in done)
    assert len(done) > 3
    assert [record[2] for writer in done for record in writer.records()] == values
    done[-1].seal(**PRODUCER)
    assert twin.write_lists([done[-1]], None, 5, None, values, 0, 300) == 0


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("partitions", "values", "error"),
    [
        (None, [b"a", b"b", "c"], TypeError),
        (None, [b"a", b"b", memoryview(b"abc")[::2]], BufferError),
        (array("i", [0, 0, 1]), [b"a", b"b", b"c"], IndexError),
        (array("i", [0, 0, -1]), [b"a", b"b", b"c"], IndexError),
    ],
)
def test_a_bad_row_raises_when_it_comes_first(
    twin: ModuleType, partitions: Any, values: list[Any], error: type[Exception]
) -> None:
    writer = twin.BatchWriter(10_000)
    assert twin.write_lists([writer], partitions, 0, None, values, 0, 3) == 2
    assert writer.count == 2
    with pytest.raises(error):
        twin.write_lists([writer], partitions, 0, None, values, 2, 3)
    assert [record[2] for record in writer.records()] == [b"a", b"b"]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"start": -1}, ValueError),
        ({"start": 2, "stop": 1}, ValueError),
        ({"stop": 4}, ValueError),
        ({"keys": [None] * 2}, ValueError),
        ({"partitions": array("i", [0, 0])}, ValueError),
        ({"partitions": array("q", [0, 0, 0])}, TypeError),
        ({"partitions": array("f", [0, 0, 0])}, TypeError),
        ({"partitions": bytes(12)}, TypeError),
        ({"partitions": [0, 0, 0]}, TypeError),
        ({"values": iter([b""])}, TypeError),
        ({"keys": b"abc"}, TypeError),
        ({"writers": [object()]}, TypeError),
        ({"writers": []}, IndexError),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(
    twin: ModuleType, changed: dict[str, Any], error: type[Exception]
) -> None:
    arguments = {
        "writers": [twin.BatchWriter(1000)],
        "partitions": None,
        "timestamp_ms": 0,
        "keys": None,
        "values": [b"a", b"b", b"c"],
        "start": 0,
        "stop": 3,
        **changed,
    }
    with pytest.raises(error):
        twin.write_lists(*arguments.values())


@pytest.mark.parametrize("twin", TWINS)
def test_keys_choose_partitions_as_java_does(twin: ModuleType) -> None:
    keys = [b"", b"a", None, bytearray(b"ab"), memoryview(b"abc"), b"abcd", b"21", b"foobar", b"a" * 1001]
    for count in (1, 7, 2**31 - 1):
        found = twin.partitions_of_list(keys, count)
        assert type(found) is array
        assert found.typecode == "i"
        assert list(found) == [-1 if key is None else hashes.partition_for_key(key, count) for key in keys]
    for key in keys:
        if key is not None:
            assert twin.murmur2(key) == hashes.murmur2(key)
    assert twin.murmur2(b"21") == -973932308
    assert list(twin.partitions_of_list([], 3)) == []
    for count in (0, -1):
        with pytest.raises(ValueError, match="partitions"):
            twin.partitions_of_list(keys, count)
    with pytest.raises(TypeError):
        twin.partitions_of_list(["text"], 3)
    with pytest.raises(TypeError):
        twin.partitions_of_list(iter(keys), 3)


def text_column(fields: list[bytes | None], *, first: int = 0, is_large: bool = False) -> BinarySource:
    """The fields from `first` on, as a slice of the column that holds them all."""
    ends = array("q" if is_large else "i", [0])
    for field in fields:
        ends.append(ends[-1] + len(field or b""))
    bits = sum((field is not None) << row for row, field in enumerate(fields))
    validity = bits.to_bytes((len(fields) + 7) // 8, "little") if None in fields else None
    data = b"".join(field or b"" for field in fields)
    return BinarySource(len(fields) - first, first, validity, ends.tobytes(), is_large, data)


def all_columns(*, first: int = 0, is_large: bool = False) -> RecordSource:
    return RecordSource(
        text_column([b"zero", None, b"", b"three"], first=first, is_large=is_large),
        text_column([None, b"one", b"two", b""], first=first, is_large=is_large),
        HeaderSource(
            4 - first,
            first,
            b"\x0b",
            array("q" if is_large else "i", [0, 1, 1, 2, 4]).tobytes(),
            is_large,
            text_column([b"a", b"null", "ü".encode(), b""]),
            text_column([b"1", b"list", None, b"x" * 200], is_large=True),
        ),
        NumberSource(4 - first, first, b"\x0d", array("q", [10, 0, -7, 2**62]).tobytes()),
        99,
    )


COLUMN_ROWS = [
    (10, None, b"zero", (("a", b"1"),)),
    (99, b"one", None, ()),
    (-7, b"two", b"", ()),
    (2**62, b"", b"three", (("ü", None), ("", b"x" * 200))),
]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_rows_of_columns_are_records(twin: ModuleType, is_large: bool, first: int) -> None:
    columns = twin.RecordColumns(all_columns(first=first, is_large=is_large))
    expected = COLUMN_ROWS[first:]
    assert columns.row_count == len(expected)
    writer = twin.BatchWriter(10_000)
    assert twin.write_columns([writer], None, columns, 0, len(expected)) == len(expected)
    assert writer.records() == expected
    assert BatchView(writer.seal(**NO_PRODUCER)).max_timestamp == 2**62
    assert list(twin.partitions_of_columns(columns, 50)) == [
        -1 if row[1] is None else hashes.partition_for_key(row[1], 50) for row in expected
    ]


@pytest.mark.parametrize("twin", TWINS)
def test_columns_fill_many_writers(twin: ModuleType) -> None:
    columns = twin.RecordColumns(all_columns())
    writers = [twin.BatchWriter(10_000), None, twin.BatchWriter(80)]
    partitions = array("i", [0, 2, 2, 1])
    assert twin.write_columns(writers, partitions, columns, 0, 4) == 2
    assert [writer.count for writer in writers if writer] == [1, 1]
    writers[2] = twin.BatchWriter(80)
    assert twin.write_columns(writers, partitions, columns, 2, 4) == 3
    with pytest.raises(IndexError):
        twin.write_columns([], partitions, columns, 3, 4)
    for start, stop in ((-1, 4), (0, 5), (3, 2)):
        with pytest.raises(ValueError, match="rows"):
            twin.write_columns(writers, None, columns, start, stop)


@pytest.mark.parametrize("twin", TWINS)
def test_values_alone_are_enough(twin: ModuleType) -> None:
    columns = twin.RecordColumns(RecordSource(text_column([b"a", None]), None, None, None, 12))
    writer = twin.BatchWriter(10_000)
    assert twin.write_columns([writer], None, columns, 0, 2) == 2
    assert writer.records() == [(12, None, b"a", ()), (12, None, None, ())]
    assert list(twin.partitions_of_columns(columns, 3)) == [-1, -1]
    empty = twin.RecordColumns(RecordSource(BinarySource(0, 0, None, b"", False, b""), None, None, None, 0))
    assert twin.write_columns([writer], None, empty, 0, 0) == 0


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    "changed",
    [
        {"values": BinarySource(4, 0, None, bytes(19), False, b"")},
        {"values": BinarySource(4, 1, None, bytes(20), False, b"")},
        {"values": BinarySource(4, 0, None, bytes(39), True, b"")},
        {"values": BinarySource(4, 0, b"", bytes(20), False, b"")},
        {"values": BinarySource(4, 5, b"\xff", bytes(40), False, b"")},
        {"values": BinarySource(-1, 0, None, bytes(20), False, b"")},
        {"values": BinarySource(4, -1, None, bytes(20), False, b"")},
        {"values": BinarySource(2**62, 2**62, None, bytes(20), False, b"")},
        {"keys": text_column([b"a"] * 3)},
        {"timestamps": NumberSource(4, 0, None, bytes(31))},
        {"timestamps": NumberSource(3, 0, None, bytes(32))},
        {"headers": HeaderSource(4, 0, None, bytes(19), False, text_column([]), text_column([]))},
        {"headers": HeaderSource(5, 0, None, bytes(24), False, text_column([]), text_column([]))},
    ],
)
def test_columns_that_do_not_hold_their_rows_are_refused(twin: ModuleType, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        twin.RecordColumns(all_columns()._replace(**changed))


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("ends", [[0, 1, -1], [0, 1, 3], [0, 2, 1], [2**31 - 1, 2**31 - 1, 2**31 - 1], [-5, -4, -3]])
def test_a_row_beyond_its_data_is_refused(twin: ModuleType, ends: list[int]) -> None:
    column = BinarySource(2, 0, None, array("i", ends).tobytes(), False, b"ab")
    writer = twin.BatchWriter(1000)
    values = twin.RecordColumns(RecordSource(column, None, None, None, 0))
    first_bad = twin.write_columns([writer], None, values, 0, 2) if 0 <= ends[0] <= ends[1] <= 2 else 0
    assert first_bad == writer.count
    with pytest.raises(ValueError, match="beyond"):
        twin.write_columns([writer], None, values, first_bad, 2)
    names = text_column([b"a", b"b"])
    lists = HeaderSource(2, 0, None, column.ends, False, names, names)
    headers = twin.RecordColumns(RecordSource(names, None, lists, None, 0))
    with pytest.raises(ValueError, match="beyond"):
        twin.write_columns([writer], None, headers, first_bad, 2)
    keys = twin.RecordColumns(RecordSource(names, column, None, None, 0))
    with pytest.raises(ValueError, match="beyond"):
        twin.partitions_of_columns(keys, 3)


@pytest.mark.parametrize("twin", TWINS)
def test_a_header_without_a_key_is_refused(twin: ModuleType) -> None:
    names = text_column([b"a", None])
    lists = HeaderSource(2, 0, None, array("i", [0, 1, 2]).tobytes(), False, names, names)
    columns = twin.RecordColumns(RecordSource(names, None, lists, None, 0))
    writer = twin.BatchWriter(1000)
    assert twin.write_columns([writer], None, columns, 0, 2) == 1
    with pytest.raises(ValueError, match="key"):
        twin.write_columns([writer], None, columns, 1, 2)
    assert writer.count == 1


def test_the_compiled_writer_leaks_no_references() -> None:
    key, value, name = bytes(bytearray(b"key 1")), bytearray(b"value"), "".join(["he", "ader"])
    before = [sys.getrefcount(thing) for thing in (key, value, name)]
    for _ in range(50):
        writer = _writer.BatchWriter(1000)
        writer.append(0, key, value, [(name, value)])
        with pytest.raises(TypeError):
            writer.append(0, value, 5)  # type: ignore[arg-type]
        _writer.write_lists([writer], None, 0, [key, value], [value, value], 0, 2)
        with pytest.raises(TypeError):
            _writer.write_lists([writer], None, 0, [value], [5], 0, 1)  # type: ignore[list-item]
        _writer.partitions_of_list([key, value, None], 3)
        _writer.RecordColumns(RecordSource(text_column([b"a"])._replace(data=value), None, None, None, 0))
        writer.records()
        writer.seal(**PRODUCER)
    del writer
    gc.collect()
    assert [sys.getrefcount(thing) for thing in (key, value, name)] == before
    value.append(0)


@pytest.mark.parametrize("twin", TWINS)
def test_a_stopped_batch_takes_no_more_and_can_be_sealed(twin: ModuleType) -> None:
    writer = twin.BatchWriter(1_000)
    writer.append(5, None, b"first")
    writer.stop()
    assert writer.append(5, None, b"") == -1
    assert writer.append(5, None, b"second") == -1
    sealed = writer.seal(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=False)
    assert bytes(sealed)[57:61] == (1).to_bytes(4, "big")
