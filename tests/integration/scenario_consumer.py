"""A consumer that says what it has done and goes on when told: `python -m tests.integration.scenario_consumer ...`."""

import sys
from typing import Any

from kafka import KafkaConsumer

LONG_MS = 3_600_000
POLL_MS = 60_000


def main(bootstrap: str, topic: str, mode: str, path: str) -> None:
    consumer: Any = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        enable_auto_commit=mode.startswith("auto"),
        auto_commit_interval_ms=1 if mode == "auto soon" else LONG_MS,
        session_timeout_ms=1_000,
        heartbeat_interval_ms=100,
    )
    # In one long poll: kafka-python 3.0 forgets its assignment if a poll ends just before it arrives.
    records = [record for batch in consumer.poll(timeout_ms=POLL_MS).values() for record in batch]
    say(f"polled {records[0].offset} {records[-1].offset} {len(records)}")
    if mode == "auto soon":
        # The next poll finds that it is time to commit, whatever has become of the records of the last one.
        while True:
            consumer.poll(timeout_ms=100)
    with open(path, "a") as processed:
        processed.writelines(f"{record.offset}\n" for record in records)
    say("processed")
    if mode == "manual":
        consumer.commit()
        say("committed")


def say(what: str) -> None:
    """And wait for a line on stdin, unless one is killed first."""
    print(what, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
