"""Writes and reads orders with the serializers of confluent-kafka, in an environment that has them.

Those are loaded late: the tests, which take the constants, do not have all that they need.

`python serializers.py write|read BOOTSTRAP REGISTRY TOPIC FORMAT`; what is read is printed, a JSON object on each line.
"""

import json
import sys
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, text_format

ORDERS = [{"id": "a", "amount": 1.5, "count": 3}, {"id": "b", "amount": -2.0, "count": 0}]
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "count", "type": ["null", "int"], "default": None},
        ],
    }
)
JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "string"}, "amount": {"type": "number"}, "count": {"type": "integer"}},
        "required": ["id"],
    }
)
FILE = """
name: "shop/order.proto" package: "shop" syntax: "proto3"
message_type { name: "Other" field { name: "x" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
message_type { name: "Order"
  field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "amount" number: 2 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "count" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
}
"""
"""The message that is written is not the first, so that its index is."""


def order_class() -> Any:
    file = text_format.Parse(FILE, descriptor_pb2.FileDescriptorProto())
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("shop.Order"))


def write(bootstrap: str, registry: str, topic: str, format: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": registry, "timeout": 30})
    context = SerializationContext(topic, MessageField.VALUE)
    serializer: Any
    if format == "avro":
        serializer = AvroSerializer(client, AVRO)
    elif format == "json":
        serializer = JSONSerializer(JSON, client)
    else:
        serializer = ProtobufSerializer(order_class(), client, {"use.deprecated.format": False})
    producer = Producer({"bootstrap.servers": bootstrap})
    for order in ORDERS:
        given = json_format.ParseDict(order, order_class()()) if format == "protobuf" else order
        producer.produce(topic, serializer(given, context))
    assert producer.flush(30) == 0


def read(bootstrap: str, registry: str, topic: str, format: str) -> None:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": registry, "timeout": 30})
    context = SerializationContext(topic, MessageField.VALUE)
    deserializer: Any
    if format == "avro":
        deserializer = AvroDeserializer(client, AVRO)
    elif format == "json":
        deserializer = JSONDeserializer(JSON, schema_registry_client=client)
    else:
        # It would ask for the schema as a descriptor, which Apicurio cannot give of one that is a descriptor already.
        asked = None if "/apis/ccompat/" in registry else client
        deserializer = ProtobufDeserializer(order_class(), {"use.deprecated.format": False}, asked)
    settings = {"bootstrap.servers": bootstrap, "group.id": "interop", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in ORDERS:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message.error()
        found = deserializer(message.value(), context)
        if format == "protobuf":
            found = {"id": found.id, "amount": found.amount, "count": found.count}
        print(json.dumps(found))
    consumer.close()


if __name__ == "__main__":
    _, command, bootstrap, registry, topic, format = sys.argv
    {"write": write, "read": read}[command](bootstrap, registry, topic, format)
