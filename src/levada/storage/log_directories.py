"""All directories of logs that a broker has, in the order of its configuration."""

from collections.abc import Iterator, Sequence

from levada.model.errors import KafkaStorageError
from levada.storage.log import Log
from levada.storage.log_directory import LogDirectory


class LogDirectories:
    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = tuple(directories)

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.is_offline]

    @property
    def offline(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.is_offline]

    @property
    def first(self) -> LogDirectory:
        """The one beside whose logs a node keeps other things."""
        return self._directories[0]

    @property
    def are_several(self) -> bool:
        return len(self._directories) > 1

    @property
    def logs(self) -> list[Log]:
        """Those that can be used."""
        return [log for directory in self.online for log in directory.logs]

    @property
    def compacted(self) -> list[tuple[LogDirectory, tuple[str, int], Log]]:
        """The logs that are to be cleaned, by topic and partition."""
        return [(directory, key, log) for directory in self.online for key, log in directory.compacted]

    def holding(self, topic: str, partition: int) -> LogDirectory | None:
        """Where the log of a partition is open."""
        return next((one for one in self.online if (topic, partition) in one), None)

    def with_id(self, directory_id: bytes) -> LogDirectory | None:
        return next((one for one in self._directories if one.directory_id == directory_id), None)

    def at(self, path: str) -> LogDirectory | None:
        """By the absolute path that DescribeLogDirs gives."""
        return next((one for one in self._directories if one.absolute_directory == path), None)

    def for_new_log(self) -> LogDirectory:
        """The directory with the fewest logs; the first of those in the configuration."""
        online = self.online
        if not online:
            raise KafkaStorageError("every log directory of this broker has failed")
        return min(online, key=lambda directory: directory.count)
