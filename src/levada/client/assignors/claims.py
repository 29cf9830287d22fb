"""Which member owns which partition before a rebalance, where members contradict each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from levada.client.assignors.spec import NO_GENERATION, Partition, Subscription


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says it owns, and since which generation."""

    partitions: Sequence[Partition] = ()
    generation_id: int = NO_GENERATION


@dataclass(frozen=True, slots=True)
class Ownership:
    """The claims of a group, settled."""

    held: Mapping[str, Sequence[Partition]]
    """Member id -> what it owns, in the order in which it said so; every member is in it."""
    owners: Mapping[Partition, str]
    contested: frozenset[Partition]
    """Two members claim them in one generation: neither owns them, and both may be reading them."""
    earlier: Mapping[Partition, str]
    """The member that claims a partition since an older generation than the group's newest."""


def settle(
    topics: Mapping[str, int],
    members: Mapping[str, Subscription],
    claim_of: Callable[[Subscription], Claim],
) -> Ownership:
    """The newer generation is right; partitions that do not exist are left out."""
    claims = {
        member_id: Claim(
            [(topic, number) for topic, number in claim.partitions if 0 <= number < topics.get(topic, 0)],
            claim.generation_id,
        )
        for member_id, claim in ((member_id, claim_of(member)) for member_id, member in members.items())
    }
    held: dict[str, dict[Partition, None]] = {member_id: {} for member_id in members}
    last_claimants: dict[Partition, str] = {}
    contested: set[Partition] = set()
    for member_id, claim in claims.items():
        for partition in claim.partitions:
            other = last_claimants.get(partition)
            if other is not None:
                # The other's generation is the one in its subscription, as Apache has it, even if user data names one.
                other_generation_id = max(members[other].generation_id, NO_GENERATION)
                if claim.generation_id < other_generation_id:
                    continue
                held[other].pop(partition, None)
                contested.discard(partition)
                if claim.generation_id == other_generation_id:
                    contested.add(partition)
            last_claimants[partition] = member_id
            if partition not in contested:
                held[member_id][partition] = None
    return Ownership(
        held={member_id: list(partitions) for member_id, partitions in held.items()},
        owners={partition: member_id for member_id, partitions in held.items() for partition in partitions},
        contested=frozenset(contested),
        earlier=_earlier(members, claims),
    )


def _earlier(members: Mapping[str, Subscription], claims: Mapping[str, Claim]) -> dict[Partition, str]:
    """Of several that claim a partition the one with the newest generation counts; none that has left the topic."""
    newest = max((claim.generation_id for claim in claims.values()), default=NO_GENERATION)
    found: dict[Partition, str] = {}
    for member_id, claim in claims.items():
        if claim.generation_id >= newest:
            continue
        subscribed = frozenset(members[member_id].topics)
        for partition in claim.partitions:
            known = found.get(partition)
            if partition[0] in subscribed and (known is None or claim.generation_id > claims[known].generation_id):
                found[partition] = member_id
    return found
