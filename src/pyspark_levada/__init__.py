"""Spark's data source `levada`; Spark finds it by this package's name.

Spark imports every `pyspark_*` package whenever it looks for one: so this one stays light, and the rest of it is loaded
by the first read or write.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Topics as tables: `spark.read`, `spark.readStream`, `df.write`, `df.writeStream` with `.format("levada")`."""

    @classmethod
    def name(cls) -> str:
        return "levada"

    def schema(self) -> "StructType":
        from levada.spark.source.schema import schema_for

        return schema_for(self.options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from levada.spark.source.batch import TopicReader

        return TopicReader(self.options)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        from levada.spark.source.stream import TopicStreamReader

        return TopicStreamReader(self.options)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from levada.spark.sink.writers import TopicWriter

        return TopicWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        from levada.spark.sink.writers import TopicStreamWriter

        return TopicStreamWriter(self.options, schema)
