"""Java's deserializers by the names of their classes: bytes to the text that Java prints for what they stand for."""

import codecs
import math
import re
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, TypeAlias

from levada.cli.kit.refusals import Refused

ToText: TypeAlias = Callable[[bytes], str]

PACKAGE: Final = "org.apache.kafka.common.serialization."
UUID_TEXT: Final = re.compile(r"[0-9A-Fa-f]{1,8}-[0-9A-Fa-f]{1,4}-[0-9A-Fa-f]{1,4}-[0-9A-Fa-f]{1,4}-[0-9A-Fa-f]{1,12}")
UUID_WIDTHS: Final = (8, 4, 4, 4, 12)

LARGEST_PLAIN: Final = 1e7
SMALLEST_PLAIN: Final = 1e-3
FLOAT_DIGITS: Final = 9
"""So many are enough for any float of 32 bits."""


class Undeserializable(ValueError):
    """The bytes are not what the deserializer takes; the text says what they should be."""


def text_deserializer(name: str, properties: Mapping[str, str], field: str) -> ToText | None:
    """The one of this class, as `key.deserializer` names it; None where bytes stay as they are.

    `field` is "key", "value" or "headers"; properties below `key.deserializer.` are the deserializer's own.
    """
    short = name.strip().removeprefix(PACKAGE).removesuffix("Deserializer")
    if short in ("String", "UUID"):
        decode = _decoder(properties, field)
        return decode if short == "String" else lambda data: _uuid(decode(data))
    if short not in _TO_TEXT:
        known = ", ".join(sorted((*_TO_TEXT, "String", "UUID")))
        raise Refused(f"there is no {field} deserializer {name} here, only {PACKAGE}...Deserializer of: {known}")
    return _TO_TEXT[short]


def java_double(value: float) -> str:
    """
    >>> java_double(3.0), java_double(1e7), java_double(0.00012)
    ('3.0', '1.0E7', '1.2E-4')
    """
    return _java_number(value, repr(value))


def java_float(value: float) -> str:
    """The shortest text that is read as the same 32 bits."""
    if math.isfinite(value):
        for digits in range(1, FLOAT_DIGITS + 1):
            text = f"{value:.{digits}g}"
            if _is_same_float(float(text), value):
                return _java_number(value, repr(float(text)))
    return _java_number(value, repr(value))


def _is_same_float(one: float, other: float) -> bool:
    try:
        return _FLOAT.pack(one) == _FLOAT.pack(other)
    except OverflowError:
        # Rounded up beyond the largest one.
        return False


def _java_number(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _digits(shortest.removeprefix("-"))
    if len(digits) == 1:
        # Java has two digits at least, and then the nearest two: 4.9E-324.
        digits, exponent = _digits(f"{abs(value):.1e}")
    if SMALLEST_PLAIN <= abs(value) < LARGEST_PLAIN:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(text: str) -> tuple[str, int]:
    """The digits that count, and the power of ten of the first.

    >>> _digits("123.0"), _digits("1.5e-07")
    (('123', 2), ('15', -7))
    """
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    return digits.strip("0"), len(whole) - 1 - leading + int(power or 0)


def _decoder(properties: Mapping[str, str], field: str) -> ToText:
    own = f"{field}.deserializer."
    which = "key" if field == "key" else "value"
    encoding = (
        properties.get(f"{own}{which}.deserializer.encoding")
        or properties.get(f"{own}deserializer.encoding")
        or "utf-8"
    )
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise Refused(f"there is no encoding {encoding!r} for the {field} deserializer") from None
    return lambda data: data.decode(encoding, errors="replace")


def _number(layout: str, kind: str, spell: Callable[[float], str] = str) -> ToText:
    packed = Struct(layout)

    def to_text(data: bytes) -> str:
        if len(data) != packed.size:
            raise Undeserializable(f"{kind} takes {packed.size} bytes, not {len(data)}")
        return spell(packed.unpack(data)[0])

    return to_text


def _uuid(text: str) -> str:
    if UUID_TEXT.fullmatch(text) is None:
        raise Undeserializable(f"{text!r} is no UUID")
    return "-".join(part.zfill(width) for part, width in zip(text.lower().split("-"), UUID_WIDTHS))


def _boolean(data: bytes) -> str:
    if data not in (b"\0", b"\1"):
        raise Undeserializable("a Boolean takes one byte, 0 or 1")
    return "true" if data == b"\1" else "false"


def _void(data: bytes) -> str:
    raise Undeserializable("Void takes nothing, not even nothing's literal")


def _escaped(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x5C else f"\\x{byte:02X}" for byte in data)


def _buffer(data: bytes) -> str:
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]"


_FLOAT: Final = Struct(">f")

_TO_TEXT: Final[dict[str, ToText | None]] = {
    "Boolean": _boolean,
    # Java prints where the array lies in memory.
    "ByteArray": None,
    "ByteBuffer": _buffer,
    "Bytes": _escaped,
    "Double": _number(">d", "a Double", java_double),
    "Float": _number(">f", "a Float", java_float),
    "Integer": _number(">i", "an Integer"),
    "Long": _number(">q", "a Long"),
    "Short": _number(">h", "a Short"),
    "Void": _void,
}
