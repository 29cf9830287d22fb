"""A topic deleted on a full disk: the ends of its offsets cannot be written, and the next topic has none of them."""

from pathlib import Path

import pytest

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.brokers import BrokerProcess
from tests.chaos.test_full_coordinators import GROUPS, TOPIC, commit, committed, fill_up, make_room, serving
from tests.chaos.test_full_disk import talk

NOTHING = -1, ""


async def commit_all(channel: Channel) -> None:
    for number, group in enumerate(GROUPS):
        assert await commit(channel, group, number, "") is ErrorCode.NONE


async def fill_last_page(channel: Channel) -> None:
    """Commit until not even the shortest of all commits has room."""
    for number in range(5_000):
        if await commit(channel, GROUPS[0], number, "") is not ErrorCode.NONE:
            return
    raise AssertionError("the disk never filled")


async def delete_topic(channel: Channel) -> None:
    reply = await channel.call(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=10_000), 5)
    assert reply.responses[0].error_code == ErrorCode.NONE


async def make_topic(channel: Channel) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    reply = await channel.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert reply.topics[0].error_code == ErrorCode.NONE


def size_of_journal(broker: BrokerProcess) -> int:
    return (broker.data_directory / "__consumer_offsets-0" / f"{0:020d}.log").stat().st_size


@pytest.mark.parametrize("ending", ["room", "kill"])
def test_a_topic_made_anew_has_no_offsets_of_one_that_was_deleted_on_a_full_disk(
    small_disk: Path, tmp_path: Path, ending: str
) -> None:
    with serving(small_disk, tmp_path / "broker.log") as broker:
        talk(broker, commit_all)
        fill_up(small_disk)
        talk(broker, fill_last_page)
        size = size_of_journal(broker)
        talk(broker, delete_topic)
        make_room(broker, small_disk, ending)
        assert size_of_journal(broker) == size, "the ends of the offsets had room after all"
        talk(broker, make_topic)
        assert talk(broker, lambda channel: committed(channel, *GROUPS)) == dict.fromkeys(GROUPS, NOTHING)
        assert talk(broker, lambda channel: commit(channel, GROUPS[1], 9, "new")) is ErrorCode.NONE
        assert talk(broker, lambda channel: committed(channel, GROUPS[1])) == {GROUPS[1]: (9, "new")}
