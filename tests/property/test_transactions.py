"""Random interleavings of producers, groups, crashes and lost messages: every transaction is all or nothing.

`LEVADA_SOAK=1` plays ten thousand of them; a failing one prints its seed.
"""

import os
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import count, permutations
from typing import Any

import pytest

from levada.coordination.shard import Shard
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.transactions import (
    MARKERS,
    GroupMember,
    GroupOutcome,
    Marker,
    MarkerWork,
    TransactionMachine,
    TransactionSettings,
    TransactionState,
)
from levada.transactions.transaction import TopicPartition
from tests.property.partition_logs import PartitionLog
from tests.unit.transactions.harness import FROM_BROKERS, Coordinator
from tests.unit.transactions.journals import MemoryJournal

IS_SOAK = bool(os.environ.get("LEVADA_SOAK"))
SEEDS = 10_000 if IS_SOAK else 300
STEPS = 150
PRODUCERS = 20
PARTITIONS: list[TopicPartition] = [("p", number) for number in range(4)]
TIMEOUT_MS = 20_000


@dataclass(slots=True)
class Instance:
    """A producer as its process knows itself; older ones of the same id go on as zombies."""

    name: str
    number: int
    is_classic: bool
    identity: tuple[int, int] | None = None
    serial: int = 0
    is_open: bool = False
    ending: bool | None = None
    """Commit or abort, as long as it is not answered."""
    waits: bool = False

    @property
    def transaction(self) -> Hashable:
        return self.name, self.number, self.serial

    def begin_next(self, producer_id: int, epoch: int) -> None:
        self.identity = producer_id, epoch
        self.serial += 1
        self.is_open, self.ending = False, None

    def give_up(self) -> None:
        """It must be initialized before it can go on."""
        self.identity, self.is_open, self.ending = None, False, None
        self.serial += 1


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.settings = TransactionSettings(transaction_version=self.chance.choice([1, 2, 2]))
        self.journal = MemoryJournal(self.settings.transaction_version)
        self.logs = {partition: PartitionLog() for partition in PARTITIONS}
        self.now_ms = 1_000_000
        self.coordinator_epoch = 0
        self.work: list[tuple[MarkerWork, int, list[TopicPartition]]] = []
        """With the epoch of the coordinator that decided it, and the partitions that are not told yet."""
        self.numbers = count(1)
        self.producer_ids = count(1)
        size = self.chance.randint(1, PRODUCERS)
        self.live = [self.new_instance(f"t{number}") for number in range(size)]
        self.zombies: list[Instance] = []
        self.acknowledged: dict[Hashable, bool] = {}
        self.groups: list[tuple[int, list[Hashable]]] = []
        """Of those that were decided: the number of the batch, and the transactions."""
        self.asking: list[tuple[list[Instance], list[GroupMember]]] = []
        """Groups that have no answer yet."""
        self.replies: dict[object, Callable[[Any], None]] = {}
        self.load()

    def new_instance(self, name: str) -> Instance:
        return Instance(name, next(self.numbers), is_classic=self.chance.random() < 0.4)

    def load(self) -> None:
        self.coordinator_epoch += 1
        machine = TransactionMachine(self.settings, lambda: next(self.producer_ids))
        self.shard = Shard(machine, self.journal)
        for record in self.journal.records():
            self.shard.load(record)
        self.shard.finish_loading(self.journal.end_offset, self.now_ms)
        self.collect()

    def crash(self) -> None:
        """Batches that are not committed may be lost; so are all replies."""
        committed = self.journal.committed_offset()
        batches, kept = self.journal.batches, 0
        while sum(map(len, batches[:kept])) < committed:
            kept += 1
        self.journal.batches = batches[: self.chance.randint(kept, len(batches))]
        self.groups = [one for one in self.groups if one[0] < len(self.journal.batches)]
        if self.journal.held_at is not None:
            self.journal.held_at = self.journal.end_offset
        in_groups = [id(one) for chosen, _ in self.asking for one in chosen]
        for instance in [*self.live, *self.zombies]:
            instance.waits = id(instance) in in_groups
        self.replies.clear()
        # What the old coordinator has on its way may still arrive.
        self.work = [one for one in self.work if self.chance.random() < 0.5]
        self.load()
        for chosen, members in self.asking.copy():
            self.ask_for_group(chosen, members)

    def ask(self, operation: Callable[[TransactionMachine, Any], None], reply: Callable[[Any], None]) -> None:
        token = object()
        self.replies[token] = reply
        self.shard.run(lambda machine: operation(machine, token), self.now_ms)
        self.collect()

    def collect(self) -> None:
        for token, reply in self.shard.take_output():
            if token is MARKERS:
                assert isinstance(reply, MarkerWork)
                assert len(reply.markers) == 1 or all(one.partitions for one in reply.markers)
                self.work.append((reply, self.coordinator_epoch, list(reply.by_partition())))
            elif self.chance.random() < 0.9:
                self.replies.pop(token)(reply)
            else:
                self.replies.pop(token)(None)

    def step(self) -> None:
        play = self.chance.choices(
            [self.act, self.act_as_zombie, self.group_commit, self.tell, self.pass_time, self.commit_more, self.hold],
            [60, 10, 8, 25, 4, 8, 2],
        )[0]
        play()
        if self.chance.random() < 0.01:
            self.crash()

    def act(self) -> None:
        instance = self.chance.choice(self.live)
        if self.chance.random() < 0.03:
            # Another process begins with the id; this one does not know.
            self.zombies.append(instance)
            self.live[self.live.index(instance)] = self.new_instance(instance.name)
            return
        self.act_as(instance)

    def act_as_zombie(self) -> None:
        if self.zombies:
            self.act_as(self.chance.choice(self.zombies))

    def act_as(self, instance: Instance) -> None:
        if instance.waits:
            return
        if instance.identity is None:
            if instance in self.live:
                self.initialize(instance)
        elif instance.ending is not None or (instance.is_open and self.chance.random() < 0.4):
            self.end(instance)
        else:
            self.produce(instance)

    def initialize(self, instance: Instance) -> None:
        request = InitProducerIdRequest(transactional_id=instance.name, transaction_timeout_ms=TIMEOUT_MS)
        instance.waits = True

        def answered(reply: Any) -> None:
            instance.waits = False
            if reply is not None and not reply.error_code:
                instance.begin_next(reply.producer_id, reply.producer_epoch)

        self.ask(lambda machine, token: machine.init_producer_id(token, request, 5, self.now_ms), answered)

    def produce(self, instance: Instance) -> None:
        assert instance.identity is not None
        partition = self.chance.choice(PARTITIONS)
        producer_id, epoch = instance.identity
        version = 3 if instance.is_classic else FROM_BROKERS
        instance.waits = True

        def answered(code: Any) -> None:
            instance.waits = False
            if code is ErrorCode.NONE:
                instance.is_open = True
                if not self.logs[partition].append(producer_id, epoch, instance.transaction):
                    instance.give_up()
            elif code is not None and code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                instance.give_up()

        self.ask(
            lambda machine, token: machine.add_partitions(
                token, instance.name, producer_id, epoch, [partition], version, self.now_ms
            ),
            answered,
        )

    def end(self, instance: Instance) -> None:
        assert instance.identity is not None
        if instance.ending is None:
            instance.ending = self.chance.random() < 0.7
        commit, transaction, (producer_id, epoch) = instance.ending, instance.transaction, instance.identity
        request = EndTxnRequest(
            transactional_id=instance.name, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        version = 4 if instance.is_classic else 5
        instance.waits = True

        def answered(reply: Any) -> None:
            instance.waits = False
            if reply is None or reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return
            if reply.error_code:
                instance.give_up()
                return
            self.acknowledged[transaction] = commit
            is_bumped = reply.producer_id >= 0
            instance.begin_next(*((reply.producer_id, reply.producer_epoch) if is_bumped else (producer_id, epoch)))

        self.ask(lambda machine, token: machine.end(token, request, version, self.now_ms), answered)

    def group_commit(self) -> None:
        ready = [one for one in self.live if one.is_open and one.ending is None and not one.waits]
        if len(ready) < 2:
            return
        chosen = self.chance.sample(ready, self.chance.randint(2, len(ready)))
        if self.zombies and self.chance.random() < 0.1:
            lost = [one for one in self.zombies if one.is_open and not one.waits and one.ending is None]
            chosen += [one for one in lost if one.name not in {other.name for other in chosen}][:1]
        members = [GroupMember(one.name, *one.identity) for one in chosen if one.identity is not None]
        for one in chosen:
            one.waits = True
        self.asking.append((chosen, members))
        self.ask_for_group(chosen, members)

    def ask_for_group(self, chosen: list[Instance], members: list[GroupMember]) -> None:
        transactions = [one.transaction for one in chosen]
        written = len(self.journal.batches)

        def decide(machine: TransactionMachine, token: Any) -> None:
            machine.group_commit(token, members, self.now_ms)
            if machine.outbox.records:
                self.groups.append((written, transactions))

        self.ask(decide, lambda outcome: self.grouped(chosen, members, outcome))

    def grouped(self, chosen: list[Instance], members: list[GroupMember], outcome: GroupOutcome | None) -> None:
        if outcome is None:
            # The reply was lost: the client that commits the group asks again until there is one.
            self.ask_for_group(chosen, members)
            return
        self.asking = [one for one in self.asking if one[0] is not chosen]
        assert all(one.error_code for one in outcome.members) == bool(outcome.error_code)
        for instance, member in zip(chosen, outcome.members):
            instance.waits = False
            if not outcome.error_code:
                self.acknowledged[instance.transaction] = True
                instance.begin_next(member.producer_id, member.producer_epoch)
            elif member.error_code is not ErrorCode.OPERATION_NOT_ATTEMPTED:
                instance.give_up()

    def tell(self) -> None:
        """One write to one partition; a transaction with all its markers is complete."""
        if not self.work:
            return
        work, coordinator_epoch, left = self.chance.choice(self.work)
        told: list[Marker] = [one for one in work.markers if not one.partitions]
        if left:
            partition = left.pop(self.chance.randrange(len(left)))
            told = work.by_partition()[partition]
            self.logs[partition].write(told, coordinator_epoch)
            self.check_groups(partition)
        # Only the coordinator that sent them is told, and once: classic transactions have the epoch in common.
        for marker in told if coordinator_epoch == self.coordinator_epoch else ():
            if not set(marker.partitions) & set(left):
                self.shard.run(
                    lambda machine, one=marker: machine.markers_written(  # type: ignore[misc]
                        one.transactional_id, one.producer_epoch, self.now_ms
                    ),
                    self.now_ms,
                )
        self.collect()
        if not left:
            self.work = [one for one in self.work if one[0] is not work]

    def check_groups(self, partition: TopicPartition) -> None:
        for _, group in self.groups:
            visible, present = self.logs[partition].visible(group)
            assert visible in (0, present), f"{partition} shows {visible} of {present} members of a group"

    def pass_time(self) -> None:
        self.now_ms += self.chance.choice([1, 1_000, 15_000])
        self.shard.expire(self.now_ms)
        self.collect()

    def hold(self) -> None:
        if self.journal.held_at is None:
            self.journal.held_at = self.journal.end_offset

    def commit_more(self) -> None:
        self.journal.held_at = None
        self.shard.advance()
        self.collect()

    def settle(self) -> None:
        """All processes are gone; what they left behind is decided by timeouts and told to everybody."""
        self.commit_more()
        for _ in range(3):
            self.now_ms += TIMEOUT_MS
            self.pass_time()
            while self.work:
                self.tell()

    def check(self) -> None:
        decided: dict[Hashable, set[bool]] = {}
        for partition, log in self.logs.items():
            assert log.is_settled(), f"{partition} has open transactions"
            self.check_groups(partition)
            for transaction, outcomes in log.outcomes.items():
                decided.setdefault(transaction, set()).update(outcomes)
        for transaction, outcomes in decided.items():
            assert len(outcomes) == 1, f"{transaction} was decided as {outcomes}"
            if transaction in self.acknowledged:
                assert outcomes == {self.acknowledged[transaction]}, f"{transaction} was answered otherwise"
        states = {one.state for one in self.shard.machine.transactions.values()}
        assert states <= {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


@pytest.mark.timeout(3_600 if IS_SOAK else 60)
def test_every_transaction_is_all_or_nothing_in_any_interleaving() -> None:
    for seed in range(SEEDS):
        world = World(seed)
        try:
            for _ in range(STEPS):
                world.step()
            world.settle()
            world.check()
        except BaseException:
            print(f"seed {seed}")
            raise


MEMBERS = [f"m{number:02}" for number in range(20)]
SHARED = PARTITIONS[:3]
ORDERS = [*permutations(SHARED)][:: 1 if IS_SOAK else 5]
"""Of telling the partitions. They differ in names alone: no partition has members that another has not as well."""


def partitions_of(number: int) -> list[TopicPartition]:
    """Every combination of partitions is there, so that every order of markers leaves another set complete."""
    chosen = number % 7 + 1
    return [partition for bit, partition in enumerate(SHARED) if chosen >> bit & 1]


def complete(told: list[TopicPartition]) -> list[str]:
    """The members that can be completed when these partitions are told, in order."""
    return [name for number, name in enumerate(MEMBERS) if set(partitions_of(number)) <= set(told)]


class Group:
    """Twenty open transactions, and their coordinator just before the group commit."""

    def __init__(self, journal: MemoryJournal | None = None) -> None:
        self.coordinator = Coordinator(journal=journal)
        self.logs = {partition: PartitionLog() for partition in SHARED}
        self.epoch = 1
        if journal is None:
            for number, name in enumerate(MEMBERS):
                self.coordinator.open(name, version=FROM_BROKERS, partitions=partitions_of(number))
        for number, name in enumerate(MEMBERS):
            for partition in partitions_of(number):
                self.logs[partition].append(1_000 + number, 0, name)
        self.members = [GroupMember(name, 1_000 + number, 0) for number, name in enumerate(MEMBERS)]

    def write(self, partition: TopicPartition) -> None:
        (work,) = self.coordinator.work
        self.logs[partition].write(work.by_partition().get(partition, []), self.epoch)
        assert self.logs[partition].visible(MEMBERS) == (len(self.logs[partition].outcomes),) * 2

    def reload(self) -> None:
        self.epoch += 1
        self.coordinator.load()

    def all_or_none(self) -> set[int]:
        """How many members each partition shows: none, or all that are there."""
        shares = [log.visible(MEMBERS) for log in self.logs.values()]
        assert all(visible in (0, present) for visible, present in shares)
        return {visible for visible, _ in shares}


def test_a_group_of_twenty_is_all_or_none_at_every_crash_point() -> None:
    """Every order of the partitions, every point between two steps, and every number of lost completions."""
    before = Group().coordinator.journal
    start = len(before.batches)
    points = 0
    for order in ORDERS:
        for told_count in range(len(order) + 1):
            told = list(order[:told_count])
            newly, earlier = complete(told), complete(told[:-1])
            # Between the last write and the next there are as many points as members that became complete.
            for done in range(len(newly) - len(earlier) + 1):
                completed = [*earlier, *[name for name in newly if name not in earlier][:done]]
                for kept in range(len(completed) + 1):
                    crash_and_recover(before.first(start), told, completed, kept)
                    points += 1
    assert points == 246 * len(ORDERS)


def crash_and_recover(journal: MemoryJournal, told: list[TopicPartition], completed: list[str], kept: int) -> None:
    group = Group(journal)
    outcome = group.coordinator.group_commit(group.members)
    assert not outcome.error_code
    for partition in told:
        group.write(partition)
    for name in completed:
        group.coordinator.markers_written(name, 1)
    del journal.batches[len(journal.batches) - len(completed) + kept :]
    group.reload()
    assert group.coordinator.group_commit(group.members) == outcome
    left = [name for name in MEMBERS if name not in completed[:kept]]
    assert [work.transactional_ids for work in group.coordinator.work] == ([tuple(left)] if left else [])
    for partition in SHARED if left else ():
        group.write(partition)
        group.all_or_none()
    group.coordinator.write_markers()
    assert 0 not in group.all_or_none()
    assert {group.coordinator.state(name) for name in MEMBERS} == {TransactionState.COMPLETE_COMMIT}
    assert group.coordinator.group_commit(group.members) == outcome
    assert all(log.is_settled() for log in group.logs.values())


def test_a_crash_before_the_batch_is_committed_leaves_none_of_the_group() -> None:
    group = Group()
    journal = group.coordinator.journal
    start = len(journal.batches)
    journal.held_at = journal.end_offset
    group.coordinator.ask(lambda machine, token: machine.group_commit(token, group.members, 1))
    assert not group.coordinator.work
    journal.batches = journal.batches[:start]
    journal.held_at = None
    group.reload()
    assert {group.coordinator.state(name) for name in MEMBERS} == {TransactionState.ONGOING}
    # The client that commits the group is gone for ever: readers go on after the timeout.
    group.coordinator.advance(80_000)
    while group.coordinator.work:
        work = group.coordinator.work.pop(0)
        for partition, markers in work.by_partition().items():
            group.logs[partition].write(markers, group.epoch)
        for marker in work.markers:
            group.coordinator.markers_written(marker.transactional_id, marker.producer_epoch)
    assert group.all_or_none() == {0}
    assert all(log.is_settled() for log in group.logs.values())
    assert {group.coordinator.state(name) for name in MEMBERS} == {TransactionState.COMPLETE_ABORT}


@pytest.mark.parametrize("late", range(len(MEMBERS)))
def test_one_member_that_is_late_leaves_none_of_the_group(late: int) -> None:
    group = Group()
    group.coordinator.init(MEMBERS[late])
    before = dict(group.coordinator.machine.transactions)
    outcome = group.coordinator.group_commit(group.members)
    assert outcome.error_code is ErrorCode.INVALID_TXN_STATE
    assert [number for number, one in enumerate(outcome.members) if one.error_code is outcome.error_code] == [late]
    assert group.coordinator.machine.transactions == before
