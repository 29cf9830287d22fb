"""A compacted log that also moves between two directories, by the steps that a broker goes, and may die at each."""

from collections.abc import Iterator
from typing import Final

from levada.model.hashes import uuid_to_text
from levada.node.directories import Found, superseded
from levada.storage.checkpoint import write_atomically
from levada.storage.copying import copy_files
from levada.storage.log_directory import LogDirectory
from levada.storage.move_tail import MOVED_FILE, names_to_copy, state_to_hand_over, write_end
from tests.logs import killed
from tests.property.compacted_log import CONFIG, KilledCompactedLog
from tests.property.deaths import until_death

PLACES: Final = {"/data": b"\x01" * 16, "/other": b"\x02" * 16}
TOPIC, PARTITION = "t", 0
NAME: Final = f"{TOPIC}-{PARTITION}"
FUTURE: Final = f"{NAME}.{'0' * 32}-future"


class MovingCompactedLog(KilledCompactedLog):
    def __init__(self, seed: int) -> None:
        self.moving: Iterator[None] | None = None
        self.moves = 0
        super().__init__(seed)
        self.disk.make_directories("/other")
        self.disk.sync_directory("/")

    @until_death
    def clean(self) -> None:
        if self.moving is None:
            self.go_on_cleaning()

    @until_death
    def move(self) -> None:
        """Go some steps of a move; writes and retention may come in between, but no cleaning."""
        if self.cleaning is not None:
            return
        if self.moving is None:
            self.moving = self._moving()
        for _ in range(self.chance.choice((1, 3, 1_000))):
            if next(self.moving, "over") == "over":
                self.moving = None
                self.check()
                return

    def _moving(self) -> Iterator[None]:
        source, target = sorted(PLACES, key=lambda place: not self.directory.startswith(place))
        future = f"{target}/{FUTURE}"
        if self.disk.exists(future):
            self.disk.remove_tree(future)
        self.disk.make_directories(future)
        copied_until = 0
        while True:
            yield
            segments = [one for one in self.log.segments[:-1] if one.base_offset >= copied_until]
            if not segments:
                break
            names = names_to_copy(self.disk, self.log, segments[0])
            copy_files(self.disk, self.log.directory, future, names, lambda _: None)
            copied_until = segments[0].next_offset
        self._take_over(target, future)
        yield
        self.disk.sync_directory(target)
        yield
        self.disk.rename(f"{source}/{NAME}", f"{source}/{NAME}.gone-delete")
        yield
        self.disk.sync_directory(source)
        self.disk.remove_tree(f"{source}/{NAME}.gone-delete")
        self.moves += 1

    def _take_over(self, target: str, future: str) -> None:
        old = self.log
        write_atomically(self.disk, old.directory, MOVED_FILE, uuid_to_text(PLACES[target]))
        place = self._place(target)
        place.expect(TOPIC, PARTITION, state_to_hand_over(old))
        write_end(self.disk, old, future)
        self.disk.sync_directory(future)
        self.log = place.adopt(future, TOPIC, PARTITION, self.now_ms, CONFIG)
        self.directory, self.files = f"{target}/{NAME}", place.files
        old.abandon("it has moved")
        self.checkpoint = killed(self.log)

    def _place(self, path: str) -> LogDirectory:
        return LogDirectory(self.disk, path, CONFIG, lambda _: 0, directory_id=PLACES[path])

    def find_place(self) -> None:
        """As a node does when it starts."""
        self.moving = None
        found = [
            Found(self._place(path), TOPIC, PARTITION, None) for path in PLACES if self.disk.exists(f"{path}/{NAME}")
        ]
        gone = superseded(self.disk, found)
        left = [one for one in found if one not in gone]
        for one in gone:
            self.disk.rename(one.path, f"{one.path}.gone-delete")
        for path in filter(self.disk.exists, PLACES):
            # Else what says whose it is could be removed, and the rename undone.
            self.disk.sync_directory(path)
            for name in self.disk.names(path):
                if name.endswith(("-future", "-delete")):
                    self.disk.remove_tree(f"{path}/{name}")
        assert len(left) <= 1
        if left:
            self.directory = left[0].path
