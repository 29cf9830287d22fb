"""What a node does beside answering: flushes that are due, and checkpoints."""

import asyncio
import logging

from penstock.broker.flushing import flush
from penstock.model.errors import KafkaError
from penstock.storage.log_directory import LogDirectory
from penstock.world.world import World

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0


async def keep_up(world: World, logs: LogDirectory, checkpoint_ms: int) -> None:
    """Run until cancelled."""
    last_checkpoint_ms = world.clock.monotonic_ms()
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        for log in logs.logs:
            if log.flush_due(world.clock.now_ms()) or log.has_rolled_unflushed():
                try:
                    await flush(log, world.async_disk)
                except KafkaError as error:
                    logger.error("flush failed log=%s reason=%r", log.directory, str(error))
        if world.clock.monotonic_ms() - last_checkpoint_ms >= checkpoint_ms:
            last_checkpoint_ms = world.clock.monotonic_ms()
            try:
                logs.write_checkpoints()
            except OSError as error:
                logger.error("checkpoint failed reason=%r", str(error))
