"""Plays scenarios of classic groups: names in a script stand for the members' ids."""

from collections.abc import Callable
from typing import Any

from levada.groups import GroupSettings, JoiningClient
from levada.groups.records import GroupMetadataKey, OffsetCommitKey
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, CoordinatorNotAvailable
from levada.protocol.messages.join_group import JoinGroupResponse
from levada.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.groups.harness import Coordinator
from tests.unit.groups.journals import MemoryJournal

GROUP = "g"


class ClassicPlayer:
    """Commands are `verb name key=value ...`; times are in milliseconds, or in seconds with an `s` behind."""

    def __init__(self) -> None:
        self._journal = MemoryJournal()
        self._settings: dict[str, Any] = {"initial_rebalance_delay_ms": 3_000}
        self._coordinator = Coordinator(GroupSettings(**self._settings), self._journal)
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._waiting: dict[int, str] = {}
        self._generations: dict[str, int] = {}
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
        self._settings |= {key: _time(value) for key, value in options.items()}
        self._coordinator = Coordinator(GroupSettings(**self._settings), self._journal)
        return []

    def _join(self, name: str, **options: str) -> list[str]:
        is_new = options.get("client", "new") == "new"
        member_id = self._ids.get(options.get("as", name), "")
        token = self._coordinator.join(
            member_id,
            instance=options.get("instance"),
            protocols={one: f"{one} of {name}".encode() for one in options.get("protocols", "range").split(",")},
            protocol_type=options.get("type", "consumer"),
            joiner=JoiningClient(name, "/127.0.0.1", 9 if is_new else 3),
            session_ms=_time(options.get("session", "10s")),
            rebalance_ms=_time(options.get("rebalance", "60s")),
        )
        return self._park(token, name)

    def _sync(self, name: str, **options: str) -> list[str]:
        assigned = {self._ids.get(one, one): what.encode() for one, what in _pairs(options.get("assign", ""))}
        generation = int(options.get("generation", self._generations.get(name, 0)))
        token = self._coordinator.sync(self._id(name, options), generation, assigned, instance=options.get("instance"))
        return self._park(token, name)

    def _heartbeat(self, name: str, **options: str) -> list[str]:
        generation = int(options.get("generation", self._generations.get(name, 0)))
        code = self._coordinator.heartbeat(self._id(name, options), generation, instance=options.get("instance"))
        return [f"{name} heartbeat: {code.name}", *self._answers()]

    def _leave(self, name: str, **options: str) -> list[str]:
        instance = options.get("instance")
        leaving = self._id(name, options) if instance is None else (self._id(name, options), instance)
        codes = self._coordinator.leave(leaving)
        return [f"{name} leave: {', '.join(code.name for code in codes)}", *self._answers()]

    def _commit(self, name: str, **options: str) -> list[str]:
        code = self._coordinator.commit(
            "" if name == "no-member" else self._id(name, options),
            int(options.get("generation", self._generations.get(name, -1))),
            instance=options.get("instance"),
            offset=int(options["offset"]),
            topic=options.get("topic", "topic"),
            metadata=options.get("metadata", ""),
        )
        return [f"{name} commit {options['offset']}: {code.name}", *self._answers()]

    def _committed(self, topic: str = "topic") -> list[str]:
        return [f"committed {topic}: {self._coordinator.committed(topic=topic)}"]

    def _advance(self, how_long: str) -> list[str]:
        self._coordinator.advance(_time(how_long))
        return self._answers()

    def _journal_refuses(self) -> list[str]:
        self._journal.refusal = CoordinatorNotAvailable("no replicas")
        return []

    def _journal_works(self) -> list[str]:
        self._journal.refusal = None
        return []

    def _journal_holds(self) -> list[str]:
        """From now on nothing is committed."""
        self._journal.held_at = len(self._journal.entries)
        return []

    def _journal_commits(self) -> list[str]:
        self._journal.held_at = None
        self._coordinator.shard.advance()
        return self._answers()

    def _reload(self) -> list[str]:
        """Another coordinator takes over."""
        self._coordinator.resign()
        trace = self._answers()
        self._coordinator.load()
        return [*trace, "loaded"]

    def _members(self) -> list[str]:
        group = self._coordinator.group
        leader = self._name(group.leader or "")
        assigned = {self._name(one.member_id): one.assignment.decode() for one in group.members.values()}
        return [f"{name}{' (leader)' if name == leader else ''}: {part}" for name, part in assigned.items()]

    def _id(self, name: str, options: dict[str, str]) -> str:
        wanted = options.get("as", name)
        return "" if wanted == "no-member" else self._ids.get(wanted, wanted)

    def _park(self, token: int, name: str) -> list[str]:
        self._waiting[token] = name
        answers = self._answers()
        return answers if token not in self._waiting else [f"{name} waits", *answers]

    def _answers(self) -> list[str]:
        self._coordinator.collect()
        due = [token for token in self._coordinator.replies if token in self._waiting]
        for token in due:
            # Before anything is told: a reply speaks of others, whose own comes later.
            self._note(self._waiting[token], getattr(self._coordinator.replies[token], "member_id", ""))
        return [self._told(self._waiting.pop(token), self._coordinator.replies[token]) for token in due]

    def _told(self, name: str, reply: Any) -> str:
        if isinstance(reply, ApiError):
            return f"{name} refused: {reply.code.name}"
        code = ErrorCode(reply.error_code)
        if isinstance(reply, SyncGroupResponse):
            return f"{name} synced: {reply.assignment.decode() if not code else code.name}"
        assert isinstance(reply, JoinGroupResponse)
        if code:
            return f"{name} refused to join: {code.name}"
        self._generations[name] = reply.generation_id
        members = ",".join(self._name(one.member_id) for one in reply.members)
        skip = " skip-assignment" if reply.skip_assignment else ""
        leader = self._name(reply.leader)
        generation = f"generation={reply.generation_id} protocol={reply.protocol_name}"
        return f"{name} joined: {generation} leader={leader} members=[{members}]{skip}"

    def _note(self, name: str, member_id: str) -> None:
        """A second id of the same name is told apart by a mark."""
        if member_id and member_id not in self._names:
            marked = name + "'" * sum(known.rstrip("'") == name for known in self._names.values())
            self._names[member_id] = marked
            self._ids[marked] = member_id

    def _name(self, member_id: str) -> str:
        return self._names.get(member_id, member_id or "-")

    def _state(self) -> str:
        group = self._coordinator.find(GROUP)
        return "none" if group is None else f"{group.state.value}/{group.generation}"

    def _written(self) -> list[str]:
        records = self._journal.records()[self._seen_records :]
        self._seen_records += len(records)
        return [f"wrote {self._record(record.key, record.value)}" for record in records]

    def _record(self, key: Any, value: Any) -> str:
        if isinstance(key, OffsetCommitKey):
            return f"offset {key.topic}-{key.partition} {'ended' if value is None else value.offset}"
        assert isinstance(key, GroupMetadataKey)
        if value is None:
            return "group ended"
        members = ",".join(self._name(one.member_id) for one in value.members)
        return f"group generation={value.generation} leader={self._name(value.leader or '')} members=[{members}]"


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(one, what) for one, _, what in (pair.partition(":") for pair in text.split(",") if pair)]


def _time(text: str) -> int:
    return int(text[:-1]) * 1_000 if text.endswith("s") else int(text)
