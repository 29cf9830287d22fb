"""Topics in a data directory, also after a creation that was cut off."""

from pathlib import Path

import pytest

from penstock.broker.topics import Topics
from penstock.model.errors import InvalidPartitions, InvalidTopic, TopicAlreadyExists
from penstock.records import build_batch
from penstock.world.real import RealEntropy
from penstock.world.real_disk import RealDisk


def topics_in(directory: Path) -> Topics:
    topics = Topics(RealDisk(), str(directory), RealEntropy(), segment_bytes=1 << 20)
    topics.load()
    return topics


def test_a_created_topic_is_there_after_a_restart(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)
    created = topics.create("orders-eu", 3)
    topics.close()
    again = topics_in(tmp_path)
    found = again.by_name("orders-eu")
    assert found is not None
    assert found.topic_id == created.topic_id
    assert again.by_id(created.topic_id) is found
    assert [partition.index for partition in found.partitions] == [0, 1, 2]
    again.close()


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\0"])
def test_illegal_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidTopic):
        topics_in(tmp_path).create(name, 1)
    assert list(tmp_path.iterdir()) == []


def test_names_that_exist_or_collide_and_counts_below_one_are_refused(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)
    topics.create("a.b", 1)
    with pytest.raises(TopicAlreadyExists):
        topics.create("a.b", 1)
    with pytest.raises(InvalidTopic):
        topics.create("a_b", 1)
    with pytest.raises(InvalidPartitions):
        topics.create("c", 0)
    topics.close()


@pytest.mark.parametrize("survivors", [["t-2"], ["t-2", "t-1"], ["t-0", "t-1", "t-2"]])
def test_a_creation_that_was_cut_off_is_swept_away(tmp_path: Path, survivors: list[str]) -> None:
    topics = topics_in(tmp_path)
    topics.create("t", 3)
    topics.close()
    for index in range(3):
        directory = tmp_path / f"t-{index}"
        if directory.name not in survivors:
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()
    if "t-0" in survivors:
        (tmp_path / "t-0" / "partition.metadata").unlink()
    again = topics_in(tmp_path)
    assert again.all() == []
    assert list(tmp_path.iterdir()) == []
    again.create("t", 1)
    again.close()


def test_records_are_never_swept_away(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)
    topics.create("t", 2).partitions[1].append(build_batch([(0, None, b"v", ())]), max_bytes=1_000, allows_zstd=True)
    topics.close()
    (tmp_path / "t-0" / "partition.metadata").unlink()
    again = topics_in(tmp_path)
    assert again.all() == []
    assert (tmp_path / "t-1" / f"{0:020d}.log").stat().st_size > 0


def test_damaged_and_foreign_names_do_not_stop_the_others(tmp_path: Path) -> None:
    topics = topics_in(tmp_path)
    topics.create("good", 1)
    topics.create("damaged", 1)
    topics.close()
    (tmp_path / "damaged-0" / "partition.metadata").write_text("version: 0\ntopic_id: !!!")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "file-0").write_text("not a directory")
    again = topics_in(tmp_path)
    assert [topic.name for topic in again.all()] == ["good"]
    assert (tmp_path / "damaged-0").exists()
    again.close()
