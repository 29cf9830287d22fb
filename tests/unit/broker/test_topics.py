"""Topics in a data directory: several with records through restarts, and creations that were cut off."""

from pathlib import Path

import pytest

from penstock.broker.topics import Topics
from penstock.model.errors import InvalidPartitions, InvalidTopic, TopicAlreadyExists
from penstock.records import build_batch
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory
from penstock.world.real import RealClock, RealEntropy
from penstock.world.real_disk import RealDisk
from tests.logs import read_all

CONFIG = LogConfig(segment_bytes=2_000, max_index_bytes=2_400)


class Broker:
    """The topics of a directory and the logs below them, as a node opens them."""

    def __init__(self, directory: Path) -> None:
        self.logs = LogDirectory(RealDisk(), str(directory), CONFIG, lambda _: 0)
        self.logs.begin()
        self.topics = Topics(RealDisk(), str(directory), self.logs, RealEntropy(), RealClock())
        for name, (topic_id, indexes) in self.topics.find().items():
            states = {index: self.logs.state_of(name, index) for index in indexes}
            self.topics.open(name, topic_id, states)

    def stop(self) -> None:
        self.logs.close(broker_epoch=0)

    def names(self) -> list[str]:
        return sorted(topic.name for topic in self.topics.all())

    def append(self, topic: str, index: int, value: bytes) -> int:
        found = self.topics.by_name(topic)
        assert found is not None
        data = build_batch([(0, None, value, ())])
        return found.partitions[index].append(data, allows_zstd=True, now_ms=0).base_offset

    def values(self, topic: str, index: int) -> list[bytes | None]:
        found = self.topics.by_name(topic)
        assert found is not None
        return [value for _, value in read_all(found.partitions[index].log)]


def test_a_created_topic_is_there_after_a_restart(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    created = broker.topics.create("orders-eu", 3)
    broker.stop()
    again = Broker(tmp_path)
    found = again.topics.by_name("orders-eu")
    assert found is not None
    assert found.topic_id == created.topic_id
    assert again.topics.by_id(created.topic_id) is found
    assert [partition.index for partition in found.partitions] == [0, 1, 2]


@pytest.mark.parametrize("is_clean", [True, False])
def test_several_topics_keep_their_records_through_stops_and_crashes(tmp_path: Path, is_clean: bool) -> None:
    expected: dict[tuple[str, int], list[bytes | None]] = {}
    broker = Broker(tmp_path)
    for topic, count in (("a", 3), ("a-b", 2), ("c.d", 1)):
        broker.topics.create(topic, count)
        expected |= {(topic, index): [] for index in range(count)}
    for round_number in range(4):
        for number in range(60):
            for (topic, index), values in expected.items():
                value = f"{topic} {index} {round_number} {number}".encode() * (number % 4)
                assert broker.append(topic, index, value) == len(values)
                values.append(value)
        if is_clean:
            broker.stop()
        broker = Broker(tmp_path)
        assert broker.logs.was_clean == is_clean
        assert broker.names() == ["a", "a-b", "c.d"]
        for (topic, index), values in expected.items():
            assert broker.values(topic, index) == values
            found = broker.topics.by_name(topic)
            assert found is not None
            assert found.partitions[index].high_watermark == len(values)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\0"])
def test_illegal_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidTopic):
        Broker(tmp_path).topics.create(name, 1)
    assert list(tmp_path.iterdir()) == []


def test_names_that_exist_or_collide_and_counts_below_one_are_refused(tmp_path: Path) -> None:
    topics = Broker(tmp_path).topics
    topics.create("a.b", 1)
    with pytest.raises(TopicAlreadyExists):
        topics.create("a.b", 1)
    with pytest.raises(InvalidTopic):
        topics.create("a_b", 1)
    with pytest.raises(InvalidPartitions):
        topics.create("c", 0)


def topic_directories(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


@pytest.mark.parametrize("survivors", [["t-2"], ["t-2", "t-1"], ["t-0", "t-1", "t-2"]])
def test_a_creation_that_was_cut_off_is_swept_away(tmp_path: Path, survivors: list[str]) -> None:
    broker = Broker(tmp_path)
    broker.topics.create("t", 3)
    broker.stop()
    for index in range(3):
        directory = tmp_path / f"t-{index}"
        if directory.name not in survivors:
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()
    if "t-0" in survivors:
        (tmp_path / "t-0" / "partition.metadata").unlink()
    again = Broker(tmp_path)
    assert again.topics.all() == []
    assert topic_directories(tmp_path) == []
    again.topics.create("t", 1)
    assert topic_directories(tmp_path) == ["t-0"]


def test_records_are_never_swept_away(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topics.create("t", 2)
    broker.append("t", 1, b"v")
    broker.stop()
    (tmp_path / "t-0" / "partition.metadata").unlink()
    assert Broker(tmp_path).topics.all() == []
    assert (tmp_path / "t-1" / f"{0:020d}.log").stat().st_size > 0


def test_damaged_and_foreign_names_do_not_stop_the_others(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topics.create("good", 1)
    broker.topics.create("damaged", 1)
    broker.stop()
    (tmp_path / "damaged-0" / "partition.metadata").write_text("version: 0\ntopic_id: !!!")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "file-0").write_text("not a directory")
    again = Broker(tmp_path)
    assert again.names() == ["good"]
    assert (tmp_path / "damaged-0").exists()
