"""What a broker has applied of its cluster's metadata, in its own data directory: a snapshot and the batches since.

A coordinator that has lost its memory is known by it, and can be given its memory back from it.
"""

import asyncio
import logging
from dataclasses import dataclass
from struct import error as StructError  # noqa: N812 - a class, named as one

from levada.doors.frames import (
    BATCH,
    decode_batch,
    decode_snapshot_payload,
    encode_batch,
    encode_records,
    encode_snapshot_head,
    frame,
    frames,
)
from levada.metadata.delta import Delta
from levada.metadata.door import DoorError, MetadataBatch
from levada.metadata.image import Image
from levada.protocol.errors import CodecError
from levada.world.disk import Disk, File

logger = logging.getLogger(__name__)

NAME = "metadata-copy"
RECORDS_AT_ONCE = 200
"""Encoded in one turn of the loop."""
SMALLEST_LOG_BYTES = 1 << 20
"""Of batches, before a new snapshot takes their place; a copy that is mostly snapshot waits for as much again."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a copy adds up to, and the epoch of the controller that wrote its last batch."""

    image: Image
    epoch: int


def read_copy(disk: Disk, directory: str) -> Applied | None:
    """None if there is no copy; of one that is torn or damaged, what comes before that."""
    path = f"{directory}/{NAME}"
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    image, epoch = Image(), 0
    delta, offset = Delta(image), image.offset
    try:
        for placed in frames(data):
            if placed.payload[:1] == BATCH:
                batch = decode_batch(placed.payload)
                delta.replay(batch.records)
                offset, epoch = batch.last_offset, batch.epoch
            else:
                image, epoch, _ = decode_snapshot_payload(placed.payload)
                delta, offset = Delta(image), image.offset
    except (DoorError, CodecError, StructError) as error:
        raise DoorError(f"{path} cannot be read: {error}") from error
    return Applied(delta.image(offset), epoch) if offset >= 0 else None


class MetadataCopy:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{NAME}"
        self._file: File | None = None
        self._end_offset = -1
        self._epoch = 0
        self._snapshot_bytes = 0
        self._log_bytes = 0

    def append(self, batch: MetadataBatch) -> None:
        """What was applied; if it does not go on where the copy ends, the next `refresh` writes it anew."""
        self._epoch = batch.epoch
        if self._file is None or batch.base_offset != self._end_offset + 1:
            self._let_go()
            return
        data = encode_batch(batch)
        try:
            is_whole = self._file.append([data]) == len(data)
        except OSError as error:
            logger.error("cannot write a copy of the metadata reason=%r", str(error))
            is_whole = False
        if is_whole:
            self._end_offset = batch.last_offset
            self._log_bytes += len(data)
        else:
            self._let_go()

    async def refresh(self, image: Image) -> None:
        """Write the copy anew, if it is not there or mostly of batches that are long over."""
        is_long = self._log_bytes > max(SMALLEST_LOG_BYTES, self._snapshot_bytes)
        if image.offset < 0 or (self._file is not None and not is_long):
            return
        try:
            await self._rewrite(image)
        except OSError as error:
            self._let_go()
            logger.error("cannot write a copy of the metadata reason=%r", str(error))

    def close(self) -> None:
        self._let_go()

    async def _rewrite(self, image: Image) -> None:
        records, pieces = list(image.records()), []
        for start in range(0, len(records), RECORDS_AT_ONCE):
            pieces.append(encode_records(records[start : start + RECORDS_AT_ONCE]))
            await asyncio.sleep(0)
        data = frame(encode_snapshot_head(image.offset, self._epoch, 0, len(records)) + b"".join(pieces))
        temporary = f"{self._path}.tmp"
        if self._disk.exists(temporary):
            self._disk.remove(temporary)
        file = self._disk.open(temporary, create=True)
        try:
            if file.append([data]) != len(data):
                raise OSError(f"{temporary}: the disk took only a part of {len(data)} bytes")
            self._disk.rename(temporary, self._path)
        except BaseException:
            file.close()
            raise
        self._let_go()
        self._file, self._end_offset = file, image.offset
        self._snapshot_bytes, self._log_bytes = len(data), 0

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
