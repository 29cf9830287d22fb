"""A process that reads one batch of records and dies, before or after its position is committed.

Usage: python -m tests.clients.dying_consumer BOOTSTRAP TOPIC GROUP auto-committed|auto|manual|manual-committed
It prints the offsets that it was given, and `processed` if it came to that.
"""

import asyncio
import os
import sys

from levada.client.consumer.consumer import Consumer
from levada.client.types import TopicPartition

INSTANCE = "the-only-one"
"""A static member's successor need not wait until its session is over."""
POLL_SECONDS = 10.0
NEVER_MS = 3_600_000


async def read(bootstrap: str, topic: str, group: str, how: str) -> None:
    consumer = Consumer(
        bootstrap,
        group_id=group,
        group_instance_id=INSTANCE,
        enable_auto_commit=how.startswith("auto"),
        auto_commit_interval_ms=1 if how == "auto-committed" else NEVER_MS,
    )
    consumer.subscribe([topic])
    records = await consumer.poll(POLL_SECONDS)
    print(records[0].offset, records[-1].offset)
    partition = TopicPartition(topic, 0)
    if how == "auto-committed":
        # The user's code asks for the next records before it has processed these.
        while (await consumer.committed([partition]))[partition] != (records[-1].offset + 1, "", 0):
            await consumer.poll(0.01)
    else:
        print("processed")
    if how == "manual-committed":
        await consumer.commit()
    sys.stdout.flush()
    os._exit(1)


if __name__ == "__main__":
    asyncio.run(read(*sys.argv[1:]))
