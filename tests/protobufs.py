"""Protobuf schemas for tests as registries give them, made without a compiler."""

from base64 import b64encode
from typing import Any

from google.protobuf import descriptor_pb2, text_format


def protobuf(text: str) -> str:
    """A FileDescriptorProto in Protobuf's text format, as the base64 of a registry."""
    proto: Any = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    written: bytes = proto.SerializeToString()
    return b64encode(written).decode()


def field(name: str, number: int, kind: str, more: str = "") -> str:
    """`kind` is Protobuf's word, such as int32; a name with a dot is a message."""
    kind = f'TYPE_MESSAGE type_name: "{kind}"' if kind.startswith(".") else f"TYPE_{kind.upper()}"
    label = "" if "label:" in more else "label: LABEL_OPTIONAL"
    return f'field {{ name: "{name}" number: {number} {label} type: {kind} {more} }}'


REPEATED = "label: LABEL_REPEATED"

SHOP = f"""
name: "shop.proto" package: "shop" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/wrappers.proto" dependency: "rules.proto"
message_type {{
  name: "Order"
  {field("id", 1, "string")}
  {field("amount", 2, "double")}
  {field("count", 3, "int32", "oneof_index: 0 proto3_optional: true")}
  {field("big", 4, "uint64")}
  {field("small", 5, "uint32")}
  {field("raw", 6, "bytes")}
  {field("paid", 7, "bool")}
  {field("state", 8, "enum", 'type_name: ".shop.State"')}
  {field("items", 9, ".shop.Order.Item", REPEATED)}
  {field("tags", 10, "string", REPEATED)}
  {field("counts", 11, ".shop.Order.CountsEntry", REPEATED)}
  {field("at", 12, ".google.protobuf.Timestamp")}
  {field("took", 13, ".google.protobuf.Duration")}
  {field("note", 14, ".google.protobuf.StringValue")}
  {field("by_name", 15, ".shop.Order.ByNameEntry", REPEATED)}
  nested_type {{ name: "CountsEntry" options {{ map_entry: true }}
    {field("key", 1, "string")} {field("value", 2, "int64")} }}
  nested_type {{ name: "Item" {field("sku", 1, "string")} }}
  nested_type {{ name: "ByNameEntry" options {{ map_entry: true }}
    {field("key", 1, "string")} {field("value", 2, ".shop.Order.Item")} }}
  oneof_decl {{ name: "_count" }}
}}
message_type {{ name: "Refund" {field("id", 1, "string")} }}
enum_type {{ name: "State" value {{ name: "NEW" number: 0 }} value {{ name: "PAID" number: 1 }} }}
"""
"""With an import for options alone, as many have, that no registry knows."""
