"""The coordinators of groups: one for each partition of `__consumer_offsets` that this broker leads."""

from collections.abc import Callable, Iterable

from levada.broker.coordinators import LOAD_BUFFER_SIZE, Coordinator
from levada.groups import GroupMachine, GroupSettings
from levada.groups.records import decode, encode
from levada.records import Codec
from levada.world.background import OnFatal
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk


class GroupCoordinator(Coordinator[GroupMachine]):
    def __init__(
        self,
        new_machine: Callable[[], GroupMachine],
        clock: Clock,
        disk: AsyncDisk,
        *,
        on_fatal: OnFatal | None = None,
        load_buffer_size: int = LOAD_BUFFER_SIZE,
        codec: Codec = Codec.NONE,
    ) -> None:
        super().__init__(
            new_machine, encode, decode, clock, disk, on_fatal=on_fatal, load_buffer_size=load_buffer_size, codec=codec
        )

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
