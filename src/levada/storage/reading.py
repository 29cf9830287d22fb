"""How reading a log fails."""

from levada.model.errors import KafkaStorageError
from levada.records import RecordsError
from levada.storage.formats import CorruptFile

READ_ERRORS = (OSError, RecordsError, CorruptFile)
"""What a disk or damaged bytes raise while a log is read."""


class ReadGuard:
    """Whatever a disk or damaged bytes raise while a log is read is its KafkaStorageError."""

    __slots__ = ("_directory",)

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, READ_ERRORS):
            raise KafkaStorageError(f"cannot read {self._directory}: {error}") from error
