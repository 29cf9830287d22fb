"""Keys and values to bytes and back."""

from typing import Any

import pytest

from levada.client.errors import ConfigurationError, SerializationFailed
from levada.client.serializers import deserialize, resolve_deserializer, resolve_serializer, serialize

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"raw", b"raw"),
        ("str", "gr\u00fc\u00dfe", b"gr\xc3\xbc\xc3\x9fe"),
        ("json", {"a": [1, None, "\u00e4"]}, b'{"a":[1,null,"\xc3\xa4"]}'),
        ("int", 1, b"\0\0\0\1"),
        ("int", -1, b"\xff\xff\xff\xff"),
        ("long", 1, b"\0\0\0\0\0\0\0\1"),
        ("short", 258, b"\1\2"),
        ("float", 1.5, b"\x3f\xc0\0\0"),
        ("double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        (f"{JAVA}String*", "a", b"a"),
        (f"{JAVA}ByteArray*", b"a", b"a"),
        (f"{JAVA}Integer*", 1, b"\0\0\0\1"),
        (f"{JAVA}Long*", 1, b"\0\0\0\0\0\0\0\1"),
        (str, "a", b"a"),
        (bytes, b"a", b"a"),
        (int, 1, b"\0\0\0\1"),
    ],
)
def test_a_name_goes_both_ways(name: object, value: object, data: bytes) -> None:
    there, back = (
        (name, name) if not isinstance(name, str) else (name.replace("*", s) for s in ("Serializer", "Deserializer"))
    )
    assert serialize(resolve_serializer(there), value, "orders") == data
    assert deserialize(resolve_deserializer(back), data, "orders", 0, 0) == value


def test_bytes_pass_through_as_they_are() -> None:
    raw = b"raw"
    for given in (None, "bytes", bytes):
        assert resolve_serializer(given) is None
        assert resolve_deserializer(given) is None
    assert serialize(None, raw, "orders") is raw
    assert serialize(None, bytearray(raw), "orders") == raw
    assert serialize(None, memoryview(raw), "orders") == raw
    assert deserialize(None, raw, "orders", 0, 0) is raw


def test_nothing_is_nothing_on_either_side() -> None:
    def never(value: Any) -> bytes:
        raise AssertionError

    assert serialize(never, None, "orders") is None
    assert deserialize(never, None, "orders", 0, 0) is None


def test_ones_own_callables_are_taken_as_they_are() -> None:
    assert resolve_serializer(str.encode) is str.encode
    assert serialize(str.encode, "a", "orders") == b"a"
    own: Any = bytearray
    assert serialize(own, b"a", "orders") == b"a"
    assert serialize(lambda value: None, "a", "orders") is None
    assert deserialize(bytes.decode, b"a", "orders", 0, 0) == "a"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            None,
            "text",
            "TypeError: a str is not bytes; encode it, or give the producer a serializer: key_serializer=str.encode",
        ),
        (None, 7, "a int is not bytes"),
        ("str", b"raw", "a bytes is not a str"),
        ("str", "\ud800", "UnicodeEncodeError"),
        ("int", 2**31, "could not be serialized: error: 'i' format"),
        ("int", "7", "error"),
        ("json", object(), "not JSON serializable"),
    ],
)
def test_what_cannot_be_serialized_names_the_topic_and_the_reason(name: object, value: object, message: str) -> None:
    with pytest.raises(SerializationFailed) as caught:
        serialize(resolve_serializer(name), value, "orders", "key")
    assert str(caught.value).startswith("the key of a record for topic 'orders' could not be serialized: ")
    assert message in str(caught.value)
    assert caught.value.topic == "orders"
    assert caught.value.__cause__ is not None


def test_a_serializer_that_returns_no_bytes_is_told_so() -> None:
    serializer: Any = str
    with pytest.raises(SerializationFailed, match="the value serializer for topic 'orders' must return bytes, not str"):
        serialize(serializer, 7, "orders")


def test_a_record_that_cannot_be_deserialized_can_be_passed_over() -> None:
    with pytest.raises(SerializationFailed) as caught:
        deserialize(resolve_deserializer("int"), b"toolong", "orders", 3, 41, "key")
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 3, 41)
    assert "the key of the record at offset 41 of orders-3 could not be deserialized" in str(caught.value)
    assert "seek to 42" in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        "avro",
        "",
        f"{JAVA}UUIDSerializer",
        f"{JAVA}StringDeserializer",
        f"{JAVA}String",
        f"{JAVA}str",
        "StringSerializer",
        "io.x.StringSerializer",
        7,
    ],
)
def test_a_serializer_that_is_not_known_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="must be"):
        resolve_serializer(wrong)
