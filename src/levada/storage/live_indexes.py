"""The index files of active segments, for tools that look at them: their entries, which live in memory, follow."""

import logging

from levada.storage.log import Log
from levada.world.disk import is_gone, is_passing

logger = logging.getLogger(__name__)


def write_index_entries(log: Log) -> bool:
    """Put a log's new entries into the files; whether there were any."""
    if log.is_offline or log.is_untouched:
        return False
    try:
        return log.active.write_new_entries()
    except OSError as error:
        # Readers use the indexes in memory, so what their files lack can come later, and the log goes on.
        if is_gone(error):
            log.go_offline(error)
        elif not is_passing(error):
            logger.warning("cannot write index entries directory=%s reason=%r", log.directory, str(error))
        return True
