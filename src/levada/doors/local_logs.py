"""The log files of a local coordinator: how each names the one before it, and where it ends."""

from dataclasses import dataclass

from levada.doors.files import CoordinatorFiles
from levada.doors.frames import FRAME_HEAD_SIZE, decode_batch, frames
from levada.doors.local_frames import Start, decode_start, frame_size, has_batch_behind
from levada.metadata.door import DoorError

LOG = "log-"


def log_name(epoch: int) -> str:
    return f"{LOG}{epoch:010d}"


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file that was begun: its epoch, what its first frame says, and where its own batches start."""

    epoch: int
    start: Start
    position: int


class LocalLogs:
    def __init__(self, files: CoordinatorFiles) -> None:
        self._files = files

    def last_started(self, before: int) -> LogFile | None:
        """The newest log file that has its first frame."""
        for epoch in reversed(self._files.numbers(LOG)):
            if epoch < before:
                file = self.log_file(epoch)
                if file is not None:
                    return file
                self._refuse_if_damaged(epoch, self._files.read(log_name(epoch)), 0)
        return None

    def successor(self, file: LogFile | None) -> Start:
        """What the file after this one begins with."""
        if file is None:
            return Start(0, 0)
        data = self._files.read(log_name(file.epoch))
        batches = list(frames(data))[1:]
        self._refuse_if_damaged(file.epoch, data, batches[-1].end if batches else file.position)
        if not batches:
            # Nothing was written to it, and it may not be on the device itself.
            return file.start
        return Start(file.epoch, decode_batch(batches[-1].payload).base_offset, batches[-1].payload)

    def _refuse_if_damaged(self, epoch: int, data: bytes, end: int) -> None:
        """Nothing sound can follow a torn end, for a batch is written when all before it is on the device."""
        if has_batch_behind(data, end):
            raise DoorError(
                f"{self._files.path(log_name(epoch))} is damaged at byte {end}, with sound batches behind it; "
                "restore the directory from a copy"
            )

    def chain(self, epoch: int) -> list[LogFile]:
        """The files that count, from the first to the one of an epoch: each names the one before it."""
        chain: list[LogFile] = []
        while (file := self.log_file(epoch)) is not None:
            chain.insert(0, file)
            epoch = file.start.predecessor
        return chain

    def log_file(self, epoch: int) -> LogFile | None:
        """The file of an epoch, if its first frame is there."""
        name = log_name(epoch)
        size = frame_size(self._files.read(name, size=FRAME_HEAD_SIZE))
        first = next(frames(self._files.read(name, size=size)), None)
        return None if first is None else LogFile(epoch, decode_start(first.payload), first.end)
