"""The sticky assignor: a balanced assignment in which members keep what they had, told by user data."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from levada.client.assignors.claims import Claim
from levada.client.assignors.order import computed_hash_order
from levada.client.assignors.spec import (
    NO_GENERATION,
    NO_RACKS,
    Assignment,
    Assignor,
    Partition,
    RebalanceProtocol,
    ReplicaRacks,
    Subscription,
)
from levada.client.assignors.sticky_plan import plan
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.declare import Int32, Since, String, message, struct
from levada.protocol.errors import MalformedMessage


class StickyAssignor(Assignor):
    """Members give up everything before a rebalance, so each tells the leader what it had."""

    name = "sticky"
    rebalance_protocols = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._previous: Claim | None = None

    def assign(
        self,
        partition_counts: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: ReplicaRacks = NO_RACKS,
    ) -> Assignment:
        assignment, _ = plan(partition_counts, members, racks, _claim_of)
        return assignment

    def user_data(self, topics: Collection[str]) -> bytes | None:
        return None if self._previous is None else encode_claim(self._previous)

    def on_assignment(self, partitions: Sequence[Partition], generation_id: int) -> None:
        self._previous = Claim(list(partitions), generation_id)


@struct
class _PreviousTopic:
    topic: String
    partitions: list[Int32]


@message(versions="0-1")
class _PreviousAssignment:
    topics: list[_PreviousTopic]
    generation_id: Annotated[Int32, Since(1)] = NO_GENERATION


def encode_claim(claim: Claim) -> bytes:
    """A member's user data, which does not say its version."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in claim.partitions:
        by_topic.setdefault(topic, []).append(number)
    in_order = computed_hash_order([topic for topic, _ in claim.partitions])
    topics = [_PreviousTopic(topic=topic, partitions=by_topic[topic]) for topic in in_order]
    return encode_bytes(_PreviousAssignment(topics=topics, generation_id=claim.generation_id), 1)


def decode_claim(data: bytes) -> Claim:
    """Version 1, or version 0 if it ends before the generation; what is neither claims nothing."""
    for version in (1, 0):
        try:
            previous, _ = decode_prefix(_PreviousAssignment, version, data)
        except MalformedMessage:
            continue
        return Claim(
            [(topic.topic, number) for topic in previous.topics for number in topic.partitions],
            previous.generation_id,
        )
    return Claim()


def _claim_of(member: Subscription) -> Claim:
    return decode_claim(member.user_data) if member.user_data else Claim()
