"""Membership in groups of the new protocol: heartbeats that say what has changed, and the rest in a simulation."""

import asyncio
import logging
import re

import pytest

from levada.client.consumer.kip848_report import JOINING, Kip848Report
from levada.client.consumer.subscription import Subscriptions
from levada.client.errors import CommitFailed, KafkaError
from levada.client.options import consumer_options
from levada.client.types import TopicPartition
from levada.protocol.api import ApiKey
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from tests.clients.simulated import BROKER, SESSION_MS, Town, simulate, speak_at_most, until

NEXT = {"group_protocol": "consumer"}
SESSION_SECONDS = SESSION_MS / 1_000
ID = bytes(range(16))


def new_report(**given: object) -> Kip848Report:
    options = consumer_options("localhost:9092", {"group_id": "g", **NEXT, **given})
    subscriptions = Subscriptions()
    subscriptions.subscribe(["b", "a"], None)
    return Kip848Report(options, subscriptions)


def heartbeat(report: Kip848Report, epoch: int, version: int = 1) -> ConsumerGroupHeartbeatRequest:
    said = report.now()
    request = report.heartbeat(said, "g", "m", epoch, version)
    report.answered(said)
    return request


def test_a_member_that_joins_says_everything() -> None:
    request = heartbeat(new_report(group_remote_assignor="range", client_rack="r", group_instance_id="i"), JOINING)
    assert request == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["a", "b"],
        server_assignor="range",
        topic_partitions=[],
    )


def test_a_member_that_is_in_says_what_has_changed() -> None:
    report = new_report()
    heartbeat(report, JOINING)
    assert heartbeat(report, 1) == ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    report.ids[TopicPartition("a", 1)] = ID
    owned = heartbeat(report, 1)
    assert owned.topic_partitions == [RequestTopicPartitions(topic_id=ID, partitions=[1])]
    assert owned.subscribed_topic_names is None
    report.subscriptions.subscribe(["c"], None)
    changed = heartbeat(report, 1)
    assert changed.subscribed_topic_names == ["c"]
    assert changed.topic_partitions is None


def test_what_was_not_answered_is_said_again_with_everything_else() -> None:
    report = new_report()
    heartbeat(report, JOINING)
    report.ids[TopicPartition("a", 1)] = ID
    report.forget()
    request = heartbeat(report, 1)
    assert request.subscribed_topic_names == ["a", "b"]
    assert request.rebalance_timeout_ms == 300_000
    assert request.topic_partitions == [RequestTopicPartitions(topic_id=ID, partitions=[1])]


def test_a_pattern_is_taken_back_by_an_empty_one() -> None:
    report = new_report()
    report.subscriptions.unsubscribe()
    report.subscriptions.subscribe_server_pattern("a.*", None)
    first = heartbeat(report, JOINING)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == ([], "a.*")
    report.subscriptions.unsubscribe()
    report.subscriptions.subscribe(["b"], None)
    second = heartbeat(report, 1)
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (["b"], "")


def test_an_old_coordinator_hears_of_no_pattern() -> None:
    assert heartbeat(new_report(), JOINING, version=0).subscribed_topic_regex is None


def test_a_coordinator_of_version_0_makes_the_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    speak_at_most(monkeypatch, {ApiKey.CONSUMER_GROUP_HEARTBEAT: 0})

    async def main(town: Town) -> None:
        await town.topic("t", 2)
        first, second = (town.member("t", **NEXT).start() for _ in range(2))
        await until(lambda: len(first.partitions) == len(second.partitions) == 1)
        assert first.consumer.group_metadata().member_id
        await second.do(second.consumer.close())
        await until(lambda: first.partitions == {0, 1})

    simulate(main)


def test_lost_connections_do_not_cost_the_membership() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        member = town.member("t", **NEXT).start()
        await until(lambda: member.partitions == {0, 1})
        before = member.consumer.group_metadata()
        for _ in range(10):
            town.network.reset(BROKER, member.host)
            await asyncio.sleep(SESSION_SECONDS / 5)
        assert member.consumer.group_metadata() == before
        assert member.told == [("assigned", [0, 1])]

    simulate(main)


def test_who_was_cut_off_for_a_session_has_lost_its_partitions() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        lonely, other = (town.member("t", **NEXT).start() for _ in range(2))
        await until(lambda: len(lonely.partitions) == len(other.partitions) == 1)
        had = sorted(lonely.partitions)
        town.network.partition(BROKER, lonely.host)
        await until(lambda: other.partitions == {0, 1})
        town.network.heal_all()
        await until(lambda: ("lost", had) in lonely.told)
        await until(lambda: len(lonely.partitions) == len(other.partitions) == 1)

    simulate(main)


def test_what_moves_is_given_up_before_another_gets_it() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 4)
        first = town.member("t", **NEXT).start()
        await until(lambda: len(first.partitions) == 4)
        first.is_polling = False
        second = town.member("t", **NEXT).start()
        await asyncio.sleep(5)
        assert second.partitions == set(), "who does not poll does not give up"
        first.is_polling = True
        await until(lambda: len(second.partitions) == 2)
        assert first.told[1:] == [("revoked", sorted(second.partitions))]

    simulate(main)


def test_who_polls_too_rarely_leaves_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        await town.produce("t", 0, [b"1"])
        slow = town.member("t", max_poll_interval_ms=20_000, **NEXT).start()
        await until(lambda: slow.values == [b"1"])
        slow.is_polling = False
        await asyncio.sleep(21)
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms=20000"):
            await slow.do(slow.consumer.commit())
        slow.is_polling = True
        await until(lambda: slow.told == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])])

    with caplog.at_level(logging.WARNING, "levada.client"):
        simulate(main)
    assert "max.poll.records" in caplog.text


def test_a_broker_that_comes_back_finds_its_members_again() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        member = town.member("t", **NEXT).start()
        await until(lambda: member.partitions == {0, 1})
        town.crash_broker()
        await asyncio.sleep(2)
        town.start_broker()
        await asyncio.sleep(10)
        assert member.failure is None
        assert member.partitions == {0, 1}

    simulate(main)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"group_remote_assignor": "none-such"}, "none-such"), ({"group_instance_id": "one"}, "still in the group")],
)
def test_what_will_not_pass_is_raised_by_every_poll(options: dict[str, str], text: str) -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        holder = town.member("t", group_instance_id="one", **NEXT).start()
        await until(lambda: holder.partitions == {0, 1})
        member = town.member("t", **NEXT, **options)
        for _ in range(2):
            with pytest.raises(KafkaError, match=text):
                await member.do(member.consumer.poll(5))

    simulate(main)


def test_a_topic_that_is_made_again_is_another_one() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 1)
        await town.produce("t", 0, [b"old", b"older"])
        member = town.member("t", **NEXT).start()
        await until(lambda: len(member.values) == 2)
        await town.drop("t")
        await town.topic("t", 1)
        await town.produce("t", 0, [b"new"])
        await until(lambda: member.values[2:] == [b"new"])
        assert member.partitions == {0}

    simulate(main)


def test_a_pattern_can_take_the_place_of_names() -> None:
    async def main(town: Town) -> None:
        await town.topic("t1", 1)
        await town.topic("t2", 1)
        member = town.member("t1", **NEXT).start()
        await until(lambda: member.consumer.assignment() == {("t1", 0)})
        member.is_polling = False
        await asyncio.sleep(1)
        await member.do(member.consumer.unsubscribe())
        member.consumer.subscribe(re.compile("t.*"), listener=member)
        member.is_polling = True
        await until(lambda: member.consumer.assignment() == {("t1", 0), ("t2", 0)})

    simulate(main)
