"""Our consumer in groups, against a real broker; the cases are shared with Apache's."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.brokers import BrokerProcess, sound
from tests.clients import group_cases as cases
from tests.clients.group_cases import CLASSIC, NEXT, OurNextMember, Protocol
from tests.clients.groups import (
    AiokafkaMember,
    ConfluentMember,
    ConfluentNextMember,
    KafkaPythonMember,
    Member,
    OurMember,
)

PROTOCOLS = {"classic": CLASSIC, "consumer": NEXT}
of_both = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = [f"{name}={value}" for name, value in cases.BROKER_SETTINGS.items()]
    with sound(BrokerProcess(tmp_path_factory.mktemp("broker") / "data", *settings)) as process:
        yield process.bootstrap


@of_both
def test_members_share_and_the_last_one_has_all(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.members_share_and_the_last_one_has_all(bootstrap, protocol))


def test_a_cooperative_member_keeps_what_it_has(bootstrap: str) -> None:
    asyncio.run(cases.a_cooperative_member_keeps_what_it_has(bootstrap))


def test_a_group_moves_from_eager_to_cooperative_one_by_one(bootstrap: str) -> None:
    asyncio.run(cases.a_group_moves_from_eager_to_cooperative_one_by_one(bootstrap))


@of_both
def test_a_static_member_restarts_without_a_rebalance(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.a_static_member_restarts_without_a_rebalance(bootstrap, protocol))


def test_a_second_instance_fences_the_first(bootstrap: str) -> None:
    asyncio.run(cases.a_second_instance_fences_the_first(bootstrap))


def test_scenario_13_range_and_round_robin(bootstrap: str) -> None:
    asyncio.run(cases.scenario_13_range_and_round_robin(bootstrap))


def test_scenario_13_sticky_keeps_what_members_had(bootstrap: str) -> None:
    asyncio.run(cases.scenario_13_sticky_keeps_what_members_had(bootstrap))


def test_scenario_14_what_a_commit_before_and_after_processing_costs(bootstrap: str) -> None:
    asyncio.run(cases.scenario_14_what_a_commit_before_and_after_processing_costs(bootstrap))


@of_both
def test_scenario_15_who_polls_too_rarely_leaves(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.scenario_15_who_polls_too_rarely_leaves(bootstrap, protocol))


def test_heartbeats_go_on_while_the_users_thread_computes_but_not_for_ever(bootstrap: str) -> None:
    cases.a_blocking_consumer_computes(bootstrap)


@of_both
def test_scenario_16_one_member_of_each_group_gets_a_record(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.scenario_16_one_member_of_each_group_gets_a_record(bootstrap, protocol))


@of_both
def test_a_pattern_finds_new_topics(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.a_pattern_finds_new_topics(bootstrap, protocol))


def test_the_coordinator_knows_what_a_pattern_means(bootstrap: str) -> None:
    asyncio.run(cases.the_coordinator_knows_what_a_pattern_means(bootstrap))


@of_both
def test_new_partitions_are_picked_up(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.new_partitions_are_picked_up(bootstrap, protocol))


@of_both
def test_a_listener_commits_before_it_loses_partitions(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.a_listener_commits_before_it_loses_partitions(bootstrap, protocol))


@of_both
def test_commits_keep_their_order(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.commits_keep_their_order(bootstrap, protocol))


@of_both
def test_a_consumer_goes_on_where_the_last_one_was_closed(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.a_consumer_goes_on_where_the_last_one_was_closed(bootstrap, protocol))


@of_both
def test_who_unsubscribes_leaves_and_may_come_back(bootstrap: str, protocol: Protocol) -> None:
    asyncio.run(cases.who_unsubscribes_leaves_and_may_come_back(bootstrap, protocol))


def test_members_without_a_common_assignor_are_told_so(bootstrap: str) -> None:
    asyncio.run(cases.members_without_a_common_assignor_are_told_so(bootstrap))


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_our_member_shares_a_group_with_all_others(bootstrap: str, strategy: str) -> None:
    kinds: list[type[Member]] = [OurMember, ConfluentMember, KafkaPythonMember, AiokafkaMember]
    asyncio.run(cases.members_of_many_kinds_share_a_group(bootstrap, kinds, strategy))


def test_our_sticky_member_shares_a_group_with_those_who_have_it(bootstrap: str) -> None:
    kinds: list[type[Member]] = [OurMember, KafkaPythonMember, AiokafkaMember]
    asyncio.run(cases.members_of_many_kinds_share_a_group(bootstrap, kinds, "sticky"))


def test_our_cooperative_member_shares_a_group_with_those_who_have_it(bootstrap: str) -> None:
    kinds: list[type[Member]] = [OurMember, ConfluentMember, KafkaPythonMember]
    asyncio.run(cases.members_of_many_kinds_share_a_group(bootstrap, kinds, "cooperative-sticky"))


def test_our_member_of_the_new_protocol_shares_a_group_with_librdkafka(bootstrap: str) -> None:
    kinds: list[type[Member]] = [OurNextMember, ConfluentNextMember, OurNextMember]
    asyncio.run(cases.members_of_many_kinds_share_a_group(bootstrap, kinds, ""))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_our_members_of_both_protocols_share_a_group(bootstrap: str, strategy: str) -> None:
    kinds: list[type[Member]] = [OurMember, OurNextMember, OurMember]
    asyncio.run(cases.members_of_many_kinds_share_a_group(bootstrap, kinds, strategy))
