"""What members of consumer groups (KIP-848) say to a coordinator, and hear from it."""

from collections.abc import Awaitable, Callable

from tests.interop.consumer_group_sides import (
    MAX_SIZE,
    Answer,
    Side,
)

Scenario = Callable[[Side], Awaitable[list[Answer]]]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def named(side: Side, name: str) -> str:
    """Topics are made once for each scenario: groups see each other's."""
    return f"{side.group_id}-{name}"


@scenario
async def requests_are_refused(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 1)
    return [
        await side.beat("", 0, a),
        await side.beat("", 5, version=0),
        await side.beat(" ", 0, a),
        await side.beat("m", 0, a, group_id=""),
        await side.beat("m", 0, a, group_id=" "),
        await side.beat("m", 0, a, instance_id=""),
        await side.beat("m", 0, a, rack_id="  "),
        await side.beat("m", 0, a, rebalance_timeout_ms=-1),
        await side.beat("m", 0, a, owned={a: [0]}),
        await side.beat("m", 0, subscribed_topic_names=None),
        await side.beat("m", -2),
        await side.beat("m", -3),
        await side.beat("m", 0, a, server_assignor="sticky"),
        await side.beat("m", 0, subscribed_topic_names=None, subscribed_topic_regex="[a"),
        await side.beat("m", 7),
        await side.beat("m", -1),
        await side.describe(),
        await side.beat("m", 0, a),
        await side.beat("stranger", 2),
        await side.beat("stranger", -1),
        await side.beat("m", 2, instance_id="unknown"),
        await side.beat("m", -2, instance_id="unknown"),
        await side.beat("m", 3),
        await side.beat("m", 1),
        await side.describe(),
    ]


@scenario
async def the_first_version_makes_member_ids(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 1)
    return [await side.beat("", 0, a, version=0)]


@scenario
async def two_members_share_a_topic(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    answers = [
        await side.beat("m1", 0, a),
        await side.beat("m1", 2, owned={a: [0, 1, 2, 3]}),
        await side.beat("m2", 0, a),
        await side.describe(),
        await side.beat("m2", 3),
        await side.beat("m1", 2),
        await side.describe(),
        await side.beat("m1", 2),
        await side.beat("m1", 2, owned={a: [0, 1, 2, 3]}),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2, owned={a: [0, 1, 2]}),
        await side.beat("m2", 3),
        await side.beat("m2", 3),
        await side.describe(),
    ]
    return [
        *answers,
        await side.beat("m1", -1),
        await side.describe(),
        await side.beat("m2", 3),
        await side.beat("m2", 4, owned={a: [2, 3]}, rebalance_timeout_ms=10, subscribed_topic_names=[a]),
        await side.beat("m2", -1),
        await side.describe(),
        await side.beat("m3", 0, a),
    ]


@scenario
async def a_member_joins_again(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        await side.beat("m1", 0, a),
        await side.beat("m1", 0, a),
        await side.beat("m1", 2),
        await side.beat("m1", 1),
        await side.beat("m1", 1, owned={a: [0]}),
        await side.beat("m1", 0, a, rack_id="r"),
        await side.describe(),
    ]


@scenario
async def a_group_has_a_size(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        *[await side.beat(f"m{number}", 0, a) for number in range(MAX_SIZE + 1)],
        await side.beat("m1", 0, a),
        await side.beat("m4", 6),
        await side.beat("", 0, a, version=0),
    ]


@scenario
async def subscriptions_change(side: Side) -> list[Answer]:
    a, b = named(side, "a"), named(side, "b")
    await side.topic(a, 2)
    await side.topic(b, 2)
    return [
        await side.beat("m1", 0, a),
        await side.beat("m1", 2, a, b),
        await side.beat("m1", 3, b, owned={a: [0, 1], b: [0, 1]}),
        await side.describe(),
        await side.beat("m1", 3, owned={b: [0, 1]}),
        await side.describe(),
        await side.beat("m1", 4, named(side, "missing")),
        await side.beat("m1", 4, owned={}),
        await side.beat("m1", 5, subscribed_topic_names=[]),
        await side.beat("m1", 5),
        await side.beat("m1", 6),
        await side.describe(),
    ]


@scenario
async def topics_come_grow_and_go(side: Side) -> list[Answer]:
    a, b = named(side, "a"), named(side, "b")
    await side.topic(a, 1)
    answers = [await side.beat("m1", 0, a, b), await side.beat("m1", 2)]
    await side.topic(a, 2)
    answers += [await side.describe(), await side.beat("m1", 2), await side.beat("m1", 3)]
    await side.topic(b, 1)
    answers += [await side.beat("m1", 3), await side.beat("m1", 4, owned={a: [0, 1], b: [0]})]
    await side.drop(a)
    return [
        *answers,
        await side.beat("m1", 4),
        await side.describe(),
        await side.beat("m1", 4, owned={b: [0]}),
        await side.beat("m1", 5),
        await side.describe(),
    ]


@scenario
async def static_members_come_back(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    return [
        await side.beat("m1", 0, a, instance_id="one"),
        await side.beat("m2", 0, a, instance_id="two"),
        await side.beat("m1", 2, owned={a: [0, 1]}, instance_id="one"),
        await side.beat("m1", 3, instance_id="one"),
        await side.beat("m2", 3, instance_id="two"),
        await side.beat("thief", 0, a, instance_id="one"),
        await side.beat("thief", 3, instance_id="one"),
        await side.beat("thief", -2, instance_id="one"),
        await side.beat("m1", 3),
        await side.beat("m1", -2, instance_id="one"),
        await side.describe(),
        await side.beat("m1", 3, instance_id="one"),
        await side.beat("m2", 3, instance_id="two"),
        await side.beat("m3", 0, a, instance_id="one"),
        await side.beat("m1", 3, instance_id="one"),
        await side.describe(),
        await side.beat("m3", -2, instance_id="one"),
        await side.beat("m3", 0, a, named(side, "b"), instance_id="one"),
        await side.describe(),
        await side.beat("m3", -1, instance_id="one"),
        await side.describe(),
        await side.beat("m2", 3, instance_id="two"),
    ]


@scenario
async def assignors_are_voted_for(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 3)
    return [
        await side.beat("m1", 0, a, server_assignor="range"),
        await side.describe(),
        await side.beat("m2", 0, a, server_assignor="uniform"),
        await side.describe(),
        await side.beat("m3", 0, a, server_assignor="range"),
        await side.describe(),
        await side.beat("m1", 2, owned={a: [0]}, server_assignor="uniform"),
        await side.describe(),
        await side.beat("m4", 0, a, named(side, "x")),
        await side.describe(),
    ]


@scenario
async def topics_by_regular_expression(side: Side) -> list[Answer]:
    a, b = named(side, "xa"), named(side, "b")
    regex = f"{side.group_id}-x.*"
    await side.topic(a, 2)
    await side.topic(b, 2)
    answers = [
        await side.beat("m1", 0, subscribed_topic_names=None, subscribed_topic_regex=regex),
    ]
    await side.settle()
    answers += [
        await side.describe(),
        await side.beat("m1", 1),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.describe(),
        await side.beat("m2", 0, b, subscribed_topic_regex=regex),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2, owned={a: [0]}),
        await side.beat("m2", 3),
        await side.describe(),
        await side.beat("m2", 3, subscribed_topic_regex=""),
        await side.beat("m2", 3, owned={b: [0, 1]}),
        await side.beat("m2", 4, subscribed_topic_regex="("),
        await side.beat("m1", 3, b, subscribed_topic_regex="", owned={a: [0]}),
        await side.describe(),
    ]
    return answers


@scenario
async def a_lost_answer_is_repeated(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        await side.beat("m1", 0, a),
        await side.beat("m2", 0, a),
        await side.beat("m1", 2, owned={a: [0]}),
        await side.beat("m1", 2, owned={a: [0]}),
        await side.beat("m1", 2, owned={a: [0]}, rebalance_timeout_ms=1_000, subscribed_topic_names=[a]),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2),
        await side.describe(),
    ]


@scenario
async def a_classic_group_is_upgraded_and_goes_back(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    await side.start_classic(a)
    return [
        await side.describe(),
        await side.beat("m1", 7),
        await side.beat("m1", -1),
        await side.beat("m1", 0, a),
        await side.describe(),
        await side.classic_beat("c1", 1),
        await side.classic_beat("c1", 2),
        await side.classic_beat("stranger", 1),
        await side.classic_beat("m1", 2),
        await side.sync("c1", 1),
        await side.join("c1", a, owned={a: [0]}),
        await side.describe(),
        await side.sync("c1", 1),
        await side.sync("c1", 2, protocol="sticky"),
        await side.sync("c1", 2),
        await side.classic_beat("c1", 2),
        await side.beat("m1", 2, owned={a: [1]}),
        await side.classic_leave("stranger"),
        await side.beat("m1", -1),
        await side.describe(),
    ]


@scenario
async def classic_members_give_up_and_get(side: Side) -> list[Answer]:
    a = named(side, "a")
    # As many as can be shared evenly: which member gets more depends on the ids that a broker gives to classic members.
    await side.topic(a, 6)
    return [
        await side.beat("m1", 0, a),
        await side.join("c1", a, type_="connect"),
        await side.join("c1", a, protocols=()),
        await side.join("c1", a, metadata=b"x"),
        await side.join("c1", a),
        await side.describe(),
        await side.sync("c1", 3),
        await side.classic_beat("c1", 3),
        await side.beat("m1", 2, owned={a: [0, 1, 2, 3, 4, 5]}),
        await side.beat("m1", 2, owned={a: [0, 1, 2]}),
        await side.classic_beat("c1", 3),
        await side.join("c1", a, owned={}),
        await side.sync("c1", 3),
        await side.classic_beat("c1", 3),
        await side.join("c2", a, protocols=("sticky",)),
        await side.join("c2", a, protocols=("sticky", "range")),
        await side.describe(),
        await side.classic_beat("c1", 3),
        await side.join("c1", a, owned={a: [3, 4, 5]}),
        await side.describe(),
        await side.sync("c1", 3),
        await side.classic_beat("c1", 3),
        await side.join("c1", a, owned={a: [3, 4]}),
        await side.describe(),
        await side.beat("m1", 3, owned={a: [0, 1]}),
        await side.describe(),
        await side.classic_leave("c1", "stranger"),
        await side.describe(),
        await side.classic_leave("m1"),
        await side.describe(),
    ]


@scenario
async def groups_that_cannot_be_upgraded(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    await side.start_classic(a, user_data=b"secret")
    return [await side.beat("m1", 0, a), await side.describe()]


@scenario
async def groups_of_others_are_not_upgraded(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    await side.start_classic(a, type_="connect")
    return [await side.beat("m1", 0, a), await side.describe()]


@scenario
async def static_members_change_the_protocol(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    return [
        await side.beat("m1", 0, a, instance_id="one"),
        await side.beat("m2", 0, a, instance_id="two"),
        await side.beat("m1", 2, owned={a: [0, 1]}, instance_id="one"),
        await side.beat("m2", 3, instance_id="two"),
        await side.join("c2", a, instance="two"),
        await side.describe(),
        await side.beat("m2", 3, instance_id="two"),
        await side.sync("c2", 3, instance="two"),
        await side.classic_beat("c2", 3, instance="two"),
        await side.classic_beat("m2", 3, instance="two"),
        await side.classic_beat("c2", 3, instance="other"),
        await side.beat("m3", 0, a, instance_id="two"),
        await side.describe(),
        await side.join("c2", a, instance="two"),
        await side.describe(),
    ]


@scenario
async def the_last_static_member_takes_the_group_back(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        await side.beat("m1", 0, a, instance_id="one"),
        await side.beat("m1", -2, instance_id="one"),
        await side.join("c1", a, instance="one"),
        await side.describe(),
    ]


@scenario
async def offsets_are_fenced_by_epochs(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    answers = [
        await side.beat("m1", 0, a),
        await side.commit("m1", 2, a, 0, 1, 2, 3),
        await side.beat("m2", 0, a),
        await side.beat("m1", 2),
        await side.commit("m1", 2, a, 0, 3),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m2", 3),
    ]
    tries = [("m1", 3, (0, 1)), ("m1", 3, (2,)), ("m1", 2, (0, 1)), ("m1", 2, (0, 2)), ("m1", 1, (0,)), ("m1", 4, (0,))]
    tries += [("m2", 3, (2,)), ("m2", 2, (2,)), ("stranger", 3, (0,)), ("", -1, (0,)), ("m1", -1, (0,))]
    answers += [await side.commit(member_id, epoch, a, *partitions) for member_id, epoch, partitions in tries]
    answers += [await side.commit("m1", 3, a, 0, version=8)]
    fetches = [("m1", 3), ("m1", 2), ("m1", 4), ("stranger", 3), (None, -1), ("", -1)]
    answers += [await side.fetch(member_id, epoch) for member_id, epoch in fetches]
    answers += [await side.beat("m1", -1), await side.beat("m2", -1)]
    return [*answers, await side.commit("", -1, a, 0), await side.commit("m1", 3, a, 0), await side.fetch("m1", 3)]
