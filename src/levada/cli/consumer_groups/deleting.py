"""`--delete` and `--delete-offsets`: groups and offsets are forgotten, and each one's fate is told."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Final

from levada.cli.consumer_groups import java_errors
from levada.cli.consumer_groups.failing import print_error
from levada.cli.consumer_groups.listing import group_ids
from levada.cli.consumer_groups.scope import all_partitions, parse_scope
from levada.cli.consumer_groups.tables import MISSING, heading, line, widest
from levada.cli.kit.batches import in_batches
from levada.cli.kit.refusals import changing
from levada.client.blocking import Admin
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode

ABOUT_THE_GROUP: Final = (
    ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)  # fmt: skip

UNKNOWN_PARTITION: Final = -1


def delete_groups(admin: Admin, arguments: argparse.Namespace) -> None:
    ids = group_ids(admin, arguments)
    outcomes = in_batches("deleting groups", ids, lambda some: admin.delete_groups(some, timeout_ms=arguments.timeout))
    if not outcomes.errors:
        print(f"Deletion of requested consumer groups ({_names(outcomes.done)}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group_id, error in outcomes.errors.items():
        print(f"* Group '{group_id}' could not be deleted due to: {java_errors.spelled(error)}")
    if outcomes.done:
        print(f"\nThese consumer groups were deleted successfully: {_names(outcomes.done)}")


def _names(ids: Iterable[str]) -> str:
    return ", ".join(f"'{group_id}'" for group_id in ids)


def delete_offsets(admin: Admin, arguments: argparse.Namespace) -> None:
    (group_id,) = arguments.group
    fates = _forget(admin, group_id, arguments)
    errors = [error for partition, error in fates.items() if error is not None and partition.partition >= 0]
    _print_verdict(group_id, errors)
    widths = [widest(15, (partition.topic for partition in fates)), 10, 15]
    print()
    print(heading(["TOPIC", "PARTITION", "STATUS"], widths))
    for partition, fate in sorted(fates.items(), key=lambda item: f"{item[0].topic}{item[0].partition}"):
        number = MISSING if partition.partition == UNKNOWN_PARTITION else str(partition.partition)
        status = "Successful" if fate is None else f"Error: {java_errors.spelled(fate)}"
        print(line([partition.topic, number, status], widths))


def _forget(admin: Admin, group_id: str, arguments: argparse.Namespace) -> dict[TopicPartition, KafkaError | None]:
    """What became of each partition; of a topic that cannot be described one with the number -1."""
    partitions, topics = parse_scope(arguments.topic)
    described = admin.describe_topics(topics, timeout_ms=arguments.timeout)
    partitions += [partition for topic in described.done.values() for partition in all_partitions(topic)]
    fates: dict[TopicPartition, KafkaError | None] = {
        TopicPartition(str(topic), UNKNOWN_PARTITION): error for topic, error in described.errors.items()
    }
    with changing(f"deleting offsets of group '{group_id}'"):
        outcomes = admin.delete_group_offsets(group_id, partitions, timeout_ms=arguments.timeout)
        fates |= outcomes.done
        fates |= outcomes.errors
    return fates


def _print_verdict(group_id: str, errors: Sequence[KafkaError]) -> None:
    if not errors:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif errors[0].code in ABOUT_THE_GROUP:
        print_error(java_errors.message(errors[0]))
    elif java_errors.is_known(errors[0]):
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(f"Encountered some unknown error: {errors[0]}")
