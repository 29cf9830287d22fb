"""Picks the compiled batch writer where it was built, and its pure twin where it was not."""

# Both compiled units are built or none is, so the kernel has warned already.
try:
    from levada.records._writer import (
        BatchWriter,
        RecordColumns,
        murmur2,
        partitions_of_columns,
        partitions_of_list,
        write_columns,
        write_lists,
    )
except ImportError:
    from levada.records.pure_writer import (  # type: ignore[assignment]
        BatchWriter,
        RecordColumns,
        murmur2,
        partitions_of_columns,
        partitions_of_list,
        write_columns,
        write_lists,
    )

__all__ = [
    "BatchWriter",
    "RecordColumns",
    "murmur2",
    "partitions_of_columns",
    "partitions_of_list",
    "write_columns",
    "write_lists",
]
