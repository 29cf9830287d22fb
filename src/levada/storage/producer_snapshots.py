"""The .snapshot files of a log: its producers' state at certain offsets."""

import logging

from levada.storage.formats import CorruptFile, decode_snapshot, encode_snapshot
from levada.storage.log_config import NEVER, LogConfig
from levada.storage.producers import Producers
from levada.world.disk import Disk, File

logger = logging.getLogger(__name__)

SUFFIX = ".snapshot"


class ProducerSnapshots:
    """Writes, finds and drops snapshots; each is named by the offset up to which it knows the log."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets: list[int] = []
        self._last_taken = 0

    def load_names(self) -> None:
        self.offsets = sorted(
            int(name[:20])
            for name in self._disk.names(self._directory)
            if name.endswith(SUFFIX) and len(name) == 20 + len(SUFFIX) and name[:20].isdigit()
        )

    def take(self, producers: Producers) -> None:
        """Write the state as far as it tells everything, unless the last snapshot is of that offset or a later one."""
        offset = producers.snapshot_offset
        if offset <= self._last_taken:
            return
        path = self._path(offset)
        if self._disk.exists(path):
            self._disk.remove(path)
        file = self._disk.open(path, create=True)
        try:
            data = encode_snapshot(producers.entries())
            if file.append([data]) != len(data):
                raise OSError(f"{path}: the disk took only a part of {len(data)} bytes")
        finally:
            file.close()
        self._last_taken = offset
        if offset not in self.offsets:
            self.offsets = sorted([*self.offsets, offset])

    def file(self, offset: int) -> File:
        """A snapshot's file, to be synced: the roll that took it did not wait for that."""
        return self._disk.open(self._path(offset))

    def restore(self, producers: Producers, start_offset: int, end_offset: int, now_ms: int, config: LogConfig) -> None:
        """Load the newest snapshot that is sound and lies in (start, end]; without one, begin at the start."""
        for offset in [one for one in self.offsets if one > end_offset or one <= start_offset]:
            self.remove(offset)
        while self.offsets:
            newest = self.offsets[-1]
            try:
                entries = decode_snapshot(self._read(newest))
            except CorruptFile as error:
                logger.warning("removed snapshot=%s reason=%r", self._path(newest), str(error))
                self.remove(newest)
                continue
            producers.restore(entries, newest, now_ms, config.producer_id_expiration_ms)
            self._last_taken = newest
            return
        producers.restore([], start_offset, now_ms, config.producer_id_expiration_ms)
        self._last_taken = start_offset

    def load_before(self, producers: Producers, start_offset: int, end_offset: int) -> None:
        """Load the newest that is sound and lies in (start, end], and leave all files as they are."""
        for offset in reversed(self.offsets):
            if start_offset < offset <= end_offset:
                try:
                    entries = decode_snapshot(self._read(offset))
                except CorruptFile:
                    continue
                producers.restore(entries, offset, 0, NEVER)
                return
        producers.restore([], start_offset, 0, NEVER)

    def remove_strays(self, segment_bases: list[int]) -> None:
        """Keep the snapshots of segments, and the newest one if it lies behind them all."""
        strays = [offset for offset in self.offsets if offset not in segment_bases]
        if strays and segment_bases and strays[-1] >= max(segment_bases):
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def clear(self, start_offset: int) -> None:
        """The log begins anew at an offset: the next snapshot may be of an earlier one than the last."""
        for offset in list(self.offsets):
            self.remove(offset)
        self._last_taken = start_offset

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._disk.remove(self._path(offset))

    def _read(self, offset: int) -> bytes:
        file = self._disk.open(self._path(offset))
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SUFFIX}"
