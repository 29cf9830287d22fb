"""Values behind schema ids as columns: what they are read as, and how."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StructType

from levada.spark.rows import arrow_values, json_values
from levada.spark.rows.arrow_values import PROBLEM, VALUE, ReadOne
from levada.spark.rows.avro_schemas import avro_schema
from levada.spark.rows.problems import RowsError, one_of
from levada.spark.rows.registry import avro
from levada.spark.rows.registry.address import Registry, SchemaSource
from levada.spark.rows.registry.framing import PREFIX_BYTES, NotFramed, schema_id_of
from levada.spark.rows.registry.json_schemas import is_json_schema, json_struct, json_text
from levada.spark.rows.registry.protobuf_types import MessageType, message_type, require_protobuf
from levada.spark.rows.registry.requests import REQUEST_S
from levada.spark.rows.registry.subjects import KINDS, Registered, latest, looked_up, schema_by_id
from levada.spark.rows.registry.writers import Unusable, writer_schemas

PAYLOAD: Final = "_payload"


@dataclass(frozen=True, slots=True)
class Reading:
    """What values are read as: a struct of `value` and `problem`, in a second step where the first gives a payload."""

    struct: StructType
    decoded: Callable[[Column], Column]
    payload: Callable[[Column], Column] | None = None

    def applied(self, frame: DataFrame, value: Column, parsed: str) -> tuple[DataFrame, Column]:
        """The frame with the struct as the column `parsed`, and what is wrong with a value."""
        if self.payload is None:
            return frame.withColumn(parsed, self.decoded(value)), sf.col(parsed)[PROBLEM]
        # Behind a column of its own, as functions in Python cannot stand inside of Spark's.
        with_payload = frame.withColumn(PAYLOAD, self.payload(value))
        found = with_payload.withColumn(parsed, self.decoded(sf.col(PAYLOAD)[VALUE]))
        return found, sf.coalesce(sf.col(PAYLOAD)[PROBLEM], sf.col(parsed)[PROBLEM])


def reading_of(source: SchemaSource, format: str, schema: Any, limit_s: float = REQUEST_S) -> Reading:
    """By the given schema, else by the latest version of the subject; RowsError if there is none, or it cannot be."""
    one_of("the format of a read with a registry", format, tuple(KINDS))
    if source.message is not None and format != "protobuf":
        raise RowsError(f"message is for format 'protobuf': leave it out with {format!r}")
    return READINGS[format](source, schema, limit_s)


def message_of(source: SchemaSource, schema: Any, limit_s: float = REQUEST_S) -> tuple[MessageType, int] | None:
    """The message and the id of its schema: the latest, or the given one; None if that is not registered."""
    require_protobuf()
    kind, subject = KINDS["protobuf"], source.named_subject()
    if schema is None:
        registered = latest(source.registry, subject, kind, limit_s)
    else:
        if not isinstance(schema, str):
            raise RowsError("format 'protobuf' needs a schema as text, as it is in a .proto file")
        schema_id = looked_up(source.registry, subject, kind, schema, limit_s)
        if schema_id is None:
            return None
        registered = schema_by_id(source.registry, schema_id, kind, limit_s)
    return message_type(registered, source.message), registered.id


def _avro(source: SchemaSource, schema: Any, limit_s: float) -> Reading:
    if schema is None:
        schema = avro.whole_text(latest(source.registry, source.named_subject(), KINDS["avro"], limit_s))
    wanted = avro_schema(schema)
    return Reading(wanted.struct, partial(avro.decoded, wanted=wanted, registry=source.registry))


def _json(source: SchemaSource, schema: Any, limit_s: float) -> Reading:
    if schema is None:
        found = latest(source.registry, source.named_subject(), KINDS["json"], limit_s)
        struct = json_struct(found.text, found.references)
    elif is_json_schema(schema):
        struct = json_struct(json_text(schema))
    else:
        from levada.spark.rows.reading import struct_of

        struct = struct_of(schema, "read")
    payload = partial(arrow_values.decoded, kind=BinaryType(), make_reader=partial(_payload_reader, source.registry))
    return Reading(struct, partial(_json_decoded, struct=struct), payload)


def _protobuf(source: SchemaSource, schema: Any, limit_s: float) -> Reading:
    from levada.spark.rows.registry import protobuf_values

    found = message_of(source, schema, limit_s)
    if found is None:
        raise RowsError(
            f"the subject {source.subject!r} does not have this Protobuf schema: register it, or leave schema out for "
            "its latest one"
        )
    wanted, _ = found
    decoded = partial(protobuf_values.decoded, wanted=wanted, registry=source.registry)
    return Reading(wanted.struct, decoded)


READINGS: Final[dict[str, Callable[[SchemaSource, Any, float], Reading]]] = {
    "avro": _avro,
    "json": _json,
    "protobuf": _protobuf,
}


def _json_decoded(payload: Column, struct: StructType) -> Column:
    return json_values.decoded(payload.cast("string"), struct)


def _payload_reader(registry: Registry) -> ReadOne:
    def read(value: bytes) -> tuple[Any, str | None]:
        try:
            writer_schemas().of(registry, schema_id_of(value), KINDS["json"], _is_there)
        except (NotFramed, Unusable) as error:
            return None, str(error)
        return value[PREFIX_BYTES:], None

    return read


def _is_there(schema: Registered) -> bool:
    """Values are read by their own text: that their schema is one of JSON is all that has to be known."""
    return True
