"""The controller at work: whom it fences, whom it gives a lease, and what it does when it cannot write."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from levada.controller.decision import Defaults
from levada.metadata.delta import apply
from levada.metadata.door import Door, Token
from levada.metadata.records import ConfigRecord, MetadataRecord
from levada.node.controller_loop import ControllerLoop
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from levada.sim import Simulation
from levada.world.world import World
from tests.unit.controller.clusters import Cluster

SESSION_MS = 4_000
RECORD = ConfigRecord(resource_type=2, resource_name="topic", name="key", value="value")


class OpenDoor:
    """Anything may be written, unless the disk is full."""

    def __init__(self) -> None:
        self.is_full = False
        self.attempts = 0

    async def confirm(self, token: Token) -> None:
        """No other controller is elected."""

    async def append(self, token: Token, expected_offset: int, records: Sequence[MetadataRecord]) -> None:
        self.attempts += 1
        if self.is_full:
            raise OSError("no space")


class Controller:
    """Of a cluster with one broker."""

    def __init__(self, world: World) -> None:
        self.door = OpenDoor()
        image = Cluster(1).image
        self.loop = ControllerLoop(
            cast(Door, self.door), Token(1), image, world.clock, world.entropy, Defaults, SESSION_MS
        )
        self.running = asyncio.get_running_loop().create_task(self.loop.run())

    @property
    def has_fenced(self) -> bool:
        return self.loop.image.brokers[1].is_fenced

    async def hear(self, offset: int = -1) -> BrokerHeartbeatResponse:
        """A heartbeat of the broker, and what it is told."""
        known = self.loop.image
        request = BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=known.brokers[1].epoch,
            current_metadata_offset=known.offset if offset < 0 else offset,
            want_fence=False,
            want_shut_down=False,
        )
        return (await self.loop.ask(request, 2)).reply


def run(test: Callable[[Controller], Coroutine[Any, Any, None]]) -> None:
    async def main(world: World) -> None:
        controller = Controller(world)
        await test(controller)
        controller.running.cancel()

    with Simulation(1) as simulation:
        simulation.run(simulation.start("a", main))  # type: ignore[arg-type]


def test_a_silent_broker_is_fenced() -> None:
    async def test(controller: Controller) -> None:
        await asyncio.sleep(SESSION_MS / 1000 * 0.9)
        assert not controller.has_fenced
        await asyncio.sleep(SESSION_MS / 1000 * 0.5)
        assert controller.has_fenced

    run(test)


def test_a_broker_whose_heartbeat_comes_late_is_answered_and_not_fenced_by_the_same_batch() -> None:
    """Its lease would outlive the decision that others may do what it did."""

    async def test(controller: Controller) -> None:
        for _ in range(5):
            # By the time the heartbeat wakes the controller, the session is over, and a look is due.
            controller.loop.sessions._sessions[1].heard_ms -= SESSION_MS
            controller.loop._next_look_ms = 0
            reply = await controller.hear()
            assert not reply.is_fenced
            assert not controller.has_fenced

    run(test)


def test_a_broker_that_does_not_read_has_no_lease_for_a_session_before_it_is_fenced() -> None:
    async def test(controller: Controller) -> None:
        end = controller.loop.image.offset
        leased = []
        # Something is decided that it does not come to know.
        controller.loop.image = apply(controller.loop.image, [RECORD], end + 1)
        for number in range(20):
            reply = await controller.hear(offset=end)
            if reply.is_fenced or controller.has_fenced:
                break
            if reply.is_caught_up:
                leased.append(number)
            await asyncio.sleep(SESSION_MS / 1000 / 8)
        assert leased == [0]
        assert 8 <= number <= 11

    run(test)


def test_a_controller_that_cannot_write_that_it_fences_tries_again_after_a_pause() -> None:
    async def test(controller: Controller) -> None:
        controller.door.is_full = True
        await asyncio.sleep(SESSION_MS / 1000 * 3)
        assert 4 <= controller.door.attempts <= 12
        assert not controller.has_fenced
        controller.door.is_full = False
        await asyncio.sleep(SESSION_MS / 1000)
        assert controller.has_fenced

    run(test)
