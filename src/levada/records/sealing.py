"""The end of a batch that was filled record by record: compressed once, its header written as often as it is sent."""

from levada.model.buffers import Buffer
from levada.records.batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, NO_LEADER_EPOCH
from levada.records.checksum import crc32c
from levada.records.compression import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from levada.records.kernel import decode
from levada.records.record import RecordInput


def close_batch(batch: bytearray, codec: Codec, level: int | None) -> bytearray:
    """The batch, room for its header in front, as it will be sent but for the header."""
    if codec is Codec.NONE:
        return batch
    with memoryview(batch) as view:
        section = compress(codec, view[HEADER_SIZE:], level)
    closed = bytearray(HEADER_SIZE)
    closed += section
    return closed


def write_header(
    batch: bytearray,
    attributes: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> memoryview:
    """Fill in the header of a closed batch and its checksum."""
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_OVERHEAD,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        attributes,
        record_count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    view = memoryview(batch)
    view[17:CRC_START] = crc32c(view[CRC_START:]).to_bytes(4)
    return view.toreadonly()


def read_back(section: Buffer, codec: Codec, size: int, record_count: int, base_timestamp: int) -> list[RecordInput]:
    """The records that were written; size bounds the section before it was compressed."""
    body = decompress(codec, section, max(size, MAX_DECOMPRESSED_BYTES))
    return [record[1:] for record in decode(body, record_count, 0, base_timestamp, None)]
