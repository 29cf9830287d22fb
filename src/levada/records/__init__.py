"""Record batches of format 2: views over bytes, building, compression, and the compiled kernel beneath.

`levada.records.arrow` turns batches into Arrow, and `arrow_writer` takes Arrow to write from; they are imported by
those who have pyarrow.
"""

from levada.records.batch import (
    BatchView,
    iter_batches,
    parse_produced,
    patch_header,
    patch_in_place,
    with_codec,
    with_log_append_time,
    with_max_timestamp,
)
from levada.records.builder import (
    ControlRecord,
    ControlType,
    build_batch,
    end_transaction_marker,
    parse_control_record,
)
from levada.records.compression import Codec, compress, decompress
from levada.records.errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecord,
    RecordsError,
    UnsupportedCompression,
)
from levada.records.kernel import COMPILED, extents, find_unfit, plain_batch, plain_batch_of_producer, scan
from levada.records.record import ConsumerRecord, Record, RecordInput, Scan
from levada.records.writer import (
    BatchWriter,
    RecordColumns,
    murmur2,
    partitions_of_columns,
    partitions_of_list,
    write_columns,
    write_lists,
)

__all__ = [
    "COMPILED",  # whether the compiled kernel serves, or its pure twin
    "BatchView",  # one batch inside a buffer, its header parsed
    "BatchWriter",  # a batch that is filled record by record
    "Codec",  # none, gzip, snappy, lz4, zstd
    "ConsumerRecord",  # a record with topic and partition, as a consumer hands it out
    "ControlRecord",  # a control record taken apart
    "ControlType",  # what a control record says
    "CorruptBatch",  # damaged bytes: CORRUPT_MESSAGE, or INVALID_RECORD if the checksum is right
    "DecompressedTooLarge",  # more than the bound: MESSAGE_TOO_LARGE
    "InvalidRecord",  # against the rules: INVALID_RECORD
    "Record",  # offset, timestamp_ms, key, value, headers
    "RecordColumns",  # columns in Arrow's layout to write records from
    "RecordInput",  # the same without the offset, to be written
    "RecordsError",  # any of these
    "Scan",  # what scan found
    "UnsupportedCompression",  # an unknown codec: UNSUPPORTED_COMPRESSION_TYPE
    "build_batch",  # records to a whole batch
    "compress",  # a record section to a compressed block
    "decompress",  # and back, within a bound
    "end_transaction_marker",  # the batch that commits or aborts
    "extents",  # where the whole batches lie in stored bytes
    "find_unfit",  # the records that a topic's rules refuse
    "iter_batches",  # the whole batches in fetched or stored bytes
    "murmur2",  # the hash of a key
    "parse_control_record",  # a record of a control batch, read
    "parse_produced",  # the one batch of a produce request, checked
    "partitions_of_columns",  # where the rows of columns go by their keys
    "partitions_of_list",  # where rows go by a list of their keys
    "patch_header",  # the 16 bytes a broker writes instead of the producer's
    "patch_in_place",  # the same, inside the producer's own bytes
    "plain_batch",  # what to know of a batch that is as plain as can be
    "plain_batch_of_producer",  # the same, whatever producer sent it
    "scan",  # check the structure of an uncompressed record section
    "with_codec",  # a batch with its records compressed otherwise
    "with_log_append_time",  # a batch stamped with the broker's time
    "with_max_timestamp",  # a batch with its records' own timestamps, the maximum put right
    "write_columns",  # rows of columns to the batches of their partitions
    "write_lists",  # rows of lists to the batches of their partitions
]
