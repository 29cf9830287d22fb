"""Membership in classic groups: choices that are pure, and the rest against a simulated broker."""

import asyncio
import logging
import re

import pytest

from levada.client.assignors import ASSIGNORS, Assignor, RebalanceProtocol, Subscription
from levada.client.consumer.classic_join import check_cooperative, common_protocol, configured_assignors
from levada.client.errors import CommitFailed, ConfigurationError, IllegalState, RebalanceInProgress
from levada.client.options import consumer_options
from levada.protocol.api import ApiKey
from tests.clients.simulated import BROKER, SESSION_MS, Town, simulate, speak_at_most, until

SESSION_SECONDS = SESSION_MS / 1_000


def protocol_of(*names: str) -> RebalanceProtocol:
    return common_protocol([ASSIGNORS[name]() for name in names])


def test_the_protocol_is_the_highest_that_all_assignors_have() -> None:
    assert protocol_of("range", "cooperative-sticky") is RebalanceProtocol.EAGER
    assert protocol_of("cooperative-sticky") is RebalanceProtocol.COOPERATIVE
    assert protocol_of("sticky") is RebalanceProtocol.EAGER


class OnlyCooperative(Assignor):
    name = "mine"
    rebalance_protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, partition_counts, members, racks=None):  # type: ignore[no-untyped-def]
        return {}


def test_assignors_without_a_common_protocol_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="mine"):
        common_protocol([ASSIGNORS["range"](), OnlyCooperative()])


def test_the_default_assignors_are_those_of_kafka_4_in_their_order() -> None:
    options = consumer_options("localhost:9092", {"group_id": "g"})
    assert list(configured_assignors(options)) == ["range", "cooperative-sticky"]


def test_each_consumer_has_assignors_of_its_own() -> None:
    options = consumer_options("localhost:9092", {"group_id": "g", "partition_assignment_strategy": "sticky"})
    assert configured_assignors(options)["sticky"] is not configured_assignors(options)["sticky"]


def test_two_assignors_of_one_name_are_refused() -> None:
    given = {"group_id": "g", "partition_assignment_strategy": ["range", ASSIGNORS["range"]()]}
    with pytest.raises(ConfigurationError, match="two assignors"):
        configured_assignors(consumer_options("localhost:9092", given))


def test_a_cooperative_assignor_may_not_move_what_is_still_owned() -> None:
    members = {"a": Subscription(["t"], owned_partitions=[("t", 0)]), "b": Subscription(["t"])}
    with pytest.raises(IllegalState, match="before the old ones"):
        check_cooperative(OnlyCooperative(), members, {"a": [], "b": [("t", 0)]})
    check_cooperative(OnlyCooperative(), members, {"a": [("t", 0)], "b": []})


def test_a_poll_that_cannot_wait_joins_all_the_same() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        member = town.member("t")
        polls = 0

        async def poll() -> None:
            nonlocal polls
            while not member.partitions:
                await member.consumer.poll(0)
                polls += 1
                await asyncio.sleep(0.01)

        await member.do(poll())
        assert polls > 1
        assert member.told == [("assigned", [0, 1])]

    simulate(main)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_lost_connections_do_not_cost_the_membership(strategy: str) -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        member = town.member("t", partition_assignment_strategy=strategy).start()
        await until(lambda: member.partitions == {0, 1})
        before = member.consumer.group_metadata()
        for _ in range(10):
            town.network.reset(BROKER, member.host)
            await asyncio.sleep(SESSION_SECONDS / 5)
        assert member.consumer.group_metadata() == before
        assert member.told == [("assigned", [0, 1])]

    simulate(main)


def test_a_broker_that_comes_back_in_time_finds_its_members() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        member = town.member("t").start()
        await until(lambda: member.partitions == {0, 1})
        town.crash_broker()
        await asyncio.sleep(2 * SESSION_SECONDS)
        town.start_broker()
        await asyncio.sleep(2 * SESSION_SECONDS)
        assert member.told == [("assigned", [0, 1])]

    simulate(main)


def test_a_pattern_waits_for_a_broker_that_is_away() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        town.crash_broker()
        member = town.member("t")
        await member.do(member.consumer.unsubscribe())
        member.consumer.subscribe(re.compile("t"), listener=member)
        member.start()
        await asyncio.sleep(2 * SESSION_SECONDS)
        town.start_broker()
        await until(lambda: member.partitions == {0, 1})
        assert member.failure is None

    simulate(main)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_who_was_cut_off_for_a_session_has_lost_its_partitions(strategy: str) -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        lonely, other = (town.member("t", partition_assignment_strategy=strategy).start() for _ in range(2))
        await until(lambda: len(lonely.partitions) == len(other.partitions) == 1)
        had = sorted(lonely.partitions)
        town.network.partition(BROKER, lonely.host)
        await until(lambda: other.partitions == {0, 1})
        assert lonely.told[-1][0] == "assigned", "it cannot know"
        with pytest.raises(Exception, match="not committed"):
            await lonely.do(lonely.consumer.commit({("t", 0): 0}, timeout=1))
        town.network.heal_all()
        await until(lambda: ("lost", had) in lonely.told)
        await until(lambda: len(lonely.partitions) == len(other.partitions) == 1)

    simulate(main)


def test_who_polls_too_rarely_leaves_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        await town.produce("t", 0, [b"1"])
        slow = town.member("t", max_poll_interval_ms=20_000).start()
        await until(lambda: slow.values == [b"1"])
        slow.is_polling = False
        await asyncio.sleep(19)
        await slow.do(slow.consumer.commit())
        await asyncio.sleep(2)
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms=20000"):
            await slow.do(slow.consumer.commit())
        assert slow.told == [("assigned", [0, 1])]
        slow.is_polling = True
        await until(lambda: slow.told == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])])

    with caplog.at_level(logging.WARNING, "levada.client"):
        simulate(main)
    assert "max.poll.records" in caplog.text


def test_a_commit_while_the_group_rebalances_is_refused_with_what_to_do() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        first = town.member("t", partition_assignment_strategy="cooperative-sticky").start()
        absent = town.member("t", partition_assignment_strategy="cooperative-sticky").start()
        await until(lambda: len(first.partitions) == len(absent.partitions) == 1)
        # It sends heartbeats and does not join: the group waits for it.
        absent.is_polling = False
        await asyncio.sleep(1)
        town.member("t", partition_assignment_strategy="cooperative-sticky").start()
        await asyncio.sleep(2)
        assert len(first.partitions) == 1, "it goes on with what it has"
        with pytest.raises(RebalanceInProgress, match="Poll"):
            await first.do(first.consumer.commit({("t", 0): 0}))
        absent.is_polling = True
        await until(lambda: first.consumer.group_metadata().generation_id > 2)

    simulate(main)


def test_a_member_whose_join_waits_can_leave_at_once() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        first = town.member("t").start()
        await until(lambda: first.partitions == {0, 1})
        first.is_polling = False
        waiting = town.member("t")
        assert await waiting.do(waiting.consumer.poll(2)) == []
        before_s = town.simulation.loop.time()
        await waiting.do(waiting.consumer.close())
        assert town.simulation.loop.time() - before_s < 1
        first.is_polling = True
        await until(lambda: first.partitions == {0, 1} and len(first.told) >= 3)

    simulate(main)


OLDEST = {
    ApiKey.JOIN_GROUP: 2,
    ApiKey.SYNC_GROUP: 1,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
}


def test_old_versions_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    speak_at_most(monkeypatch, OLDEST)

    async def main(town: Town) -> None:
        await town.topic("t", 2)
        await town.produce("t", 0, [b"1", b"2"])
        first = town.member("t").start()
        await until(lambda: first.values == [b"1", b"2"])
        second = town.member("t").start()
        await until(lambda: len(first.partitions) == len(second.partitions) == 1)
        await second.do(second.consumer.close())
        await until(lambda: first.partitions == {0, 1})
        assert await first.do(first.consumer.committed([("t", 0)])) == {("t", 0): (2, "", None)}

    simulate(main)


def test_a_listener_that_fails_is_heard_in_poll_and_the_group_goes_on() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        member = town.member("t")

        def fail(partitions: object) -> None:
            raise ZeroDivisionError

        member.on_partitions_assigned = fail  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError):
            await member.do(member.consumer.poll(5))
        assert member.partitions == {0, 1}
        assert await member.do(member.consumer.poll(1)) == []

    simulate(main)
