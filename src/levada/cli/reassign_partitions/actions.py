"""What each action of `levada reassign-partitions` asks of the cluster, and prints."""

import argparse
import random
import time
from collections.abc import Iterable, Mapping
from typing import Final

from levada.cli.kit.refusals import Refused, changing
from levada.cli.kit.terminal import print_json
from levada.cli.reassign_partitions.flags import DEFAULT_TIMEOUT_MS
from levada.cli.reassign_partitions.plan import ReassignmentPlan, plan_document, plan_text
from levada.cli.reassign_partitions.progress import (
    DirectoryProgress,
    directory_lines,
    in_order,
    ongoing_lines,
    partition_lines,
    partition_progress,
    spelled,
)
from levada.cli.reassign_partitions.throttles import clear_all, limit_directories, limit_moves, moves
from levada.client.admin import Replica, TopicDescription
from levada.client.blocking import Admin
from levada.client.errors import KafkaError, UnknownTopicOrPartition
from levada.client.types import TopicPartition
from levada.controller.placement import place
from levada.metadata.image import BrokerState
from levada.model.error_codes import ErrorCode

Replicas = Mapping[TopicPartition, tuple[int, ...]]

PAUSE_SECONDS: Final = 0.1

ALREADY_UNDER_WAY: Final = (
    "Cannot execute because there is an existing partition assignment. Use --additional to override this and create a"
    " new partition assignment in addition to the existing one. The --additional flag can also be used to change the"
    " throttle by resubmitting the current reassignment."
)
RUN_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


def generate(admin: Admin, topics: list[str], arguments: argparse.Namespace) -> None:
    current = _all_replicas(_describe(admin, topics))
    directories = _directories(admin, current)
    brokers = _usable_brokers(admin, arguments.broker_list, is_rack_aware=not arguments.disable_rack_aware)
    proposed = propose(current, brokers, random.Random())
    if arguments.json:
        print_json({"current": plan_document(current, directories), "proposed": plan_document(proposed, {})})
        return
    print(f"Current partition replica assignment\n{plan_text(current, directories)}\n")
    print(f"Proposed partition reassignment configuration\n{plan_text(proposed, {})}")


def propose(current: Replicas, brokers: list[BrokerState], chance: random.Random) -> dict[TopicPartition, list[int]]:
    """Each topic spread over the brokers anew, with as many replicas as its first partition has."""
    proposed = {}
    for topic in dict.fromkeys(partition.topic for partition in current):
        count = sum(partition.topic == topic for partition in current)
        factor = len(current[TopicPartition(topic, 0)])
        if factor > len(brokers):
            ids = ",".join(str(broker.broker_id) for broker in brokers)
            raise Refused(
                f"topic {topic} has {factor} replica(s) of each partition, and of the brokers in --broker-list"
                f" {'only ' + ids if ids else 'none'} can be used"
            )
        start, shift = (chance.randrange(len(brokers)) for _ in range(2))
        placed = place(brokers, count, factor, start=start, shift=shift)
        proposed.update({TopicPartition(topic, index): replicas for index, replicas in enumerate(placed)})
    return proposed


def execute(admin: Admin, plan: ReassignmentPlan, arguments: argparse.Namespace) -> None:
    wanted = plan.replicas
    ongoing = admin.list_partition_reassignments()
    if ongoing and not arguments.additional:
        raise Refused(ALREADY_UNDER_WAY)
    known = _live_brokers(admin)
    unknown = [broker for replicas in wanted.values() for broker in replicas if broker not in known]
    if unknown:
        raise Refused(f"Unknown broker id {unknown[0]}")
    current = _current_replicas(admin, wanted)
    print(f"Current partition replica assignment\n\n{plan_text(current, _directories(admin, current))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback", flush=True)
    rate, directory_rate = arguments.throttle, arguments.replica_alter_log_dirs_throttle
    is_throttled = any(one is not None and one >= 0 for one in (rate, directory_rate))
    if is_throttled:
        print(RUN_VERIFY)
    if rate is not None and rate >= 0:
        limit_moves(admin, moves(ongoing, wanted, current), rate)
    if directory_rate is not None and directory_rate >= 0:
        limit_directories(admin, sorted({replica.broker for replica in plan.directories}), directory_rate)
    with changing("the reassignment was being started"):
        started = admin.alter_partition_reassignments(
            wanted, allow_replication_factor_change=not arguments.disallow_replication_factor_change
        )
    if started.errors:
        left = "; the throttle stays set, and --verify removes it" if is_throttled else ""
        raise Refused(f"Error reassigning partition(s): {_reasons(started.errors)}{left}")
    print(f"Successfully started partition reassignment{_plural(wanted)} for {_joined(sorted(wanted))}", flush=True)
    if plan.directories:
        _move_directories(admin, plan.directories, arguments)


def verify(admin: Admin, plan: ReassignmentPlan, arguments: argparse.Namespace) -> None:
    ongoing = admin.list_partition_reassignments()
    looked_up = {partition.topic for partition in plan.replicas if partition not in ongoing}
    partitions = partition_progress(plan.replicas, ongoing, _describe_if_there(admin, looked_up))
    replicas = _directory_progress(admin, plan.directories)
    is_over = not ongoing and not any(one.is_under_way for one in replicas.values())
    clears = is_over and not arguments.preserve_throttles
    if not arguments.json:
        for line in partition_lines(partitions):
            print(line)
        # An empty line where no directories are given, as Apache prints it.
        print("\n".join(directory_lines(replicas)))
    if clears:
        clear_all(admin, *_involved(admin, plan), is_quiet=arguments.json)
    if arguments.json:
        print_json(
            {
                "partitions": [
                    {
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "state": one.state,
                        "current_replicas": one.current,
                        "target_replicas": one.target,
                    }
                    for partition, one in partitions.items()
                ],
                "log_dirs": [
                    {
                        "topic": replica.topic,
                        "partition": replica.partition,
                        "broker": replica.broker,
                        "state": replicas[replica].state,
                        "current": replicas[replica].place.path,
                        "future": replicas[replica].place.future_path,
                        "target": replicas[replica].target,
                    }
                    for replica in sorted(replicas, key=in_order)
                ],
                "throttles_cleared": clears,
            }
        )


def cancel(admin: Admin, plan: ReassignmentPlan, arguments: argparse.Namespace) -> None:
    found = admin.list_partition_reassignments(plan.replicas)
    moving = sorted(partition for partition, one in found.items() if one.adding or one.removing)
    if moving:
        with changing("the reassignment was being taken back"):
            cancelled = admin.alter_partition_reassignments(dict.fromkeys(moving))
        if cancelled.errors:
            plural = _plural(cancelled.errors)
            raise Refused(f"Error cancelling partition reassignment{plural} for: {_reasons(cancelled.errors)}")
        print(f"Successfully cancelled partition reassignment{_plural(moving)} for: {_joined(moving)}", flush=True)
    else:
        print("None of the specified partition reassignments are active.")
    back = {
        replica: one.place.path
        for replica, one in _directory_progress(admin, plan.directories).items()
        if one.place.path is not None and one.place.future_path is not None
    }
    if back:
        _move_directories(admin, back, arguments)
    else:
        # Apache ends this line with nothing, and what follows stands on it.
        print("None of the specified partition moves are active.", end="")
    if not arguments.preserve_throttles:
        clear_all(admin, *_involved(admin, plan))
    elif not back:
        print()


def list_ongoing(admin: Admin, arguments: argparse.Namespace) -> None:
    ongoing = admin.list_partition_reassignments()
    if arguments.json:
        print_json(
            {
                "reassignments": [
                    {
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "replicas": one.replicas,
                        "adding": one.adding,
                        "removing": one.removing,
                    }
                    for partition, one in sorted(ongoing.items())
                ]
            }
        )
        return
    for line in ongoing_lines(ongoing):
        print(line)


def _move_directories(admin: Admin, paths: Mapping[Replica, str], arguments: argparse.Namespace) -> None:
    """A replica that is not there yet, since its partition is on its way, is asked for again."""
    timeout_ms = DEFAULT_TIMEOUT_MS if arguments.timeout is None else arguments.timeout
    deadline = time.monotonic() + timeout_ms / 1_000
    left = dict(paths)
    while True:
        with changing("replicas were being moved between log directories"):
            try:
                moved = admin.alter_replica_log_dirs(left)
            except KafkaError as error:
                raise Refused(f"Failed to alter dir for {_spelled(left)}: {error}") from None
        for replica, fault in moved.errors.items():
            if fault.code != ErrorCode.REPLICA_NOT_AVAILABLE:
                raise Refused(f"Failed to alter dir for {spelled(replica)}: {fault}")
        for replica in sorted(moved.done, key=in_order):
            print(
                f"Successfully started moving log directory to {left.pop(replica)} for replica"
                f" {replica.topic}-{replica.partition} with broker {replica.broker} ",
                flush=True,
            )
        if not left:
            return
        if time.monotonic() >= deadline:
            raise Refused(f"Timed out before log directory move{_plural(left)} could be started for: {_spelled(left)}")
        time.sleep(PAUSE_SECONDS)


def _directory_progress(admin: Admin, paths: Mapping[Replica, str]) -> dict[Replica, DirectoryProgress]:
    found = admin.describe_replica_log_dirs(paths)
    found.raise_any()
    return {replica: DirectoryProgress(path, found[replica]) for replica, path in paths.items()}


def _involved(admin: Admin, plan: ReassignmentPlan) -> tuple[list[int], list[str]]:
    """Brokers and topics that throttles may have been set for."""
    brokers = _live_brokers(admin).union(*(replicas for _, replicas in plan.partitions))
    return sorted(brokers), sorted({partition.topic for partition, _ in plan.partitions})


def _live_brokers(admin: Admin) -> set[int]:
    return {broker.broker_id for broker in admin.describe_cluster().brokers}


def _usable_brokers(admin: Admin, wanted: list[int], *, is_rack_aware: bool) -> list[BrokerState]:
    brokers = [
        BrokerState(one.broker_id, epoch=0, incarnation_id=b"", rack=one.rack if is_rack_aware else None)
        for one in admin.describe_cluster().brokers
        if one.broker_id in wanted
    ]
    rackless = sum(broker.rack is None for broker in brokers)
    if is_rack_aware and 0 < rackless < len(brokers):
        raise Refused(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment"
            " without rack information."
        )
    return brokers


def _directories(admin: Admin, replicas: Replicas) -> dict[Replica, str]:
    """Where replicas lie, as far as their brokers are up."""
    live = _live_brokers(admin)
    wanted = [
        Replica(*partition, broker) for partition, brokers in replicas.items() for broker in brokers if broker in live
    ]
    found = admin.describe_replica_log_dirs(wanted)
    found.raise_any()
    return {replica: one.path for replica, one in found.items() if one.path is not None}


def _current_replicas(admin: Admin, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
    wanted = list(wanted)
    there = _all_replicas(_describe(admin, dict.fromkeys(partition.topic for partition in wanted)))
    missing = [str(partition) for partition in wanted if partition not in there]
    if missing:
        raise Refused(f"Unable to find partition: {', '.join(missing)}")
    return {partition: there[partition] for partition in wanted}


def _all_replicas(topics: Mapping[str, TopicDescription]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition(name, one.index): one.replicas for name, topic in topics.items() for one in topic.partitions}


def _describe(admin: Admin, topics: Iterable[str]) -> dict[str, TopicDescription]:
    wanted = list(topics)
    found = _describe_if_there(admin, wanted)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise Refused(f"Topic {missing[0]} not found.")
    return found


def _describe_if_there(admin: Admin, topics: Iterable[str]) -> dict[str, TopicDescription]:
    found = admin.describe_topics(topics)
    for error in found.errors.values():
        if not isinstance(error, UnknownTopicOrPartition):
            raise error
    return {topic.name: topic for topic in found.done.values()}


def _reasons(errors: Mapping[TopicPartition, KafkaError]) -> str:
    return "; ".join(
        f"{partition}: {str(errors[partition]).removeprefix(f'{partition}: ')}" for partition in sorted(errors)
    )


def _spelled(replicas: Iterable[Replica]) -> str:
    return ",".join(spelled(replica) for replica in sorted(replicas, key=in_order))


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, partitions))


def _plural(things: "Mapping[TopicPartition, object] | Mapping[Replica, object] | list[TopicPartition]") -> str:
    return "" if len(things) == 1 else "s"
