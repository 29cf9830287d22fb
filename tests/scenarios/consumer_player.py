"""Plays scenarios of consumer groups (KIP-848): names in a script are the members' ids."""

from collections.abc import Callable, Sequence
from typing import Any

from levada.coordination.shard import Shard
from levada.groups import CommittedOffset, GroupCluster, GroupCounts, GroupMachine, GroupSettings, commit_record
from levada.groups.consumer import Client, ConsumerGroupSettings, Interval
from levada.groups.records import OffsetCommitKey
from levada.metadata.delta import apply
from levada.metadata.image import Image
from levada.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from tests.unit.groups.journals import MemoryJournal

GROUP = "g"
VERSION = 1
COMMIT_VERSION = 9


class ConsumerPlayer:
    """Commands are `verb name key=value ...`; a member sends the epoch it was told last unless the script says else."""

    def __init__(self) -> None:
        self._now_ms = 1_000_000
        self._image = Image(offset=0)
        self._journal = MemoryJournal()
        self._configure()
        self._epochs: dict[str, int] = {}
        self._seen_records = 0

    def run(self, line: str) -> list[str]:
        verb, *words = line.split()
        plain = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        play: Callable[..., list[str]] = getattr(self, "_" + verb.replace("-", "_"))
        before = self._state()
        trace = play(*plain, **options)
        after = self._state()
        if before != after:
            trace.append(f"group {before} -> {after}")
        return [*trace, *self._written()]

    def _configure(self, **options: str) -> list[str]:
        consumer = ConsumerGroupSettings(
            assignment_interval=Interval(_time(options.get("assignment_interval", "0")), 0, 15_000),
            max_size=int(options.get("max_size", "100")),
        )
        self._settings = GroupSettings(consumer=consumer)
        return self._reload()[1:]

    def _reload(self) -> list[str]:
        """Another coordinator takes over."""
        cluster = GroupCluster(lambda: self._image, lambda _: {})
        machine = GroupMachine(self._settings, cluster, lambda size: bytes(size), GroupCounts())
        self._shard = Shard(machine, self._journal)
        for record in self._journal.records():
            self._shard.load(record)
        self._shard.finish_loading(len(self._journal.entries), self._now_ms)
        return ["loaded"]

    def _topic(self, name: str, partitions: str) -> list[str]:
        """Make a topic, or let it grow."""
        topic_id = _topic_id(name)
        known = self._image.topics.get(name)
        has = 0 if known is None else len(known.partitions)
        records: list[Any] = [] if known is not None else [TopicRecord(name=name, topic_id=topic_id)]
        records += [
            PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1])
            for index in range(has, int(partitions))
        ]
        return self._change(name, records)

    def _delete_topic(self, name: str) -> list[str]:
        return self._change(name, [RemoveTopicRecord(topic_id=_topic_id(name))])

    def _change(self, name: str, records: Sequence[Any]) -> list[str]:
        self._image = apply(self._image, records, self._image.offset + len(records))
        self._shard.run(lambda machine: machine.on_topics([name], self._now_ms), self._now_ms)
        return []

    def _join(self, name: str, **options: str) -> list[str]:
        joining = {"epoch": "0", "owns": "", "rebalance": "60s", "topics": "" if "regex" in options else "t"}
        return self._beat(name, **(joining | options))

    def _beat(self, name: str, **options: str) -> list[str]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=options.get("as", name),
            member_epoch=int(options.get("epoch", self._epochs.get(name, 0))),
            instance_id=options.get("instance"),
            rebalance_timeout_ms=_time(options["rebalance"]) if "rebalance" in options else -1,
            subscribed_topic_names=_words(options["topics"]) if options.get("topics") else None,
            subscribed_topic_regex=options.get("regex"),
            server_assignor=options.get("assignor"),
            topic_partitions=_owned(options["owns"]) if "owns" in options else None,
        )
        client = Client(name, "/127.0.0.1", VERSION)
        reply = self._ask(lambda machine, token: machine.consumer_heartbeat(token, request, client, self._now_ms))
        if reply.error_code:
            return [f"{name} refused: {ErrorCode(reply.error_code).name}"]
        self._epochs[name] = reply.member_epoch
        told = "" if reply.assignment is None else f" assigned=[{self._spelled(reply.assignment.topic_partitions)}]"
        return [f"{name}: epoch={reply.member_epoch}{told}"]

    def _leave(self, name: str, **options: str) -> list[str]:
        return self._beat(name, **({"epoch": "-1"} | options))

    def _commit(self, name: str, **options: str) -> list[str]:
        topic, _, index = options.get("partition", "t-0").rpartition("-")
        epoch = int(options.get("epoch", self._epochs.get(name, -1)))
        request = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=epoch, member_id=name, topics=[])
        committed = CommittedOffset(int(options["offset"]), 0, "", self._now_ms)
        records = [commit_record(GROUP, topic, int(index), committed)]
        [code] = self._ask(lambda machine, token: machine.commit(token, request, COMMIT_VERSION, records, self._now_ms))
        return [f"{name} commit {topic}-{index} {options['offset']}: {ErrorCode(code).name}"]

    def _advance(self, how_long: str) -> list[str]:
        end_ms = self._now_ms + _time(how_long)
        while (deadline_ms := self._shard.machine.deadline_ms()) is not None and deadline_ms <= end_ms:
            self._now_ms = max(self._now_ms, deadline_ms)
            self._shard.expire(self._now_ms)
        self._now_ms = end_ms
        return []

    def _members(self) -> list[str]:
        group = self._shard.machine.consumer.groups[GROUP]
        trace = []
        for member in group.members.values():
            parts = {"has": member.assigned, "revoking": member.revoking, "target": group.target_of(member.member_id)}
            told = " ".join(f"{what}=[{self._spelled(_as_topics(which))}]" for what, which in parts.items())
            trace.append(f"{member.member_id}: epoch={member.epoch} {member.state.name} {told}")
        return trace

    def _ask(self, operation: Callable[[GroupMachine, Any], None]) -> Any:
        token = object()
        self._shard.run(lambda machine: operation(machine, token), self._now_ms)
        [(_, reply)] = [(one, reply) for one, reply in self._shard.take_output() if one is token]
        return reply

    def _spelled(self, topics: Sequence[Any]) -> str:
        names = {_topic_id(name): name for name in ("t", "u", "orders-1", "orders-2")}
        parts = sorted((names[bytes(one.topic_id)], list(one.partitions)) for one in topics)
        return " ".join(f"{name}:{','.join(map(str, sorted(indexes)))}" for name, indexes in parts if indexes)

    def _state(self) -> str:
        group = self._shard.machine.consumer.groups.get(GROUP)
        return "none" if group is None else f"{group.state.value}/{group.epoch}"

    def _written(self) -> list[str]:
        records = self._journal.records()[self._seen_records :]
        self._seen_records += len(records)
        return [f"wrote {_record(record.key, record.value)}" for record in records]


def _record(key: Any, value: Any) -> str:
    if isinstance(key, OffsetCommitKey):
        return f"offset {key.topic}-{key.partition} {'ended' if value is None else value.offset}"
    kind = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
    whose = getattr(key, "member_id", getattr(key, "regular_expression", ""))
    parts = [kind, whose, "ended" if value is None else ""]
    return " ".join(part for part in parts if part)


def _as_topics(partitions: Any) -> list[RequestTopicPartitions]:
    return [
        RequestTopicPartitions(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in partitions.items()
    ]


def _owned(text: str) -> list[RequestTopicPartitions]:
    """`t:0+1,u:2` is two partitions of t and one of u."""
    pairs = [part.split(":") for part in text.split(",") if part]
    return [
        RequestTopicPartitions(topic_id=_topic_id(name), partitions=[int(one) for one in indexes.split("+")])
        for name, indexes in pairs
    ]


def _topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def _words(text: str) -> list[str]:
    return text.split(",")


def _time(text: str) -> int:
    return int(text[:-1]) * 1_000 if text.endswith("s") else int(text)
