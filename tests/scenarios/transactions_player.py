"""Plays scenarios of transactions: producers by their transactional ids, and partitions that get markers."""

from collections.abc import Callable
from typing import Any

from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, CoordinatorNotAvailable
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.protocol.messages.init_producer_id import InitProducerIdResponse
from levada.transactions import GroupMember, GroupOutcome, Marker, MarkerWork, TransactionMachine, TransactionSettings
from levada.transactions.states import BY_NUMBER
from levada.transactions.transaction import TopicPartition, by_topic, record_of
from tests.unit.transactions.harness import BUMPING, CLASSIC, FROM_BROKERS, FROM_CLIENTS, Coordinator
from tests.unit.transactions.journals import MemoryJournal, value_of

NOWHERE: tuple[int, set[TopicPartition]] = (0, set())


class TransactionsPlayer:
    """Commands are `verb name key=value ...`; times are in milliseconds, or in seconds with an `s` behind.

    A producer remembers the id and epoch that it was given last: `at=<producer id>/<epoch>` says others. It speaks
    version 2 unless the file begins with `classic`.
    """

    def __init__(self) -> None:
        self._coordinator = Coordinator()
        self._is_classic = False
        self._identities: dict[str, tuple[int, int]] = {}
        self._logs: dict[TopicPartition, list[str]] = {}
        self._missing: dict[str, tuple[int, set[TopicPartition]]] = {}
        """Of each decided transaction: the epoch of its markers, and where they are still to be written."""
        self._announced = 0
        self._seen_batches = 0
        self._group: list[GroupMember] = []

    def run(self, line: str) -> list[str]:
        verb, *words = line.split()
        plain = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        play: Callable[..., list[str]] = getattr(self, "_" + verb.replace("-", "_"))
        before = self._states()
        trace = play(*plain, **options)
        after = self._states()
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        trace += [f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}" for name in changed]
        return [*trace, *self._written(), *self._to_do()]

    def _classic(self) -> list[str]:
        """Clients and the coordinator keep an epoch for many transactions."""
        self._is_classic = True
        return self._configure(transaction_version="1")

    def _configure(self, **options: str) -> list[str]:
        settings = TransactionSettings(**{key: _time(value) for key, value in options.items()})
        self._coordinator = Coordinator(settings, MemoryJournal(settings.transaction_version))
        return []

    def _init(self, name: str, **options: str) -> list[str]:
        claimed = self._at(name, options.get("at", "own")) if "at" in options else (-1, -1)
        reply = self._coordinator.init(
            name, claimed, _time(options.get("timeout", "60s")), int(options.get("version", 5))
        )
        return [f"{name} init: {self._told(name, reply)}"]

    def _add(self, name: str, *partitions: str, **options: str) -> list[str]:
        version = int(options.get("version", FROM_CLIENTS if self._is_classic else FROM_BROKERS))
        at = self._at(name, options.get("at", "own"))
        code = self._coordinator.add(*map(_partition, partitions), name=name, at=at, version=version)
        return [f"{name} add: {code.name}"]

    def _verify(self, name: str, *partitions: str, **options: str) -> list[str]:
        at = self._at(name, options.get("at", "own"))
        codes = self._coordinator.verify(*map(_partition, partitions), name=name, at=at)
        return [f"{name} verify: {', '.join(code.name for code in codes)}"]

    def _commit(self, name: str, **options: str) -> list[str]:
        return self._end(name, "commit", options)

    def _abort(self, name: str, **options: str) -> list[str]:
        return self._end(name, "abort", options)

    def _end(self, name: str, outcome: str, options: dict[str, str]) -> list[str]:
        version = int(options.get("version", CLASSIC if self._is_classic else BUMPING))
        at = self._at(name, options.get("at", "own"))
        request = EndTxnRequest(
            transactional_id=name, producer_id=at[0], producer_epoch=at[1], committed=outcome == "commit"
        )
        reply = self._ask(lambda machine, token: machine.end(token, request, version, self._coordinator.now_ms))
        return [f"{name} {outcome}: {'waits' if reply is None else self._told(name, reply)}"]

    def _group_commit(self, *names: str) -> list[str]:
        self._group = [GroupMember(name, *self._at(name, "own")) for name in names]
        return self._repeat_group_commit()

    def _repeat_group_commit(self) -> list[str]:
        """The same members with the same epochs, as a client that did not get the reply would ask again."""
        members, names = self._group, [member.transactional_id for member in self._group]
        outcome = self._ask(lambda machine, token: machine.group_commit(token, members, self._coordinator.now_ms))
        if outcome is None or isinstance(outcome, ApiError):
            return [f"group commit: {'waits' if outcome is None else outcome.code.name}"]
        assert isinstance(outcome, GroupOutcome)
        told = [f"group commit: {outcome.error_code.name}"]
        for name, one in zip(names, outcome.members):
            if not one.error_code:
                self._identities[name] = one.producer_id, one.producer_epoch
            goes_on = f"{one.producer_id}/{one.producer_epoch}"
            told.append(f"  {name}: {one.error_code.name if one.error_code else goes_on}")
        return told

    def _markers(self, *partitions: str) -> list[str]:
        """Write what partitions are to be told: those that are named, or all."""
        wanted = [_partition(one) for one in partitions]
        trace: list[str] = []
        for work in self._coordinator.work:
            for partition, markers in work.by_partition().items():
                left = [one for one in markers if partition in self._missing.get(one.transactional_id, NOWHERE)[1]]
                if left and (partition in wanted or not wanted):
                    told = " + ".join(f"{_outcome(one)} {one.transactional_id}" for one in left)
                    trace.append(f"{_name(partition)} gets {told}")
                    self._logs.setdefault(partition, []).append(told)
                    for one in left:
                        self._missing[one.transactional_id][1].discard(partition)
        for name in [name for name, (_, left) in self._missing.items() if not left]:
            self._coordinator.markers_written(name, self._missing.pop(name)[0])
        if not self._missing:
            self._coordinator.work.clear()
            self._announced = 0
        return trace

    def _log(self, partition: str) -> list[str]:
        return [f"{partition}: {' | '.join(self._logs.get(_partition(partition), ['nothing']))}"]

    def _advance(self, how_long: str) -> list[str]:
        self._coordinator.advance(_time(how_long))
        return []

    def _set_epoch(self, name: str, epoch: str) -> list[str]:
        """As if so many instances had come and gone."""
        record = record_of(self._coordinator.of(name))
        value_of(record).producer_epoch = int(epoch)
        self._coordinator.journal.append([record])
        self._seen_batches += 1
        self._identities[name] = value_of(record).producer_id, int(epoch)
        return self._reload()

    def _no_producer_ids(self) -> list[str]:
        self._coordinator.has_ids = False
        return []

    def _producer_ids(self) -> list[str]:
        self._coordinator.has_ids = True
        return []

    def _journal_refuses(self) -> list[str]:
        self._coordinator.journal.refusal = CoordinatorNotAvailable("no replicas")
        return []

    def _journal_works(self) -> list[str]:
        self._coordinator.journal.refusal = None
        return []

    def _journal_holds(self) -> list[str]:
        """From now on nothing is committed."""
        self._coordinator.journal.held_at = self._coordinator.journal.end_offset
        return []

    def _reload(self) -> list[str]:
        """Another coordinator takes over; it knows nothing but the journal."""
        self._missing.clear()
        self._announced = 0
        self._coordinator.load()
        return ["loaded"]

    def _crash(self, *, lost: str) -> list[str]:
        """The coordinator dies, and so many batches at the end of the journal were not committed."""
        journal = self._coordinator.journal
        del journal.batches[len(journal.batches) - int(lost) :]
        self._seen_batches = len(journal.batches)
        journal.held_at = None
        return self._reload()

    def _describe(self, name: str) -> list[str]:
        reply = self._coordinator.run(lambda machine, token: machine.describe(token, name))
        if reply.error_code:
            return [f"{name}: {ErrorCode(reply.error_code).name}"]
        topics = " ".join(f"{topic.topic}{topic.partitions}" for topic in reply.topics)
        return [f"{name}: {reply.transaction_state} {reply.producer_id}/{reply.producer_epoch} [{topics}]"]

    def _ask(self, operation: Callable[[TransactionMachine, Any], None]) -> Any:
        """The reply; None if it waits for the journal."""
        return self._coordinator.replies.pop(self._coordinator.ask(operation), None)

    def _at(self, name: str, text: str) -> tuple[int, int]:
        if text == "own":
            return self._identities.get(name, (-1, -1))
        producer_id, _, epoch = text.partition("/")
        return int(producer_id), int(epoch)

    def _told(self, name: str, reply: InitProducerIdResponse | EndTxnResponse) -> str:
        if reply.error_code:
            return ErrorCode(reply.error_code).name
        if reply.producer_id < 0:
            return "NONE"
        self._identities[name] = reply.producer_id, reply.producer_epoch
        return f"{reply.producer_id}/{reply.producer_epoch}"

    def _states(self) -> dict[str, str]:
        known = self._coordinator.machine.transactions
        return {name: f"{one.state.title}/{one.producer_epoch}" for name, one in known.items()}

    def _written(self) -> list[str]:
        batches = self._coordinator.journal.batches[self._seen_batches :]
        self._seen_batches += len(batches)
        records = iter(self._coordinator.journal.records()[-sum(map(len, batches)) :] if batches else [])
        return [f"wrote {' + '.join(_record(next(records)) for _ in batch)}" for batch in batches]

    def _to_do(self) -> list[str]:
        new = self._coordinator.work[self._announced :]
        self._announced += len(new)
        for work in new:
            for marker in work.markers:
                self._missing[marker.transactional_id] = marker.producer_epoch, set(marker.partitions)
        return [f"to do: {_work(work)}" for work in new]


def _work(work: MarkerWork) -> str:
    return "; ".join(
        f"{_outcome(one)} {one.transactional_id} {one.producer_id}/{one.producer_epoch}"
        f" at [{' '.join(f'{topic}{numbers}' for topic, numbers in by_topic(one.partitions))}]"
        for one in work.markers
    )


def _outcome(marker: Marker) -> str:
    return "commit" if marker.is_commit else "abort"


def _record(record: Any) -> str:
    name, value = record.key.transactional_id, record.value
    if value is None:
        return f"{name} ended"
    group = f" group={value.group_commit.hex()[:6]}" if value.group_commit else ""
    state = BY_NUMBER[value.transaction_status].title
    return f"{name} {state} {value.producer_id}/{value.producer_epoch}{group}"


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _time(text: str) -> int:
    return int(text[:-1]) * 1_000 if text.endswith("s") else int(text)
