"""Groups through crashes of their members and of the broker: one owner for each partition, and no commit forgotten."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from levada.coordination.decision import Record
from levada.coordination.shard import Shard
from levada.groups import GroupMachine
from levada.groups import classic as classic_groups
from levada.groups.classic import ClassicGroups
from levada.groups.consumer.group import ConsumerGroup
from levada.groups.rebalance import Rebalance
from levada.groups.records import ConsumerGroupCurrentMemberAssignmentKey, GroupMetadataKey, OffsetCommitKey
from levada.model.error_codes import ErrorCode
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.group_history import Generations, OffsetHistory, PartitionOwners
from levada.sim.frame import run_scenario
from levada.sim.scenarios.group_storm import GroupStorm

SEEDS = range(9)
BLOCK = 3
PARTITION = ("topic", 0)


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BLOCK))
def test_groups_survive_crashes_and_leave_the_same_trace_in_another_process(first: int) -> None:
    digests = {}
    for seed in range(first, first + BLOCK):
        outcome, _ = run_scenario(GroupStorm, seed)
        assert outcome.counts["crashes"] >= 1
        assert outcome.counts["commits"] > 50
        digests[str(seed)] = outcome.digest
    command = [sys.executable, "-m", "levada.sim", "--scenario", "groups", "--json"]
    command += ["--first", str(first), "--count", str(BLOCK)]
    environment = {**os.environ, "PYTHONHASHSEED": str(first + 1)}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=200)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == digests


@pytest.mark.parametrize("seed", [15, 1334710800, 3888049220])
def test_groups_that_go_back_and_forth_between_the_protocols_come_to_rest(seed: int) -> None:
    """In one, what an interrupted rebalance was to assign had no owner any more.

    In one they had no leader to look for new topics, in one a member was fenced by a timer of the time before.
    """
    run_scenario(GroupStorm, seed)


def test_a_member_that_takes_the_place_of_a_static_one_may_commit_with_an_old_epoch_of_its_own() -> None:
    """As in Kafka, where the partitions of a static member that has left for a while count from epoch 0 on."""
    run_scenario(GroupStorm, 525)


@pytest.mark.parametrize("seed", [31, 71])
def test_groups_come_to_rest_when_their_broker_could_not_write_for_a_while(seed: int) -> None:
    """In one it could not write index entries that no reader needs; in one it had not started yet."""
    run_scenario(GroupStorm, seed)


def complaint(seeds: range = range(10)) -> str:
    """What the first seed that fails is failed for."""
    for seed in seeds:
        try:
            run_scenario(GroupStorm, seed)
        except CheckFailed as failure:
            return str(failure)
    return "nothing"


def test_a_commit_that_is_acknowledged_before_it_is_on_the_device_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Shard[Any]) -> None:
        self._output += [(token, reply) for _, token, reply in self._waiting]
        self._waiting.clear()

    monkeypatch.setattr(Shard, "advance", hasty)
    # Few seeds meet it; the first of these does.
    told = complaint(range(57, 120))
    # What is lost may also be a member, with what it wrote.
    assert "and not at" in told or "was told" in told


def test_a_commit_that_is_acknowledged_and_not_written_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: GroupMachine, token: Any, request: Any, version: int, new: Any, now_ms: int) -> None:
        refusal = self._check_commit(request, new, version, now_ms)
        self.outbox.answer(token, [refusal] * len(new))

    monkeypatch.setattr(GroupMachine, "commit", forgetful)
    assert "and not at" in complaint()


def test_a_commit_of_an_old_generation_that_is_accepted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    check = classic_groups._check_commit

    def lenient(group: Any, request: Any, **details: Any) -> ErrorCode:
        code = check(group, request, **details)
        return ErrorCode.NONE if code == ErrorCode.ILLEGAL_GENERATION else code

    monkeypatch.setattr(classic_groups, "_check_commit", lenient)
    assert "was accepted" in complaint()


def test_a_partition_that_is_handed_out_while_a_member_has_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "is_owned", lambda *_: False)
    assert "was accepted although" in complaint()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (OffsetCommitKey, "and not at"),
        (GroupMetadataKey, "was told"),
        (ConsumerGroupCurrentMemberAssignmentKey, "was told"),
    ],
)
def test_a_broker_that_does_not_read_back_some_of_its_records_is_caught(
    monkeypatch: pytest.MonkeyPatch, key: type, text: str
) -> None:
    load = Shard.load

    def partly(self: Shard[Any], record: Record) -> None:
        if not isinstance(record.key, key):
            load(self, record)

    monkeypatch.setattr(Shard, "load", partly)
    assert text in complaint()


def test_members_that_are_never_missed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rebalance, "expire_session", lambda *_: None)
    assert "not at rest" in complaint()


def test_a_join_that_is_never_answered_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    join = ClassicGroups.join
    joins = iter(range(1_000_000))

    def deaf(self: ClassicGroups, *request: Any) -> None:
        if next(joins) % 5:
            join(self, *request)

    monkeypatch.setattr(ClassicGroups, "join", deaf)
    assert "JoinGroupRequest" in complaint()


def test_what_is_read_is_the_last_commit_or_one_that_was_under_way() -> None:
    history = OffsetHistory()
    history.check_read(PARTITION, "", -1, 0.5, 0.6)
    first = history.send(PARTITION, "first", 10, 1.0)
    # It is not known yet whether it has happened.
    history.check_read(PARTITION, "", -1, 1.1, 1.2)
    history.acknowledge(first, 2.0)
    history.check_read(PARTITION, "first", 10, 2.1, 2.2)
    with pytest.raises(CheckFailed, match="and not at 10 'first'"):
        history.check_read(PARTITION, "", -1, 2.1, 2.2)
    refused = history.send(PARTITION, "refused", 5, 3.0)
    history.refuse(refused, 3.1)
    with pytest.raises(CheckFailed, match="which was refused"):
        history.check_read(PARTITION, "refused", 5, 3.2, 3.3)
    with pytest.raises(CheckFailed, match="which no member committed"):
        history.check_read(PARTITION, "strange", 5, 3.2, 3.3)


def test_a_commit_without_an_answer_may_come_late_but_not_after_a_crash() -> None:
    history = OffsetHistory()
    history.send(PARTITION, "lost", 10, 1.0)
    second = history.send(PARTITION, "second", 11, 2.0)
    history.acknowledge(second, 2.1)
    history.check_read(PARTITION, "lost", 10, 3.0, 3.1)
    history.crash(4.0)
    third = history.send(PARTITION, "third", 12, 5.0)
    history.acknowledge(third, 5.1)
    with pytest.raises(CheckFailed, match="and not at 12 'third'"):
        history.check_read(PARTITION, "lost", 10, 6.0, 6.1)


def test_a_commit_that_was_read_does_not_come_again() -> None:
    history = OffsetHistory()
    history.send(PARTITION, "lost", 10, 1.0)
    history.check_read(PARTITION, "lost", 10, 2.0, 2.1)
    second = history.send(PARTITION, "second", 11, 3.0)
    history.acknowledge(second, 3.1)
    with pytest.raises(CheckFailed, match="and not at 11 'second'"):
        history.check_read(PARTITION, "lost", 10, 4.0, 4.1)


def test_who_has_lost_a_partition_to_another_must_be_out() -> None:
    ownership = PartitionOwners()
    ownership.take("old", PARTITION, 1.0, 1.1)
    ownership.confirm("old", 1.2, "a heartbeat")
    ownership.take("new", PARTITION, 2.0, 2.1)
    # It was sent before.
    ownership.confirm("old", 2.05, "a heartbeat")
    ownership.confirm("new", 2.2, "a heartbeat")
    with pytest.raises(CheckFailed, match="from old to new"):
        ownership.confirm("old", 2.2, "a heartbeat")
    ownership.forget("old")
    ownership.confirm("old", 2.3, "a heartbeat")


def test_giving_up_too_late_does_not_help() -> None:
    ownership = PartitionOwners()
    ownership.take("old", PARTITION, 1.0, 1.1)
    ownership.take("new", PARTITION, 2.0, 2.1)
    ownership.give_up("old", PARTITION)
    with pytest.raises(CheckFailed, match="from old to new"):
        ownership.confirm("old", 2.2, "a heartbeat")


def test_of_two_who_asked_for_a_partition_at_the_same_time_one_may_have_it() -> None:
    ownership = PartitionOwners()
    ownership.take("first", PARTITION, 1.0, 1.2)
    ownership.take("second", PARTITION, 1.1, 1.3)
    ownership.confirm("first", 1.4, "a heartbeat")
    with pytest.raises(CheckFailed, match="from first to second"):
        ownership.confirm("second", 1.4, "a heartbeat")


def test_a_generation_has_one_assignment() -> None:
    generations = Generations()
    generations.learn(1, "one")
    generations.learn(1, "one")
    generations.learn(2, "two")
    with pytest.raises(CheckFailed, match="generation 1"):
        generations.learn(1, "another")
