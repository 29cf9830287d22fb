"""The columns of a topic: those of Spark's Kafka source, for Spark and for Arrow."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.spark.source.settings import includes_headers

COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
WITH_HEADERS = StructType([*COLUMNS.fields, StructField("headers", ArrayType(HEADER))])

ARROW_HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
ARROW_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
ARROW_WITH_HEADERS = ARROW_COLUMNS.append(pa.field("headers", ARROW_HEADERS))


def schema_for(options: Mapping[str, str]) -> StructType:
    return WITH_HEADERS if includes_headers(options) else COLUMNS
