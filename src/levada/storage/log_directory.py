"""A directory of logs and the files beside them that say how far each can be trusted."""

import errno
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from levada.model.errors import KafkaStorageError
from levada.storage.checkpoint import read_offsets, write_atomically, write_offsets
from levada.storage.cleaning.cleaner import CleanedGroup
from levada.storage.cleaning.swapping import Swap
from levada.storage.formats import CorruptFile
from levada.storage.identity import FILE_NAME as IDENTITY_FILE
from levada.storage.loading import LogState, open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.open_files import DEFAULT_LIMIT, OpenFiles
from levada.storage.recovery import Cut, Progress
from levada.world.disk import Disk, is_out_of_files

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_ENDS = "cleaner-offset-checkpoint"
DELETED = "-delete"
FUTURE = "-future"
MAX_NAME_BYTES = 255
NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Unflushed:
    """A log that must be recovered, and how much of it has to be read."""

    topic: str
    partition: int
    size: int


class LogDirectory:
    """Opens logs with what the checkpoints know of them, and writes the checkpoints."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        jitter: Callable[[int], int],
        open_files: int = DEFAULT_LIMIT,
        directory_id: bytes = NO_ID,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._jitter = jitter
        self.files = OpenFiles(disk, open_files)
        self.directory_id = directory_id
        self.failure: str | None = None
        """Why nothing here can be used until a restart."""
        self.on_failure: Callable[[LogDirectory], None] = lambda _: None
        self._logs: dict[tuple[str, int], Log] = {}
        self.was_clean = False
        self._recovery_points: dict[tuple[str, int], int] = {}
        self._start_offsets: dict[tuple[str, int], int] = {}
        self._high_watermarks: dict[tuple[str, int], int] = {}
        self._expected: dict[tuple[str, int], LogState] = {}
        """Logs that are about to come from another directory."""
        self.clean_ends: dict[tuple[str, int], int] = {}
        """Up to where each compacted log was cleaned."""

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    @property
    def absolute_directory(self) -> str:
        return self._disk.absolute(self._directory)

    def space(self) -> tuple[int, int]:
        """Bytes of the disk, all of them and those that can still be used."""
        return self._disk.space(self._directory)

    @property
    def logs(self) -> list[Log]:
        return list(self._logs.values())

    @property
    def count(self) -> int:
        return len(self._logs)

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._logs

    def fail(self, error: OSError) -> None:
        """Use nothing here any more: what one log met, the others would meet too."""
        if self.failure is not None:
            return
        self.failure = str(error)
        for log in self._logs.values():
            log.abandon(f"its directory has failed: {self.failure}")
        self.files.close_all()
        self.on_failure(self)

    def probe(self) -> None:
        """Fail if the directory was taken away: logs with open files would notice late, or never."""
        try:
            if not self._disk.exists(f"{self._directory}/{IDENTITY_FILE}"):
                self.fail(FileNotFoundError(errno.ENOENT, "it is not there any more", self._directory))
        except OSError as error:
            if not is_out_of_files(error):
                self.fail(error)

    @property
    def compacted(self) -> list[tuple[tuple[str, int], Log]]:
        """The logs that are to be cleaned, by topic and partition."""
        return [(key, log) for key, log in self._logs.items() if log.config.is_compacted]

    def is_on_record(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a start after a crash would know where a log begins, and that it is on the device up to an offset."""
        key = topic, partition
        log = self._logs.get(key)
        if log is None:
            return False
        begins_there = log.start_offset <= max(log.settled_base, self._start_offsets.get(key, 0))
        return begins_there and self._recovery_points.get(key, 0) >= offset

    def swap(self, log: Log, group: CleanedGroup, ending: str) -> Swap:
        return Swap(self._disk, self.files, log, group, ending)

    def note_clean(self, topic: str, partition: int, end_offset: int) -> None:
        """A log was cleaned up to an offset. It is no harm if that is forgotten, so the device is not waited for."""
        self.clean_ends[topic, partition] = end_offset
        write_offsets(self._disk, self._directory, CLEAN_ENDS, self.clean_ends, durable=False)

    def begin(self) -> None:
        """Note whether the last stop was clean, and forget that it was: from now on a crash is one."""
        marker = f"{self._directory}/{CLEAN_SHUTDOWN}"
        self.was_clean = self._disk.exists(marker)
        if self.was_clean:
            self._disk.remove(marker)
        # Also for the directories of logs that were made by a process which died before it flushed them.
        self._disk.sync_directory(self._directory)
        self._recovery_points = self._read(RECOVERY_POINTS)
        self._start_offsets = self._read(START_OFFSETS)
        self._high_watermarks = self._read(HIGH_WATERMARKS)
        self.clean_ends = self._read(CLEAN_ENDS)

    def path(self, topic: str, partition: int) -> str:
        return f"{self._directory}/{topic}-{partition}"

    def unflushed(self, topic: str, partition: int) -> Unflushed:
        """How much of a log must be read to recover it."""
        directory = self.path(topic, partition)
        recovery_point = self._recovery_points.get((topic, partition), 0)
        names = [name for name in self._disk.names(directory) if name.endswith(".log") and name[:20].isdigit()]
        doubtful = [
            name
            for name, following in zip(names, [*names[1:], ""])
            if not following or int(following[:20]) >= recovery_point
        ]
        return Unflushed(topic, partition, sum(self._size(f"{directory}/{name}") for name in doubtful))

    def state_of(self, topic: str, partition: int) -> LogState:
        key = (topic, partition)
        return LogState(
            was_clean=self.was_clean,
            recovery_point=self._recovery_points.get(key, 0),
            start_offset=self._start_offsets.get(key, 0),
            high_watermark=self._high_watermarks.get(key, 0),
        )

    def open(
        self,
        topic: str,
        partition: int,
        now_ms: int,
        state: LogState | None = None,
        progress: Progress = lambda _: None,
        config: LogConfig | None = None,
    ) -> tuple[Log, list[Cut]]:
        """Open or create the log of a partition."""
        log, cuts = open_log(
            self._disk,
            self.path(topic, partition),
            config or self._config,
            now_ms=now_ms,
            files=self.files,
            state=state or self.state_of(topic, partition),
            jitter=self._jitter,
            progress=progress,
        )
        log.on_failure = self.fail
        self._logs[topic, partition] = log
        return log, cuts

    def future_path(self, topic: str, partition: int, unique: str) -> str:
        """Where a log is put together that will come here from another directory."""
        return f"{self._directory}/{topic}-{partition}.{unique}{FUTURE}"

    def expect(self, topic: str, partition: int, state: LogState) -> None:
        """Have it on record how far a log can be trusted before it is here: a crash may come right after."""
        self._expected[topic, partition] = state
        self.write_checkpoints()

    def expect_no_more(self, topic: str, partition: int) -> None:
        self._expected.pop((topic, partition), None)

    def adopt(self, future_path: str, topic: str, partition: int, now_ms: int, config: LogConfig) -> Log:
        """Give a log that was put together its place, and open it; it goes back there if it cannot be opened."""
        state = replace(self._expected[topic, partition], was_clean=True)
        self._disk.rename(future_path, self.path(topic, partition))
        try:
            log, _ = self.open(topic, partition, now_ms, state, config=config)
        except (OSError, KafkaStorageError):
            self._logs.pop((topic, partition), None)
            self._disk.rename(self.path(topic, partition), future_path)
            raise
        log.recovery_point = min(state.recovery_point, log.end_offset)
        log.is_new = True
        log.touch()
        del self._expected[topic, partition]
        return log

    def let_go(self, topic: str, partition: int, reason: str) -> None:
        """Use a log no more; its files are left where they are."""
        log = self._logs.pop((topic, partition), None)
        if log is not None:
            log.abandon(reason)
        for offsets in (self._recovery_points, self._start_offsets, self._high_watermarks, self.clean_ends):
            offsets.pop((topic, partition), None)

    def retire(self, topic: str, partition: int, unique: str) -> str:
        """Let go of a log and rename its directory, which may be removed once no reader can hold its files."""
        self.let_go(topic, partition, "the log was deleted")
        suffix = f"-{partition}.{unique}{DELETED}"
        retired = f"{self._directory}/{topic[: MAX_NAME_BYTES - len(suffix)]}{suffix}"
        self._disk.rename(self.path(topic, partition), retired)
        return retired

    def write_checkpoints(self) -> None:
        """Write down how far each log is flushed, where it begins, and what its readers may see."""
        flushed = {key: log.recovery_point for key, log in self._logs.items()}
        flushed |= {key: state.recovery_point for key, state in self._expected.items()}
        write_offsets(self._disk, self._directory, RECOVERY_POINTS, flushed)
        self._recovery_points = flushed
        raised = {key: log.start_offset for key, log in self._logs.items() if log.start_offset > log.settled_base}
        raised |= {key: state.start_offset for key, state in self._expected.items()}
        write_offsets(self._disk, self._directory, START_OFFSETS, raised)
        self._start_offsets = raised
        visible = {key: log.high_watermark for key, log in self._logs.items()}
        visible |= {key: state.high_watermark for key, state in self._expected.items()}
        write_offsets(self._disk, self._directory, HIGH_WATERMARKS, visible)

    def close(self, broker_epoch: int) -> None:
        """Bring every log to the device; only if all of them are there does the next start skip recovery."""
        if self.is_offline:
            return
        closed = [_is_closed(log) for log in self._logs.values()]
        self.files.close_all()
        try:
            self.write_checkpoints()
            if all(closed):
                text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
                write_atomically(self._disk, self._directory, CLEAN_SHUTDOWN, text)
        except OSError as error:
            logger.error("cannot write checkpoints directory=%s reason=%r", self._directory, str(error))

    def _read(self, name: str) -> dict[tuple[str, int], int]:
        try:
            return read_offsets(self._disk, self._directory, name)
        except CorruptFile as error:
            # Without it the logs are recovered from their beginning, which takes longer and loses nothing.
            logger.warning("ignored checkpoint=%s reason=%r", name, str(error))
            return {}

    def _size(self, path: str) -> int:
        file = self._disk.open(path)
        try:
            return file.size()
        finally:
            file.close()


def _is_closed(log: Log) -> bool:
    """Close a log; False if some of it may not be on the device, now or since it went offline."""
    try:
        log.close()
    except (KafkaStorageError, OSError) as error:
        logger.error("cannot close log=%s reason=%r", log.directory, str(error))
        return False
    return not log.is_offline
