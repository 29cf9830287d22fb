"""Values as Confluent's clients frame them: behind the id of a schema that a registry has.

- `SchemaSource`, `schema_source`, `subject_of`: where schemas come from.
- `reading_of`: how values are read; `encoding_of`: how they are written.
"""

from levada.spark.rows.registry.address import Registry, SchemaSource, registry_of, schema_source, subject_of
from levada.spark.rows.registry.reading import Reading, reading_of
from levada.spark.rows.registry.writing import Encoding, encoding_of

__all__ = [
    "Encoding",
    "Reading",
    "Registry",
    "SchemaSource",
    "encoding_of",
    "reading_of",
    "registry_of",
    "schema_source",
    "subject_of",
]
