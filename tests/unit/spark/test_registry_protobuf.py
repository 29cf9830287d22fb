"""Protobuf messages as Spark's fields and back, without Spark."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry.protobuf_types import MessageType, file_of, message_type, messages_of
from levada.spark.rows.registry.protobuf_values import _message_class, fill, parsed
from levada.spark.rows.registry.subjects import Registered
from tests.protobufs import REPEATED, SHOP, field, protobuf

ORDER: dict[str, Any] = {
    "id": "a",
    "amount": 1.5,
    "count": 0,
    "big": Decimal(2**64 - 1),
    "small": 2**32 - 1,
    "raw": b"\x00\xff",
    "paid": True,
    "state": "PAID",
    "items": [{"sku": "x"}, {"sku": "y"}],
    "tags": ["t"],
    "counts": {"k": 2**60},
    "at": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "took": timedelta(days=-1, microseconds=-5),
    "note": "n",
    "by_name": {"z": {"sku": "z"}},
}
EMPTY: dict[str, Any] = {
    **dict.fromkeys(ORDER, None),
    "id": "",
    "amount": 0.0,
    "big": Decimal(0),
    "small": 0,
    "raw": b"",
    "paid": False,
    "state": "NEW",
    "items": [],
    "tags": [],
    "counts": {},
    "by_name": {},
}


def message_of(text: str, name: str | None = None, references: tuple[tuple[str, str], ...] = ()) -> MessageType:
    return message_type(Registered(1, "PROTOBUF", protobuf(text), references), name)


def made(message: MessageType) -> Any:
    return _message_class(message.text, message.references, message.name)()


def read_as(message: MessageType, data: bytes) -> dict[str, Any]:
    return with_maps(parsed(made(message), data))


def with_maps(record: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if name in ("counts", "by_name") else value for name, value in record.items()}


def written(message: MessageType, record: dict[str, Any]) -> bytes:
    filled = made(message)
    fill(filled, record)
    data: bytes = filled.SerializeToString()
    return data


def test_types_are_sparks_and_what_can_be_absent_may_be_null() -> None:
    order = message_of(SHOP)
    assert order.struct.simpleString() == (
        "struct<id:string,amount:double,count:int,big:decimal(20,0),small:bigint,raw:binary,paid:boolean,state:string,"
        "items:array<struct<sku:string>>,tags:array<string>,counts:map<string,bigint>,at:timestamp,"
        "took:interval day to second,note:string,by_name:map<string,struct<sku:string>>>"
    )
    assert [each.name for each in order.struct.fields if each.nullable] == ["count", "at", "took", "note"]


def test_a_message_comes_back_as_it_was() -> None:
    order = message_of(SHOP)
    assert read_as(order, written(order, ORDER)) == ORDER
    assert read_as(order, b"") == EMPTY


def test_parts_of_a_microsecond_are_cut_towards_zero() -> None:
    minus_one_nanosecond = b"\x6a\x0b\x10" + b"\xff" * 9 + b"\x01"
    assert read_as(message_of(SHOP), minus_one_nanosecond)["took"] == timedelta(0)


def test_null_is_a_field_that_is_not_set() -> None:
    order = message_of(SHOP)
    assert written(order, dict.fromkeys(ORDER, None)) == b""
    assert written(order, {"count": 0}) == b"\x18\x00"


def test_a_message_is_chosen_by_its_name_and_the_first_without_one() -> None:
    assert (message_of(SHOP).name, message_of(SHOP).indexes) == ("shop.Order", (0,))
    assert message_of(SHOP, "Refund").indexes == message_of(SHOP, "shop.Refund").indexes == (1,)
    with pytest.raises(RowsError, match=r"has no message 'Payment'; it has shop\.Order, shop\.Refund"):
        message_of(SHOP, "Payment")


def test_messages_inside_are_numbered_as_java_does_and_as_python_does() -> None:
    messages = messages_of(file_of(protobuf(SHOP), ()))
    assert messages == {
        (0,): "shop.Order",
        (1,): "shop.Refund",
        (0, 0): "shop.Order.Item",
        (0, 1): "shop.Order.Item",
    }
    assert message_of(SHOP, "Item").indexes == (0, 0)


@pytest.mark.parametrize(
    ("kind", "data"),
    [("int64", b"\x0a\x01a"), ("string", b"\x08\x01")],
)
def test_a_field_of_another_type_is_refused_rather_than_lost(kind: str, data: bytes) -> None:
    message = message_of(f'name: "a" syntax: "proto3" message_type {{ name: "A" {field("x", 1, kind)} }}')
    with pytest.raises(ValueError, match="field 'x' was written with another type"):
        read_as(message, data)


def test_fields_that_are_not_known_are_left_out() -> None:
    younger = (
        f'name: "a" syntax: "proto3" message_type {{ name: "A" {field("x", 1, "string")} {field("y", 2, "int32")} }}'
    )
    older = f'name: "a" syntax: "proto3" message_type {{ name: "A" {field("x", 1, "string")} }}'
    assert read_as(message_of(older), written(message_of(younger), {"x": "a", "y": 3})) == {"x": "a"}
    assert read_as(message_of(younger), written(message_of(older), {"x": "a"})) == {"x": "a", "y": 0}


def test_a_number_without_a_name_in_its_enum_is_refused() -> None:
    with pytest.raises(ValueError, match="field 'state' has the number 7, which its enum has no name for"):
        read_as(message_of(SHOP), b"\x40\x07")


def test_fields_of_old_schemas_have_their_defaults_and_must_be_there() -> None:
    old = f"""name: "a" message_type {{ name: "A" {field("x", 1, "int32", 'default_value: "7"')}
              {field("y", 2, "string", "label: LABEL_REQUIRED")} {field("z", 3, "string")} }}"""
    message = message_of(old)
    assert [each.nullable for each in message.struct.fields] == [False, False, True]
    assert message.required == {"y"}
    assert read_as(message, b"\x12\x01b") == {"x": 7, "y": "b", "z": None}
    with pytest.raises(ValueError, match="required fields are missing: y"):
        read_as(message, b"\x08\x01")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"state": "GONE"}, "field 'state': its enum has no 'GONE'"),
        ({"tags": ["a", None]}, "field 'tags': a part of it is null"),
        ({"counts": {"a": None}}, "field 'counts': a part of it is null"),
        ({"small": -1}, "field 'small': Value out of range"),
        ({"count": "many"}, "field 'count': 'str' object cannot be interpreted as an integer"),
        ({"items": [{"sku": 7}]}, "field 'items': field 'sku': "),
        ({"at": "noon"}, "field 'at': "),
    ],
)
def test_a_row_that_does_not_fit_the_message_is_refused(record: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        written(message_of(SHOP), record)


def test_schemas_that_refer_to_others_are_put_together() -> None:
    other = 'name: "x" package: "o" syntax: "proto3" message_type { name: "P" ' + field("n", 1, "int32") + " }"
    own = f"""name: "y" syntax: "proto3" dependency: "other/place.proto"
              message_type {{ name: "A" {field("place", 1, ".o.P", REPEATED)} }}"""
    message = message_of(own, references=(("other/place.proto", protobuf(other)),))
    assert message.struct.simpleString() == "struct<place:array<struct<n:int>>>"
    with pytest.raises(RowsError, match=r"imports 'other/place\.proto', which is not among its references"):
        message_of(own)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'name: "a" syntax: "proto3" message_type {{ name: "A" {field("a", 1, ".A")} }}', "'A' contains itself"),
        ('name: "a" syntax: "proto3" message_type { name: "A" }', "'A' has no fields"),
        ('name: "a" syntax: "proto3"', "it has none"),
        (f'name: "a" syntax: "proto3" message_type {{ name: "A" {field("a", 1, ".B")} }}', "cannot be used"),
    ],
)
def test_messages_that_no_table_can_show_are_refused(text: str, said: str) -> None:
    with pytest.raises(RowsError, match=said) as raised:
        message_of(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ['syntax = "proto3"; message A { string id = 1; }', "AAAA", ""])
def test_a_registry_without_descriptors_is_named(text: str) -> None:
    with pytest.raises(RowsError, match=r"gives no descriptors|cannot be used|it has none"):
        message_type(Registered(1, "PROTOBUF", text), None)
