"""A node's directories of logs: claimed by one process, known by their ids, and opened; some may fail at that."""

import logging
from collections.abc import Callable

from levada.model.config import ConfigError
from levada.model.hashes import uuid_from_text, uuid_to_text
from levada.node.settings import NodeSettings
from levada.node.start_errors import cannot_use
from levada.storage.identity import DirectoryIdentity, create_identity, load_identity, new_uuid
from levada.storage.log_config import LogConfig
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import NO_ID, LogDirectory
from levada.world.clock import Entropy
from levada.world.disk import DirectoryLock, Disk

logger = logging.getLogger(__name__)


class DataDirectories:
    """The first one must be sound, for the node keeps more than logs there; each of the others may be offline."""

    def __init__(self, disk: Disk, entropy: Entropy, settings: NodeSettings) -> None:
        self._disk = disk
        self._entropy = entropy
        self._settings = settings
        self._locks: list[DirectoryLock] = []
        self._identities: dict[str, DirectoryIdentity | None] = {}
        self._failures: dict[str, OSError] = {}

    def claim(self) -> None:
        """Keep other processes out, and see whose the directories are; ConfigError or OSError when that cannot be."""
        for path in self._settings.data_directories:
            try:
                self._claim(path)
            except OSError as error:
                if path == self._settings.data_directory:
                    raise cannot_use(error, path) from error
                self._failures[path] = error

    def release(self) -> None:
        for lock in self._locks:
            lock.release()

    def identify(self, cluster_id: str) -> None:
        """All must belong to the coordinator's cluster; new ones do from now on."""
        for path, known in self._identities.items():
            if known is not None and cluster_id != known.cluster_id:
                raise ConfigError(
                    f"{path} belongs to cluster {known.cluster_id}, its coordinator to {cluster_id}; "
                    "use the coordinator it was made with, or another data directory"
                )
        for path, known in list(self._identities.items()):
            # Kafka before 3.7 gave directories no ids.
            if known is None or not known.directory_id:
                self._give_identity(path, cluster_id)
        self._refuse_twins()

    def _give_identity(self, path: str, cluster_id: str) -> None:
        try:
            node_id = self._settings.node_id
            self._identities[path] = create_identity(self._disk, path, node_id, cluster_id, self._entropy)
        except OSError as error:
            if path == self._settings.data_directory:
                raise
            del self._identities[path]
            self._failures[path] = error

    def _refuse_twins(self) -> None:
        """A directory that was copied whole has the id of the other, so the metadata could not tell them apart."""
        paths: dict[str, str] = {}
        for path, identity in self._identities.items():
            assert identity is not None
            other = paths.setdefault(identity.directory_id, path)
            if other != path:
                raise ConfigError(f"{path} and {other} have the same directory.id; remove the one that is a copy")

    @property
    def known_cluster_id(self) -> str | None:
        """What the directories say, if they are not all new."""
        known = [identity for identity in self._identities.values() if identity is not None]
        return known[0].cluster_id if known else None

    def new_cluster_id(self) -> str:
        return uuid_to_text(new_uuid(self._entropy))

    def open(self, config: LogConfig, jitter: Callable[[int], int], open_files: int) -> LogDirectories:
        """Read what each knows of its logs."""
        paths = self._settings.data_directories
        share = max(open_files // len(paths), 1)
        opened = []
        for path in paths:
            identity = self._identities.get(path)
            directory_id = uuid_from_text(identity.directory_id) if identity and identity.directory_id else NO_ID
            directory = LogDirectory(self._disk, path, config, jitter, share, directory_id)
            try:
                if path in self._failures:
                    raise self._failures[path]
                directory.begin()
            except OSError as error:
                directory.fail(error)
                logger.error("log directory offline directory=%s reason=%r", path, str(error))
            opened.append(directory)
        return LogDirectories(opened)

    def _claim(self, path: str) -> None:
        self._disk.make_directories(path)
        try:
            self._locks.append(self._disk.lock(f"{path}/.lock"))
        except BlockingIOError:
            raise ConfigError(
                f"{path} is in use by another broker; stop it with `levada stop --data-dir {path}`,"
                " or choose another --data-dir"
            ) from None
        self._identities[path] = load_identity(self._disk, path, self._settings.node_id)
