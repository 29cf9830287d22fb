"""What a topic may be, by what its only writer was told: several things while the writer does not know."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from levada.model.error_codes import ErrorCode
from levada.sim.checkers.check_failed import CheckFailed


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic as it was made and changed; `generation` tells it from others that had its name."""

    generation: int
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ServedTopic:
    """A topic as a broker tells of it."""

    topic_id: bytes
    partitions: int
    configs: tuple[tuple[str, str], ...]


Operation: TypeAlias = "Callable[[KnownTopic | None], tuple[KnownTopic | None, int]]"
"""What becomes of a topic, or of none, and what the writer is told then."""

NOT_WRITTEN = (ErrorCode.KAFKA_STORAGE_ERROR,)
"""A writer that is told this knows that nothing happened."""
UNSURE = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR)


def create(generation: int, partitions: int, configs: dict[str, str]) -> Operation:
    made = KnownTopic(generation, partitions, tuple(sorted(configs.items())))
    return lambda topic: (made, ErrorCode.NONE) if topic is None else (topic, ErrorCode.TOPIC_ALREADY_EXISTS)


def delete(topic: KnownTopic | None) -> tuple[KnownTopic | None, int]:
    return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE


def grow(count: int) -> Operation:
    def grown(topic: KnownTopic | None) -> tuple[KnownTopic | None, int]:
        if topic is None:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if count <= topic.partitions:
            return topic, ErrorCode.INVALID_PARTITIONS
        return replace(topic, partitions=count), ErrorCode.NONE

    return grown


def configure(key: str, value: str | None) -> Operation:
    def configured(topic: KnownTopic | None) -> tuple[KnownTopic | None, int]:
        if topic is None:
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        configs = dict(topic.configs)
        configs.pop(key, None)
        if value is not None:
            configs[key] = value
        return replace(topic, configs=tuple(sorted(configs.items()))), ErrorCode.NONE

    return configured


@dataclass(slots=True)
class TopicHistory:
    """One topic, by what its writer asked for and was told."""

    name: str
    possible: list[KnownTopic | None] = field(default_factory=lambda: [None])
    is_unsure: bool = False
    """Whether an operation may still be under way; no other begins before the broker was seen to start anew."""
    sent: dict[tuple[int, int], dict[bytes, None]] = field(default_factory=dict)
    """Values by generation and partition."""
    acknowledged: dict[tuple[int, int], dict[bytes, None]] = field(default_factory=dict)
    _ids: dict[int, bytes] = field(default_factory=dict)

    @property
    def topic(self) -> KnownTopic | None:
        """What it is, when that is known."""
        assert len(self.possible) == 1, "not known while an operation may be under way"
        return self.possible[0]

    def learn(self, operation: Operation, code: int | None, topic_id: bytes | None = None) -> None:
        """Take note of what an operation was answered, None for no answer at all."""
        if code in NOT_WRITTEN:
            return
        outcomes = [operation(topic) for topic in self.possible]
        if code is None or code in UNSURE:
            self.is_unsure = True
            self.possible = list(dict.fromkeys([*self.possible, *(topic for topic, _ in outcomes)]))
            return
        possible = [topic for topic, expected in outcomes if expected == code]
        if not possible:
            raise CheckFailed(f"{self.name}: told {ErrorCode(code).name}, but it was {self.possible}")
        self.possible = possible
        if topic_id is not None and self.topic is not None:
            self._ids[self.topic.generation] = topic_id

    def send(self, partition: int, value: bytes, *, is_acknowledged: bool) -> None:
        """Take note of a record that was sent."""
        topic = self.topic
        assert topic is not None
        values = self.acknowledged if is_acknowledged else self.sent
        values.setdefault((topic.generation, partition), {})[value] = None

    def lose_power(self) -> None:
        """What was acknowledged without a flush may be gone."""
        self.acknowledged.clear()

    def settle(self, served: ServedTopic | None) -> None:
        """Compare with what a broker serves that was started anew, and know from now on which one it is."""
        matching = [topic for topic in self.possible if self._is(topic, served)]
        if not matching:
            raise CheckFailed(f"{self.name} is {served}, which is none of {self.possible} with ids {self._ids}")
        self.possible, self.is_unsure = matching[:1], False
        if served is not None and self.topic is not None:
            self._ids[self.topic.generation] = served.topic_id

    def check_records(self, partition: int, values: list[bytes]) -> None:
        """Compare with all the records of a partition."""
        topic = self.topic
        assert topic is not None
        key = (topic.generation, partition)
        for value in values:
            if value not in self.sent.get(key, {}):
                raise CheckFailed(f"{self.name}-{partition} has {value!r}, which was not sent to this topic")
        for value in self.acknowledged.get(key, {}):
            if value not in values:
                raise CheckFailed(f"{self.name}-{partition} lacks {value!r}, which was acknowledged")

    def _is(self, topic: KnownTopic | None, served: ServedTopic | None) -> bool:
        if topic is None or served is None:
            return topic is None and served is None
        known = self._ids.get(topic.generation, served.topic_id)
        return (known, topic.partitions, topic.configs) == (served.topic_id, served.partitions, served.configs)
