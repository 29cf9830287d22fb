"""One group: its state, who belongs to it, and who leads it."""

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from levada.groups.member import Member, protocols_of
from levada.model.error_codes import ErrorCode
from levada.protocol.errors import CodecError
from levada.protocol.messages.consumer_protocol import decode_subscribed_topics
from levada.protocol.messages.join_group import JoinGroupRequest

logger = logging.getLogger(__name__)

CONSUMER = "consumer"
"""The protocol type of consumers; others, Connect's among them, keep their own format to themselves."""


class ClassicGroupState(Enum):
    """Named as Kafka names them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for its members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waits for its leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Forgotten."""


NEXT_STATES = {
    ClassicGroupState.EMPTY: (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD),
    ClassicGroupState.PREPARING_REBALANCE: (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY),
    ClassicGroupState.COMPLETING_REBALANCE: (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE),
    ClassicGroupState.STABLE: (ClassicGroupState.PREPARING_REBALANCE,),
    ClassicGroupState.DEAD: (),
}


@dataclass(slots=True)
class InitialDelay:
    """The first rebalance waits for more members as long as they keep coming."""

    remaining_ms: int
    has_new_member: bool = False


class Group:
    """Membership only: what to do about it, and when, is decided elsewhere."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.pending: dict[str, None] = {}
        """Ids that were given out and have not joined yet (KIP-394)."""
        self.initial_delay: InitialDelay | None = None
        """Only while the first rebalance of an empty group is prepared."""
        self.state_since_ms: int | None = None
        """None where the group's record does not say it."""
        self.subscribed_topics: frozenset[str] | None = None
        """Of a consumer group's last generation; None if its members do not say it in words we know."""
        self._static: dict[str, str] = {}
        self._support: Counter[str] = Counter()

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((0, *(member.rebalance_timeout_ms for member in self.members.values())))

    def move_to(self, state: ClassicGroupState, now_ms: int) -> None:
        assert state in NEXT_STATES[self.state], f"{self.group_id}: {self.state} cannot become {state}"
        self.state = state
        self.state_since_ms = now_ms
        if state is not ClassicGroupState.PREPARING_REBALANCE:
            self.initial_delay = None

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols could understand all the others."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(self._support[name] == len(self.members) for name in names)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            current = self._static.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.pending.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._support.update(member.protocols.keys())
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        del self.members[member.member_id]
        self._support -= Counter(member.protocols.keys())
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def update(self, member: Member, request: JoinGroupRequest) -> None:
        """Take up what a member says of itself when it joins again."""
        self._support -= Counter(member.protocols.keys())
        member.protocols = protocols_of(request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        self._support.update(member.protocols.keys())

    def replace_static(self, old: Member, new_member_id: str) -> Member:
        """Give a static member's place, its lead and its assignment to its successor."""
        new = replace(old, member_id=new_member_id, join_token=None, sync_token=None, is_new=False)
        self.exchange(old, new)
        return new

    def exchange(self, old: Member, new: Member) -> None:
        """Another incarnation of the same instance has the place."""
        assert new.instance_id is not None
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self._static[new.instance_id] = new.member_id
        self._support -= Counter(old.protocols.keys())
        self._support.update(new.protocols.keys())
        if self.leader == old.member_id:
            self.leader = new.member_id

    def have_all_joined(self) -> bool:
        return not self.pending and all(member.join_token is not None for member in self.members.values())

    def elect_leader(self) -> bool:
        """The leader stays if it joined, else the first member that did follows; False if none did."""
        if self.leader is None:
            return False
        if self.members[self.leader].join_token is not None:
            return True
        joined = (member.member_id for member in self.members.values() if member.join_token is not None)
        follower = next(joined, None)
        if follower is not None:
            self.leader = follower
        return follower is not None

    def start_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol_name = self.choose_protocol() if self.members else None
        self.find_subscribed_topics()
        self.move_to(ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY, now_ms)

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER

    def find_subscribed_topics(self) -> None:
        """Read what the members have subscribed to, as far as they use the consumers' own format."""
        self.subscribed_topics = None
        if not self.is_of_consumers:
            return
        try:
            self.subscribed_topics = frozenset(
                topic
                for member in self.members.values()
                for topic in decode_subscribed_topics(member.protocols[self.protocol_name or ""])
            )
        except CodecError:
            logger.warning("unreadable subscription group=%r generation=%d", self.group_id, self.generation)

    def is_subscribed(self, topic: str) -> bool:
        """Whether members may still want its offsets; yes, if their subscriptions cannot be read."""
        if self.subscribed_topics is None:
            return self.is_of_consumers
        return topic in self.subscribed_topics

    def choose_protocol(self) -> str:
        """Every member votes for the protocol it prefers among those that all of them know."""
        candidates = [name for name, count in self._support.items() if count == len(self.members)]
        assert candidates, "a member without a common protocol was let in"
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]
