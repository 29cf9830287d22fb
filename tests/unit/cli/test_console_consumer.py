"""Records to lines: deserializers as Java prints them, and formatters."""

import math
import struct

import pytest

from levada.cli.console_consumer.coordinator_formatters import COORDINATOR_FORMATTERS
from levada.cli.console_consumer.deserializers import (
    PACKAGE,
    Undeserializable,
    java_double,
    java_float,
    text_deserializer,
)
from levada.cli.console_consumer.formatters import NoFormatter, Unprintable, formatter_named
from levada.cli.kit.refusals import Refused
from levada.records import ConsumerRecord

DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"


def record(key: bytes | None, value: bytes | None, timestamp_type: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", 3, 7, 1_000, timestamp_type, key, value, (), 5)


def written(formatter: str, one: ConsumerRecord, **properties: str) -> bytes:
    out = bytearray()
    formatter_named(formatter, {name.replace("_", "."): value for name, value in properties.items()}).write(one, out)
    return bytes(out)


# As Java's Double.toString and Float.toString have them.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (100.0, "100.0"),
        (123456.789, "123456.789"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_are_spelled_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (16777216.0, "1.6777216E7"),
        (3.4028235e38, "3.4028235E38"),
        (1e-3, "0.001"),
        (1 / 3, "0.33333334"),
        (1e-45, "1.4E-45"),
    ],
)
def test_floats_have_as_few_digits_as_tell_them_apart(value: float, text: str) -> None:
    (rounded,) = struct.unpack(">f", struct.pack(">f", value))
    assert java_float(rounded) == text


@pytest.mark.parametrize(
    ("name", "data"),
    [("Integer", b"123"), ("Long", b""), ("Boolean", b"\2"), ("UUID", b"123"), ("Void", b""), ("Double", b"1")],
)
def test_what_a_deserializer_does_not_take_is_said(name: str, data: bytes) -> None:
    to_text = text_deserializer(f"{PACKAGE}{name}Deserializer", {}, "value")
    assert to_text is not None
    with pytest.raises(Undeserializable):
        to_text(data)


def test_text_that_is_not_utf8_is_replaced() -> None:
    to_text = text_deserializer(f"{PACKAGE}StringDeserializer", {}, "value")
    assert to_text is not None
    assert to_text(b"a\xffb") == "a\N{REPLACEMENT CHARACTER}b"


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(Refused, match="no encoding 'klingon'"):
        text_deserializer(
            f"{PACKAGE}StringDeserializer", {"value.deserializer.deserializer.encoding": "klingon"}, "value"
        )


def test_values_are_printed_byte_for_byte() -> None:
    assert written(DEFAULT, record(b"k", b"\xff\x00")) == b"\xff\x00\n"


def test_log_append_time_is_named() -> None:
    assert written(DEFAULT, record(None, b"v", 1), print_timestamp="true") == b"LogAppendTime:1000\tv\n"


def test_what_was_written_before_a_bad_field_stays() -> None:
    formatter = formatter_named(DEFAULT, {"print.key": "true", "value.deserializer": f"{PACKAGE}IntegerDeserializer"})
    out = bytearray()
    with pytest.raises(Unprintable, match="the value of the record at offset 7 of t-3"):
        formatter.write(record(b"k", b"no"), out)
    assert out == b"k\t"


@pytest.mark.parametrize("name", ["kafka.tools.NoOpMessageFormatter", "NoOpMessageFormatter"])
def test_formatters_are_known_by_their_older_names(name: str) -> None:
    assert isinstance(formatter_named(name, {}), NoFormatter)


def test_the_offsets_formatter_is_known_by_the_name_in_old_books() -> None:
    name = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
    assert written(name, record(None, b"")) == b""


def test_a_damaged_record_of_a_coordinator_is_said() -> None:
    with pytest.raises(Unprintable, match="offset 7 of t"):
        COORDINATOR_FORMATTERS["OffsetsMessageFormatter"]().write(record(b"\0\1\0\5abc", None), bytearray())


def test_a_deleted_offset_has_no_value() -> None:
    key = b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\2"
    text = b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":2}},"value":null}'
    assert written("OffsetsMessageFormatter", record(key, None)) == text
