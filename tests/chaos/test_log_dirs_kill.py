"""SIGKILL to a broker, to its workers, or to both, while replicas move between directories under load."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from levada import Admin
from levada.client.admin import ConfigResource, NewTopic, OffsetSpec
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.chaos.directories import (
    DIRECTORIES,
    OFFSETS,
    TRANSACTIONS,
    Committer,
    Thread,
    Transactor,
    Writer,
    is_idle,
    leftovers,
    move,
    places,
    read_all,
    running,
    several,
    wait_for_rounds,
)
from tests.chaos.test_compaction_kill import kill
from tests.logs import check_indexes
from tests.tools.stages import wait_until

KILLS, MOVES = (50, 60) if os.environ.get("LEVADA_SOAK") == "1" else (4, 4)
TOPIC, LEDGER = "moved", 2
"""The last partition is for transactions."""
KEYS = [(TOPIC, 0), (TOPIC, 1), (TOPIC, LEDGER), (OFFSETS, 0), (TRANSACTIONS, 0)]
SETTINGS = (
    "log.roll.ms=300",
    "log.retention.check.interval.ms=300",
)
SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "20000000"}
KEPT_RECORDS = 4_000


class Clients:
    """Writers, a transactor and a group, on topics that all move."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._bootstrap = broker.bootstrap
        self.writers = [Writer(broker.bootstrap, TOPIC, index) for index in range(LEDGER)]
        self.transactor = Transactor(broker.bootstrap, TOPIC, LEDGER)
        self.committer = Committer(broker.bootstrap, TOPIC)
        self.all: list[Thread] = [*self.writers, self.transactor, self.committer]
        self.start_offsets = dict.fromkeys((writer.partition for writer in self.writers), 0)
        """By orders that are written down."""

    def check(self, admin: Admin) -> None:
        """While they rest."""
        for writer in self.writers:
            earliest = admin.list_offsets({writer.partition: OffsetSpec.EARLIEST})[writer.partition].offset
            assert earliest >= self.start_offsets[writer.partition]
            writer.check(read_all(self._bootstrap, writer.partition), earliest)
        ledger = read_all(self._bootstrap, self.transactor.partition, "read_committed")
        assert list(ledger.values()) == self.transactor.committed
        self.committer.check(self._bootstrap)

    def shorten(self, admin: Admin, root: Path) -> None:
        """Begin the logs later; the test may kill the broker when that is on the disk."""
        wanted = {writer.partition: max(writer.acknowledged) - KEPT_RECORDS for writer in self.writers}
        later = {partition: offset for partition, offset in wanted.items() if offset > self.start_offsets[partition]}
        assert dict(admin.delete_records(later)) == later
        wait_until(lambda: all(starts_at(root, partition) >= offset for partition, offset in later.items()))
        self.start_offsets |= later


def starts_at(root: Path, partition: TopicPartition) -> int:
    """What a broker would know if it were started now."""
    [name] = places(root)[partition]
    lines = (root / name / "log-start-offset-checkpoint").read_text().splitlines()
    noted = [int(line.split()[2]) for line in lines if line.startswith(f"{partition.topic} {partition.partition} ")]
    bases = [int(path.stem) for path in (root / name / str(partition)).glob("*.log")]
    return max([*noted, min(bases)])


@contextmanager
def clients(broker: BrokerProcess) -> Iterator[Clients]:
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, LEDGER + 1)]).raise_any()
        admin.incremental_alter_configs({ConfigResource.broker(1): SLOW}).raise_any()
    found = Clients(broker)
    with ExitStack() as stack:
        for thread in found.all:
            stack.enter_context(running(thread))
        wait_for_rounds(found.all)
        yield found


def check_places(root: Path, wanted: dict[tuple[str, int], list[set[str]]]) -> None:
    found = places(root)
    for key, allowed in wanted.items():
        assert set(found[key]) in allowed, (key, found[key], allowed)
    assert all(len(names) == 1 for names in found.values()), found


def test_kills_in_the_middle_of_moves_lose_nothing_and_leave_each_log_in_one_place(tmp_path: Path) -> None:
    chance = random.Random(1)
    broker = several(tmp_path, *SETTINGS).start()
    try:
        with clients(broker) as busy, Admin(broker.bootstrap, default_api_timeout_ms=60_000) as admin:
            for number in range(KILLS):
                chosen = chance.sample(KEYS, chance.randint(1, len(KEYS)))
                targets = {key: chance.choice(DIRECTORIES) for key in chosen}
                before = places(tmp_path)
                move(admin, {key: tmp_path / target for key, target in targets.items()})
                # At any point of the moves, or when they are done.
                time.sleep(chance.random() * chance.choice((0.1, 0.5, 1.0)))
                victims = ("broker", "workers", "both")[number % 3]
                kill(broker, victims)
                wait_for_rounds(busy.all)
                wait_until(lambda: is_idle(admin) and not leftovers(tmp_path), 60)
                given_up = victims == "workers"
                check_places(
                    tmp_path,
                    {key: [{target}, *([set(before[key])] if given_up else [])] for key, target in targets.items()},
                )
                for thread in busy.all:
                    thread.pause()
                busy.check(admin)
                for thread in busy.all:
                    thread.resume()
                busy.shorten(admin, tmp_path)
        assert broker.stop() == 0
        assert "Traceback" not in broker.log, broker.log
        for (topic, index), [name] in places(tmp_path).items():
            check_indexes(tmp_path / name / f"{topic}-{index}")
    finally:
        broker.kill()


def test_flushes_under_way_while_a_log_moves_are_of_no_harm(tmp_path: Path) -> None:
    """A client that waits for the device is told of no error, and no coordinator stops."""
    broker = several(tmp_path, "log.flush.interval.messages=1").start()
    try:
        with clients(broker) as busy, Admin(broker.bootstrap) as admin:
            for number in range(MOVES):
                target = DIRECTORIES[number % len(DIRECTORIES)]
                move(admin, dict.fromkeys(KEYS, tmp_path / target))
                wait_until(lambda: is_idle(admin) and not leftovers(tmp_path))
                check_places(tmp_path, {key: [{target}] for key in KEYS})
                wait_for_rounds(busy.all)
                # Else the copies take longer with every move.
                busy.shorten(admin, tmp_path)
            for thread in busy.all:
                thread.pause()
            busy.check(admin)
        assert " ERROR " not in broker.log, broker.log
        assert broker.stop() == 0
    finally:
        broker.kill()
