"""What `levada topics` does for each of its actions."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from levada.cli.kit.batches import in_batches
from levada.cli.kit.connecting import admin_for
from levada.cli.kit.refusals import Refused, changing
from levada.cli.kit.terminal import print_json
from levada.cli.kit.topic_filter import TopicFilter
from levada.cli.topics.flags import action_of, check
from levada.model.near_names import did_you_mean

if TYPE_CHECKING:
    from levada.client.admin import NewPartitions, TopicId, TopicListing
    from levada.client.blocking import Admin
    from levada.client.errors import KafkaError


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    actions = {"create": _create, "alter": _alter, "delete": _delete, "list": _list, "describe": _describe}
    with admin_for(arguments) as admin:
        actions[action_of(arguments)](admin, arguments)
    return 0


def _create(admin: "Admin", arguments: argparse.Namespace) -> None:
    from levada.client.admin import NewTopic
    from levada.client.admin.topics import DEFAULT
    from levada.model.error_codes import ErrorCode

    name: str = arguments.topic
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could"
            " collide. To avoid issues it is best to use either, but not both."
        )
    topic = NewTopic(
        name,
        partitions=arguments.partitions or DEFAULT,
        replication_factor=arguments.replication_factor or DEFAULT,
        configs=dict(arguments.config),
        assignments=arguments.replica_assignment,
    )
    with changing(f"topic {name} was being created"):
        error = admin.create_topics([topic], retry_on_quota_violation=False).errors.get(name)
        if error is None:
            print(f"Created topic {name}.")
        elif not (arguments.if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
            raise error


def _alter(admin: "Admin", arguments: argparse.Namespace) -> None:
    names = list(_chosen(admin, arguments))
    if not names:
        return
    totals = {name: _grown(admin, name, arguments) for name in names}
    with changing("partitions were being added"):
        grown = admin.create_partitions(totals, retry_on_quota_violation=False)
    _raise_all(grown.errors.values(), done=len(grown.done), did="have their partitions")


def _grown(admin: "Admin", name: str, arguments: argparse.Namespace) -> "NewPartitions":
    from levada.client.admin import NewPartitions

    if not arguments.replica_assignment:
        return NewPartitions(arguments.partitions)
    # The flag lists all partitions from 0 on, the request only those that are new.
    present = len(admin.describe_topics([name])[name].partitions)
    return NewPartitions(arguments.partitions, list(arguments.replica_assignment.values())[present:])


def _delete(admin: "Admin", arguments: argparse.Namespace) -> None:
    names: list[str | TopicId] = list(_chosen(admin, arguments))
    deleted = in_batches(
        "deleting topics", names, lambda some: admin.delete_topics(some, retry_on_quota_violation=False)
    )
    _raise_all(deleted.errors.values(), done=len(deleted.done), did="are deleted")


def _list(admin: "Admin", arguments: argparse.Namespace) -> None:
    topics = _matching(admin, arguments)
    if arguments.json:
        print_json(
            [
                {"topic": one.name, "topic_id": one.topic_id and str(one.topic_id), "is_internal": one.is_internal}
                for one in topics.values()
            ]
        )
    else:
        print("\n".join(topics))


def _describe(admin: "Admin", arguments: argparse.Namespace) -> None:
    from levada.cli.topics.describing import describe
    from levada.cli.topics.layout import is_shown, json_of, lines_of

    topics = describe(admin, _wanted(admin, arguments), arguments)
    if arguments.json:
        print_json([json_of(topic, arguments) for topic in topics if is_shown(topic, arguments)])
        return
    for topic in topics:
        for line in lines_of(topic, arguments):
            print(line)


def _chosen(admin: "Admin", arguments: argparse.Namespace) -> "dict[str, TopicListing]":
    """The topics that the flags name; Refused when there is none and there should be."""
    topics = _matching(admin, arguments)
    if not topics and arguments.topic and not arguments.if_exists:
        advice = did_you_mean(arguments.topic, admin.list_topics()) or "; see `levada topics --list`"
        raise Refused(f"Topic '{arguments.topic}' does not exist as expected{advice}")
    return topics


def _wanted(admin: "Admin", arguments: argparse.Namespace) -> "list[str | TopicId]":
    """What to describe: an id counts before a name."""
    from levada.client.admin import TopicId

    if not any(arguments.topic_id or b""):
        return list(_chosen(admin, arguments))
    topic_id = TopicId(arguments.topic_id)
    if any(one.topic_id == topic_id for one in _listed(admin, arguments).values()):
        return [topic_id]
    if arguments.if_exists:
        return []
    raise Refused(f"TopicId '{topic_id}' does not exist as expected; see `levada topics --list --json`")


def _matching(admin: "Admin", arguments: argparse.Namespace) -> "dict[str, TopicListing]":
    topics = _listed(admin, arguments)
    if arguments.topic is None:
        return topics
    wanted = TopicFilter(arguments.topic)
    return {name: topic for name, topic in topics.items() if wanted.allows(name)}


def _listed(admin: "Admin", arguments: argparse.Namespace) -> "dict[str, TopicListing]":
    """All topics, by name in their order."""
    return dict(sorted(admin.list_topics(include_internal=not arguments.exclude_internal).items()))


def _raise_all(errors: "Iterable[KafkaError]", *, done: int, did: str) -> None:
    """One line for all that failed, and for what did not."""
    if texts := [str(error) for error in errors]:
        raise Refused("; ".join(texts) + (f"; the other {done} topics {did}" if done else ""))
