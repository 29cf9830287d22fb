"""Record batches for a broker to choke on: whole ones, and ones that lie under a checksum that is right."""

import random
from struct import Struct

from crc32c import crc32c

from levada.records import Codec, ControlType, build_batch, compress, end_transaction_marker
from levada.records.batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD

NOW_MS = 1_700_000_000_000
BOMB_SIZE = 128 << 20

_CRC = Struct(">I")
_LENGTH = Struct(">i")

_bombs: dict[Codec, bytes] = {}


def random_records(chance: random.Random) -> bytes:
    """What a partition of a Produce request may carry."""
    roll = chance.random()
    if roll < 0.35:
        return valid_batch(chance)
    if roll < 0.7:
        return with_right_checksum(_damaged(chance, valid_batch(chance)))
    if roll < 0.8:
        return bytes(_damaged(chance, valid_batch(chance)))
    if roll < 0.85:
        return valid_batch(chance) + valid_batch(chance)
    if roll < 0.87:
        return bomb(chance.choice((Codec.GZIP, Codec.LZ4, Codec.ZSTD)))
    return chance.randbytes(chance.choice((0, 10, 61, 200)))


def valid_batch(chance: random.Random) -> bytes:
    if chance.random() < 0.05:
        return end_transaction_marker(
            chance.choice((ControlType.ABORT, ControlType.COMMIT)),
            producer_id=chance.randrange(3),
            producer_epoch=chance.randrange(2),
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
    records = [
        (
            NOW_MS + chance.randrange(100),
            chance.choice((None, b"", b"key")),
            chance.choice((None, b"", bytes(chance.randrange(200)))),
            [("header", b"value")] * chance.randrange(2),
        )
        for _ in range(chance.choice((1, 1, 2, 10)))
    ]
    is_idempotent = chance.random() < 0.4
    return build_batch(
        records,
        codec=chance.choice((Codec.NONE, Codec.NONE, *Codec)),
        producer_id=chance.randrange(5) if is_idempotent else -1,
        producer_epoch=chance.randrange(3) if is_idempotent else -1,
        base_sequence=chance.choice((0, 1, 2, 5, 2**31 - 1)) if is_idempotent else -1,
        is_transactional=is_idempotent and chance.random() < 0.2,
    )


def bomb(codec: Codec) -> bytes:
    """A small batch whose records say that they are many zeros."""
    if codec not in _bombs:
        whole = bytearray(build_batch([(NOW_MS, None, b"x", ())], codec=codec))[:HEADER_SIZE]
        _bombs[codec] = with_right_checksum(whole + compress(codec, bytes(BOMB_SIZE)))
    return _bombs[codec]


def with_right_checksum(batch: bytearray) -> bytes:
    """Length and checksum as they must be, so that what is wrong lies deeper."""
    if len(batch) >= HEADER_SIZE:
        _LENGTH.pack_into(batch, 8, len(batch) - LENGTH_OVERHEAD)
        _CRC.pack_into(batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def _damaged(chance: random.Random, batch: bytes) -> bytearray:
    damaged = bytearray(batch)
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(damaged))
        how = chance.randrange(4)
        if how == 0:
            damaged[start] ^= 1 << chance.randrange(8)
        elif how == 1:
            damaged[start : start + 8] = chance.choice((b"\xff", b"\x80", b"\x7f", b"\0")) * len(
                damaged[start : start + 8]
            )
        elif how == 2 and len(damaged) > HEADER_SIZE:
            del damaged[chance.randrange(HEADER_SIZE, len(damaged)) :]
        else:
            damaged += chance.randbytes(chance.randrange(1, 20))
    return damaged
