"""Who a consumer is to its coordinator, and to a transaction with the offsets of what it has read."""

import pytest

from levada.client.consumer.member_state import NO_GENERATION, MemberState
from levada.client.types import GroupMetadata
from tests.clients.simulated import Town, simulate, until


def test_a_generation_that_is_lost_is_still_shown() -> None:
    member = MemberState("group", member_id="me")
    assert member.shown is None
    member.enter(3)
    member.leave()
    assert member.metadata() == GroupMetadata("group", NO_GENERATION, "")
    assert member.shown == GroupMetadata("group", 3, "me")


@pytest.mark.parametrize("options", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"])
def test_a_member_that_polls_too_late_does_not_pass_for_a_consumer_without_a_group(options: dict[str, str]) -> None:
    """Offsets without a member are committed in a transaction without a question: they would go back."""

    async def main(town: Town) -> None:
        await town.topic("t", 1)
        slow = town.member("t", max_poll_interval_ms=1_000, **options).start()
        await until(lambda: slow.partitions == {0})
        before = slow.consumer.group_metadata()
        slow.is_polling = False
        other = town.member("t", **options).start()
        await until(lambda: other.partitions == {0})
        after = slow.consumer.group_metadata()
        assert after.member_id == before.member_id
        assert after.generation_id >= before.generation_id > NO_GENERATION

    simulate(main)
