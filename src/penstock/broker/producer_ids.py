"""Ids for idempotent producers: unique for the life of a data directory, reserved a block at a time."""

from penstock.model.errors import KafkaStorageError
from penstock.storage.checkpoint import read_text, write_atomically
from penstock.world.disk import Disk

FILE_NAME = "producer-ids"
BLOCK_SIZE = 1000


class ProducerIds:
    """A crash loses at most the rest of a block; an id is never given twice."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._next = self._block_end = self._reserved()

    def allocate(self) -> int:
        if self._next == self._block_end:
            self._reserve_block()
        self._next += 1
        return self._next - 1

    def _reserve_block(self) -> None:
        end = self._block_end + BLOCK_SIZE
        try:
            write_atomically(self._disk, self._directory, FILE_NAME, f"{end}\n")
        except OSError as error:
            raise KafkaStorageError(f"cannot reserve producer ids: {error}") from error
        self._block_end = end

    def _reserved(self) -> int:
        text = read_text(self._disk, self._directory, FILE_NAME)
        return 0 if text is None else int(text)
