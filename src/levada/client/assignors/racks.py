"""Where members and replicas stand: a member reads best from a replica in its own rack (KIP-881)."""

from collections.abc import Iterable, Mapping

from levada.client.assignors.spec import Partition, ReplicaRacks, Subscription


def racks_of_topic(topic: str, partition_count: int, racks: ReplicaRacks) -> list[frozenset[str]]:
    """The racks of each partition, none where they are not known."""
    known = racks.get(topic, ())
    return [frozenset(known[number]) if number < len(known) else frozenset() for number in range(partition_count)]


def do_racks_matter(member_racks: Iterable[str], partition_racks: Iterable[frozenset[str]]) -> bool:
    """They do where members share racks with replicas, and some partition is not in every rack."""
    different = set(partition_racks)
    in_use = frozenset[str]().union(*different)
    return not in_use.isdisjoint(member_racks) and different != {in_use}


class Racks:
    """The racks of a whole group and of all partitions that it is assigned."""

    def __init__(
        self, topics: Mapping[str, int], members: Mapping[str, Subscription], replica_racks: ReplicaRacks
    ) -> None:
        self._members = {member_id: member.rack_id for member_id, member in members.items() if member.rack_id}
        self._partitions: dict[Partition, frozenset[str]] = {}
        if self._members:
            for topic, count in topics.items():
                for number, racks in enumerate(racks_of_topic(topic, count, replica_racks)):
                    self._partitions[topic, number] = racks
        self.matter = do_racks_matter(self._members.values(), self._partitions.values())

    def fits(self, member_id: str, partition: Partition) -> bool:
        """False if the member stands in a rack without a replica, and racks matter at all."""
        if not self.matter:
            return True
        rack = self._members.get(member_id)
        return rack is None or rack in self._partitions[partition]

    def shares(self, member_id: str, partition: Partition) -> bool:
        """True if the member is known to stand in a rack with a replica."""
        return self._members.get(member_id) in self._partitions[partition]

    def rarest_first(self, partitions: list[Partition]) -> list[Partition]:
        """Those that few members could read from their own rack come first; the order is kept otherwise."""
        if not self._members:
            return partitions
        members_in_rack: dict[str, int] = {}
        for rack in self._members.values():
            members_in_rack[rack] = members_in_rack.get(rack, 0) + 1
        return sorted(partitions, key=lambda one: sum(members_in_rack.get(rack, 0) for rack in self._partitions[one]))
