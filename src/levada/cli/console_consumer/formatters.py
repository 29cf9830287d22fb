"""How a record becomes bytes on stdout: Kafka's message formatters, by the names of their classes."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from levada.cli.console_consumer.deserializers import Undeserializable, text_deserializer
from levada.cli.kit.refusals import Refused

if TYPE_CHECKING:
    from levada.records import ConsumerRecord

DEFAULT: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
TIMESTAMP_TYPES: Final = {0: b"CreateTime", 1: b"LogAppendTime"}


class Unprintable(Exception):
    """A record is not what the formatter takes; the text says why."""


class Formatter(Protocol):
    def write(self, record: "ConsumerRecord", out: bytearray) -> None:
        """Append a record; what was appended before Unprintable is raised counts as printed."""


class DefaultFormatter:
    """The fields that are asked for, with separators between them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._key = _Field("key", properties)
        self._value = _Field("value", properties)
        self._headers = _Field("headers", properties)
        self._column_end = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        writers: dict[str, Callable[[ConsumerRecord, bytearray], None]] = {
            "print.timestamp": _write_timestamp,
            "print.partition": _write_partition,
            "print.offset": _write_offset,
            "print.delivery": _write_delivery,
            "print.epoch": _write_epoch,
            "print.headers": self._write_headers,
            "print.key": lambda record, out: self._key.write(record, record.key, out),
            "print.value": lambda record, out: self._value.write(record, record.value, out),
        }
        asked_for = [write for name, write in writers.items() if _is_true(properties, name, name == "print.value")]
        # Each field has what comes after it: another field, or the end of the line.
        ends = [self._column_end] * (len(asked_for) - 1) + [self._line_end]
        self._columns = list(zip(asked_for, ends))

    def write(self, record: "ConsumerRecord", out: bytearray) -> None:
        for write, end in self._columns:
            write(record, out)
            out += end

    def _write_headers(self, record: "ConsumerRecord", out: bytearray) -> None:
        if not record.headers:
            out += b"NO_HEADERS"
        for place, (name, content) in enumerate(record.headers):
            if place:
                out += self._headers_separator
            out += name.encode() + b":"
            self._headers.write(record, content, out)


class LoggingFormatter:
    """As the default, and a line on stderr for each record."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._default = DefaultFormatter(properties)

    def write(self, record: "ConsumerRecord", out: bytearray) -> None:
        self._default.write(record, out)
        kind = TIMESTAMP_TYPES[record.timestamp_type].decode()
        key = "null " if record.key is None else f"{record.key.decode(errors='replace')}, "
        value = "null" if record.value is None else record.value.decode(errors="replace")
        print(f"{kind}:{record.timestamp_ms}, key:{key}value:{value}", file=sys.stderr)


class NoFormatter:
    """Prints nothing: reading alone is what is wanted."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def write(self, record: "ConsumerRecord", out: bytearray) -> None:
        pass


def formatter_named(name: str, properties: Mapping[str, str]) -> Formatter:
    """By the name of Java's class; the packages that it was in before are no matter."""
    short = name.replace("$", ".").rpartition(".")[2]
    if short in _FORMATTERS:
        return _FORMATTERS[short](properties)
    # Imported only here: it needs the coordinators' records.
    from levada.cli.console_consumer.coordinator_formatters import COORDINATOR_FORMATTERS

    if short in COORDINATOR_FORMATTERS:
        return COORDINATOR_FORMATTERS[short]()
    known = ", ".join((*_FORMATTERS, *COORDINATOR_FORMATTERS))
    raise Refused(f"there is no formatter {name} here, only org.apache.kafka.tools.consumer. with one of: {known}")


_FORMATTERS: Final[dict[str, Callable[[Mapping[str, str]], Formatter]]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "LoggingMessageFormatter": LoggingFormatter,
    "NoOpMessageFormatter": NoFormatter,
}


class _Field:
    """A key, a value or the content of a header."""

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self._name = name
        self._null = properties.get("null.literal", "null").encode()
        chosen = properties.get(f"{name}.deserializer")
        self._to_text = None if chosen is None else text_deserializer(chosen, properties, name)

    def write(self, record: "ConsumerRecord", data: bytes | None, out: bytearray) -> None:
        # Java's formatter hands even the literal to the deserializer, so that a null Integer is 1853189228.
        shown = self._null if data is None else data
        if self._to_text is None:
            out += shown
            return
        try:
            out += self._to_text(shown).encode(errors="replace")
        except Undeserializable as error:
            raise Unprintable(
                f"cannot print the {self._name} of the record at offset {record.offset} of"
                f" {record.topic}-{record.partition}: {error}"
            ) from None


def _write_timestamp(record: "ConsumerRecord", out: bytearray) -> None:
    out += b"%s:%d" % (TIMESTAMP_TYPES[record.timestamp_type], record.timestamp_ms)


def _write_partition(record: "ConsumerRecord", out: bytearray) -> None:
    out += b"Partition:%d" % record.partition


def _write_offset(record: "ConsumerRecord", out: bytearray) -> None:
    out += b"Offset:%d" % record.offset


def _write_delivery(record: "ConsumerRecord", out: bytearray) -> None:
    # Only share groups count deliveries.
    out += b"Delivery:NOT_PRESENT"


def _write_epoch(record: "ConsumerRecord", out: bytearray) -> None:
    # Kafka's tool drops the epoch before it comes to this.
    out += b"Epoch:NOT_PRESENT"


def _is_true(properties: Mapping[str, str], name: str, default: bool) -> bool:
    return properties[name].strip().lower() == "true" if name in properties else default
