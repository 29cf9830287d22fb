"""Brings logs to the device off the event loop."""

from penstock.model.errors import KafkaStorageError
from penstock.storage.log import Log
from penstock.world.disk import AsyncDisk


async def flush(log: Log, async_disk: AsyncDisk) -> None:
    """Sync what was appended until now; a failure takes the log offline."""
    due = log.begin_flush()
    try:
        for file in due.files:
            await async_disk.sync(file)
        await async_disk.sync_directory(due.directory)
    except OSError as error:
        log.fail_flush(error)
        raise KafkaStorageError(f"cannot flush {due.directory}: {error}") from error
    log.end_flush(due)
