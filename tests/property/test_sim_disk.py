"""Whatever a process does, after a crash its synced bytes are there."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from levada.sim import Simulation
from levada.world.disk import File

PATH = "/data/log"


@dataclass
class Model:
    """What a file may look like after a power cut."""

    written: bytes = b""
    synced: bytes = b""
    smallest_since_sync: int = 0
    largest_since_sync: int = 0

    def append(self, data: bytes) -> None:
        self.written += data
        self.largest_since_sync = max(self.largest_since_sync, len(self.written))

    def truncate(self, size: int) -> None:
        self.written = self.written[:size]
        self.smallest_since_sync = min(self.smallest_since_sync, len(self.written))

    def sync(self) -> None:
        self.synced = self.written
        self.smallest_since_sync = self.largest_since_sync = len(self.written)

    def check(self, survived: bytes) -> None:
        """The synced bytes up to the lowest truncation since are certain; nothing was ever longer than the file."""
        certain = self.synced[: self.smallest_since_sync]
        assert survived.startswith(certain)
        assert len(survived) <= self.largest_since_sync


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(min_size=1, max_size=20)),
        st.tuples(st.just("truncate"), st.integers(0, 60)),
        st.tuples(st.just("sync"), st.none()),
        st.tuples(st.just("kill"), st.none()),
        st.tuples(st.just("power loss"), st.none()),
    ),
    max_size=30,
)


@given(seed=st.integers(0, 2**32), steps=steps)
def test_the_synced_prefix_survives_every_crash(seed: int, steps: list[tuple[str, bytes | int | None]]) -> None:
    sim = Simulation(seed)
    world = sim.world("host")
    file: File = world.disk.open(PATH, create=True)
    world.disk.sync_directory("/data")
    model = Model()
    for action, argument in [*steps, ("power loss", None)]:
        if action == "append":
            assert isinstance(argument, bytes)
            file.append([argument])
            model.append(argument)
        elif action == "truncate":
            assert isinstance(argument, int)
            size = min(argument, file.size())
            file.truncate(size)
            model.truncate(size)
        elif action == "sync":
            file.sync()
            model.sync()
        else:
            power_loss = action == "power loss"
            sim.crash("host", power_loss=power_loss)
            file = sim.world("host").disk.open(PATH)
            survived = file.read(0, file.size())
            if power_loss:
                model.check(survived)
                model.written = survived
                model.sync()
            assert survived == model.written


names = st.sampled_from(["a", "b", "c", "d"])
moves = st.lists(
    st.one_of(
        st.tuples(st.just("write"), names, names),
        st.tuples(st.just("rename"), names, names),
        st.tuples(st.just("sync directory"), names, names),
    ),
    max_size=25,
)


@given(seed=st.integers(0, 2**32), moves=moves)
def test_a_durable_file_keeps_exactly_one_of_its_names(seed: int, moves: list[tuple[str, str, str]]) -> None:
    """Without removals, every file whose name was durable and never replaced survives under one of its names."""
    sim = Simulation(seed)
    disk = sim.world("host").disk
    named: dict[str, int] = {}
    durable: dict[str, int] = {}
    replaced: list[int] = []
    for number, (action, name, other) in enumerate(moves):
        if action == "write" and name not in named:
            file = disk.open(f"/data/{name}", create=True)
            file.append([bytes([number])])
            file.sync()
            named[name] = number
        elif action == "rename" and name in named and name != other:
            disk.rename(f"/data/{name}", f"/data/{other}")
            if other in named:
                replaced.append(named[other])
            named[other] = named.pop(name)
        elif action == "sync directory":
            disk.sync_directory("/data")
            durable = dict(named)
    sim.crash("host", power_loss=True)
    after = sim.world("host").disk
    found = [after.open(f"/data/{name}").read(0, 1)[0] for name in after.names("/data")]
    assert len(found) == len(set(found))
    for number in durable.values():
        assert number in found or number in replaced
