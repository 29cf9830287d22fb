"""How groups are assigned: the worked examples, members that come and go, racks, and claims that contradict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from levada.client.assignors import (
    ASSIGNORS,
    Assignment,
    Assignor,
    Partition,
    RebalanceProtocol,
    ReplicaRacks,
    Subscription,
)
from levada.client.assignors.spec import NO_RACKS

NINE = {"t": 9}


def numbers(assignment: Mapping[str, Sequence[Partition]]) -> dict[str, list[int]]:
    return {member_id: [number for _, number in partitions] for member_id, partitions in assignment.items()}


def joined_again(
    name: str, members: Mapping[str, Subscription], before: Assignment, generation_id: int = 1
) -> dict[str, Subscription]:
    """The members' next subscriptions, made as consumers make them; a member that is not in `members` has left."""
    found: dict[str, Subscription] = {}
    for member_id, member in members.items():
        assignor = ASSIGNORS[name]()
        if member_id in before:
            assignor.on_assignment(before[member_id], generation_id)
        is_cooperative = RebalanceProtocol.COOPERATIVE in assignor.rebalance_protocols
        found[member_id] = replace(
            member,
            user_data=assignor.user_data(member.topics),
            owned_partitions=before.get(member_id, []) if is_cooperative else [],
            generation_id=generation_id if member_id in before else -1,
        )
    return found


def subscribers(*member_ids: str, topics: Sequence[str] = ("t",)) -> dict[str, Subscription]:
    return {member_id: Subscription(topics) for member_id in member_ids}


def test_scenario_13_range_cuts_nine_partitions_into_three_pieces() -> None:
    assignment = ASSIGNORS["range"]().assign(NINE, subscribers("a", "b", "c"))
    assert numbers(assignment) == {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7, 8]}


def test_scenario_13_round_robin_deals_nine_partitions_to_three() -> None:
    assignment = ASSIGNORS["roundrobin"]().assign(NINE, subscribers("a", "b", "c"))
    assert numbers(assignment) == {"a": [0, 3, 6], "b": [1, 4, 7], "c": [2, 5, 8]}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_scenario_13_sticky_shares_out_only_what_a_dead_member_had(name: str) -> None:
    """Both keep all they had from range, and of the third one's the first gets two: 6 and 8, as Apache 4.3.1 deals."""
    ranged = ASSIGNORS["range"]().assign(NINE, subscribers("a", "b", "c"))
    survivors = joined_again(name, subscribers("a", "b"), ranged)
    assignment = ASSIGNORS[name]().assign(NINE, survivors)
    assert numbers(assignment) == {"a": [0, 1, 2, 6, 8], "b": [3, 4, 5, 7]}


def test_range_keeps_topics_with_equally_many_partitions_together() -> None:
    assignment = ASSIGNORS["range"]().assign({"l": 5, "r": 5}, subscribers("a", "b", topics=("r", "l")))
    for partitions in assignment.values():
        assert [n for topic, n in partitions if topic == "l"] == [n for topic, n in partitions if topic == "r"]


def test_range_puts_together_topics_on_one_rack_if_all_of_them_have_replicas_there() -> None:
    members = {"a": Subscription(["l", "r"], rack_id="east"), "b": Subscription(["l", "r"], rack_id="west")}
    racks = {"l": [["west"], ["east"]], "r": [["west"], ["east"]]}
    assert ASSIGNORS["range"]().assign({"l": 2, "r": 2}, members, racks) == {
        "a": [("l", 1), ("r", 1)],
        "b": [("l", 0), ("r", 0)],
    }


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first_and_by_their_own_names(name: str) -> None:
    members = {
        "a": Subscription(["t"]),
        "b": Subscription(["t"], group_instance_id="second"),
        "c": Subscription(["t"], group_instance_id="first"),
    }
    assert numbers(ASSIGNORS[name]().assign({"t": 2}, members)) == {"a": [], "b": [1], "c": [0]}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_what_is_unknown_or_unwanted_is_left_out(name: str) -> None:
    members = {"a": Subscription(["t", "unknown", "empty"]), "b": Subscription([])}
    counts = {"t": 2, "empty": 0, "unwanted": 3}
    assert ASSIGNORS[name]().assign(counts, members) == {"a": [("t", 0), ("t", 1)], "b": []}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_a_member_with_a_replica_in_its_rack_gets_the_partition(name: str) -> None:
    members = {"a": Subscription(["t"], rack_id="east"), "b": Subscription(["t"], rack_id="west")}
    racks = {"t": [["west"], ["west"], ["east"], ["east"]]}
    assert numbers(ASSIGNORS[name]().assign({"t": 4}, members, racks)) == {"a": [2, 3], "b": [0, 1]}
    unequal = {"a": replace(members["a"], topics=["t", "other"]), "b": members["b"]}
    assert numbers(ASSIGNORS[name]().assign({"t": 4}, unequal, racks)) == {"a": [2, 3], "b": [0, 1]}


def test_a_partition_that_moves_is_nobodys_until_its_owner_has_given_it_up() -> None:
    first = ASSIGNORS["cooperative-sticky"]().assign({"t": 4}, subscribers("a"))
    second = ASSIGNORS["cooperative-sticky"]().assign(
        {"t": 4}, joined_again("cooperative-sticky", subscribers("a", "b"), first)
    )
    assert numbers(second) == {"a": [0, 1], "b": []}
    third = ASSIGNORS["cooperative-sticky"]().assign(
        {"t": 4}, joined_again("cooperative-sticky", subscribers("a", "b"), second, generation_id=2)
    )
    assert numbers(third) == {"a": [0, 1], "b": [2, 3]}


def test_of_two_that_claim_a_partition_the_newer_generation_is_believed() -> None:
    members = {
        "a": Subscription(["t"], owned_partitions=[("t", 0), ("t", 1)], generation_id=4),
        "b": Subscription(["t"], owned_partitions=[("t", 1)], generation_id=5),
    }
    for listed in (members, dict(reversed(members.items()))):
        assert numbers(ASSIGNORS["cooperative-sticky"]().assign({"t": 2}, listed)) == {"a": [0], "b": [1]}


@pytest.mark.parametrize("other_topics", [["t"], ["t", "u"]])
def test_a_partition_that_two_claim_in_one_generation_is_taken_from_both(other_topics: list[str]) -> None:
    members = {
        "a": Subscription(["t"], owned_partitions=[("t", 0)], generation_id=5),
        "b": Subscription(other_topics, owned_partitions=[("t", 0), ("t", 1)], generation_id=5),
    }
    assert numbers(ASSIGNORS["cooperative-sticky"]().assign({"t": 2}, members)) == {"a": [], "b": [1]}


def test_generations_that_only_user_data_tells_count_as_well() -> None:
    members = {
        "a": Subscription(["t"], user_data=bytes([0, 0, 0, 4]), owned_partitions=[("t", 0)]),
        "b": Subscription(["t"], user_data=bytes([0, 0, 0, 5]), owned_partitions=[("t", 0)]),
    }
    assert numbers(ASSIGNORS["cooperative-sticky"]().assign({"t": 1}, members)) == {"a": [], "b": [0]}


@pytest.mark.parametrize("data", [b"", b"\x00", bytes.fromhex("7fffffff"), bytes.fromhex("00000001ffff")])
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_user_data_that_cannot_be_read_claims_nothing(name: str, data: bytes) -> None:
    members = {"a": Subscription(["t"], user_data=data), "b": Subscription(["t"])}
    assert numbers(ASSIGNORS[name]().assign({"t": 2}, members)) == {"a": [0], "b": [1]}


@pytest.mark.parametrize("topics", [["t"], ["t", "u"]])
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_a_partition_that_is_gone_is_nobodys(name: str, topics: list[str]) -> None:
    """The topic has been deleted and made anew, with fewer partitions."""
    before: Assignment = {"a": [("t", 0), ("t", 9)], "b": [("t", 1), ("gone", 0)]}
    members = {"a": Subscription(["t"]), "b": Subscription(topics)}
    assignment = ASSIGNORS[name]().assign({"t": 3}, joined_again(name, members, before))
    assert numbers(assignment) == {"a": [0, 2], "b": [1]}


def test_a_member_that_has_left_a_topic_does_not_get_its_partitions_back() -> None:
    """It claims them since an older generation, which counts for those that still subscribe."""
    members = {
        "a": Subscription(["u"], owned_partitions=[("t", 0)], generation_id=4),
        "b": Subscription(["t", "u"], owned_partitions=[("t", n) for n in range(4)], generation_id=5),
    }
    assignment = ASSIGNORS["cooperative-sticky"]().assign({"t": 4, "u": 1}, members)
    assert assignment == {"a": [("u", 0)], "b": [("t", n) for n in range(4)]}


@pytest.mark.parametrize(
    ("counts", "members", "expected"),
    [
        pytest.param(
            {"t": 1, "u": 1, "v": 3},
            {"a": ("tv", "t0 u0 v0"), "b": ("tuv", ""), "c": ("u", "")},
            {"a": "t0 v2", "b": "v1", "c": ""},
            id="anything may move once a member has to give up something",
        ),
        pytest.param(
            {"u": 3, "v": 5},
            {"a": ("uv", "u0"), "b": ("v", "v1 v3 v4"), "c": ("u", "u2")},
            {"a": "u0 v0 v2", "b": "v1 v3 v4", "c": "u2 u1"},
            id="only what is new moves if that is enough",
        ),
        pytest.param(
            {"t": 4, "u": 4},
            {"a": ("u", "t1 t3"), "b": ("tu", "t2 u0 u1 u2 u3"), "c": ("t", "t0")},
            {"a": "", "b": "u2 u3 t2", "c": "t0"},
            id="what came from a member goes back there first",
        ),
    ],
)
def test_unequal_loads_are_evened_out_as_apache_does(
    counts: dict[str, int], members: dict[str, tuple[str, str]], expected: dict[str, str]
) -> None:
    """The answers are those of Apache Kafka 4.3.1."""

    def parsed(text: str) -> list[Partition]:
        return [(word[0], int(word[1:])) for word in text.split()]

    subscriptions = {
        member_id: Subscription(list(topics), owned_partitions=parsed(owned), generation_id=1)
        for member_id, (topics, owned) in members.items()
    }
    assignment = ASSIGNORS["cooperative-sticky"]().assign(counts, subscriptions)
    assert assignment == {member_id: parsed(text) for member_id, text in expected.items()}


def test_users_can_bring_an_assignor_of_their_own() -> None:
    class AllToTheFirst:
        name = "first"
        rebalance_protocols = (RebalanceProtocol.EAGER,)

        def assign(
            self,
            partition_counts: Mapping[str, int],
            members: Mapping[str, Subscription],
            racks: ReplicaRacks = NO_RACKS,
        ) -> Assignment:
            first = min(members)
            everything = [(topic, number) for topic, count in partition_counts.items() for number in range(count)]
            return {member_id: everything if member_id == first else [] for member_id in members}

        def user_data(self, topics: object) -> None:
            return None

        def on_assignment(self, partitions: Sequence[Partition], generation_id: int) -> None:
            return None

    mine: Assignor = AllToTheFirst()
    assert numbers(mine.assign({"t": 2}, subscribers("b", "a"))) == {"a": [0, 1], "b": []}


def test_the_names_and_protocols_are_those_of_apache() -> None:
    eager, cooperative = RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE
    assert {name: make().rebalance_protocols for name, make in ASSIGNORS.items()} == {
        "range": (eager,),
        "roundrobin": (eager,),
        "sticky": (eager,),
        "cooperative-sticky": (cooperative, eager),
    }
    assert [make().name for make in ASSIGNORS.values()] == list(ASSIGNORS)
