"""A process with members of a group, each on its own thread: `python -m tests.chaos.group_worker ...`.

What is received is written to a file before it is committed, so a kill loses no word of it. SIGTERM lets the members
leave the group.
"""

import os
import signal
import sys
import threading

from tests.consumers import MEMBERS, NO_BROKER, CommitRefused, Member

POLL_SECONDS = 1.0
"""Long, because kafka-python 3.0 forgets its assignment if a poll ends just before it arrives."""


def main(bootstrap: str, topic: str, session_timeout_ms: str, path: str, *clients: str) -> int:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    failures: list[Exception] = []

    def run(client: str) -> None:
        try:
            while not stopping.is_set():
                try:
                    member = MEMBERS[client](bootstrap, topic, topic, int(session_timeout_ms))
                except NO_BROKER:
                    stopping.wait(POLL_SECONDS)
                    continue
                try:
                    consume(member, file, stopping)
                finally:
                    member.close()
        except Exception as error:
            failures.append(error)
            stopping.set()
            raise

    threads = [threading.Thread(target=run, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failures)


def consume(member: Member, file: int, stopping: threading.Event) -> None:
    while not stopping.is_set():
        values = member.poll(POLL_SECONDS)
        if not values:
            continue
        os.write(file, b"".join(value + b"\n" for value in values))
        try:
            member.commit()
        except CommitRefused:
            # A rebalance was faster, or the broker is down: the records come again, to this member or another.
            continue


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
