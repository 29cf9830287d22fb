"""The coordinators of groups: one for each partition of `__consumer_offsets` that this broker leads."""

from collections.abc import Callable, Iterable

from levada.broker.coordinators import Coordinator
from levada.groups import GroupMachine, GroupSettings
from levada.groups.records import decode, encode
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk


class GroupCoordinator(Coordinator[GroupMachine]):
    def __init__(self, new_machine: Callable[[], GroupMachine], clock: Clock, disk: AsyncDisk) -> None:
        super().__init__(new_machine, encode, decode, clock, disk)

    def on_topics(self, names: Iterable[str]) -> None:
        """Topics were made or changed, or are gone."""
        changed = list(names)
        self.run_all(lambda machine, now_ms: machine.on_topics(changed, now_ms))

    def forget_topics(self, names: Iterable[str]) -> None:
        """Topics are gone, and what groups had committed for them."""
        wanted = list(names)
        self.run_all(lambda machine, now_ms: machine.forget_topics(wanted, now_ms))

    def reconfigure(self, settings: GroupSettings) -> None:
        """Some settings change while the broker runs; new machines have them from `new_machine`."""
        self.run_all(lambda machine, _: machine.consumer.reconfigure(settings.consumer))
