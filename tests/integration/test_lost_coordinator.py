"""A coordinator that lost its memory takes no data with it."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.brokers import BrokerProcess
from tests.clusters import ClusterProcesses, sound_cluster, wait_for
from tests.integration.test_cluster import create, leaders, metadata
from tests.tools.running import run_ours


def fill(cluster: ClusterProcesses, name: str) -> None:
    assert create(cluster.brokers[1], name, partitions=4) == (0, None)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(40):
        producer.produce(name, str(number), partition=number % 4)
    assert producer.flush(20) == 0


def coordinator_of(cluster: ClusterProcesses) -> Path:
    return cluster.directory / "coordinator"


def expect_refusal(broker: BrokerProcess, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        broker.start()


def has_all(broker: BrokerProcess, *names: str) -> bool:
    return all(-1 not in (leaders(broker, name) or [-1]) for name in names)


def test_brokers_refuse_a_coordinator_that_is_empty_and_give_it_its_memory_back(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path / "cluster", 2)
    with sound_cluster(cluster):
        fill(cluster, "kept")
    shutil.rmtree(coordinator_of(cluster))
    for broker in cluster.brokers.values():
        expect_refusal(broker, "belongs to cluster .* knows of none: if it has lost its memory")
    assert (cluster.brokers[1].data_directory / "kept-0").exists() or (
        cluster.brokers[1].data_directory / "kept-1"
    ).exists()

    directories = ",".join(str(broker.data_directory) for broker in cluster.brokers.values())
    restore = ["metadata", "restore", "--data-dir", directories, "--coordinator", cluster.coordinator]
    shutil.rmtree(coordinator_of(cluster), ignore_errors=True)
    done = run_ours(restore)
    assert done.code == 0, done
    assert "1 topics with 4 partitions, 2 brokers" in done.out
    again = run_ours(restore)
    assert again.code == 1
    assert "is no empty directory" in again.err

    with sound_cluster(cluster):
        for broker in cluster.brokers.values():
            wait_for(lambda broker=broker: has_all(broker, "kept"), "all partitions are led again")  # type: ignore[misc]
        offsets = run_ours(["get-offsets", "--bootstrap-server", cluster.bootstrap, "--topic", "kept"])
        assert sorted(offsets.out.split()) == [f"kept:{index}:10" for index in range(4)]
        assert create(cluster.brokers[2], "later") == (0, None)


def test_brokers_refuse_a_coordinator_that_is_older_than_what_they_have_applied(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path / "cluster", 2)
    with sound_cluster(cluster):
        fill(cluster, "old")
    backup = tmp_path / "backup"
    shutil.copytree(coordinator_of(cluster), backup)
    with sound_cluster(cluster):
        fill(cluster, "new")
        wait_for(lambda: has_all(cluster.brokers[2], "old", "new"), "both brokers know the new topic")
    newer = tmp_path / "newer"
    coordinator_of(cluster).rename(newer)
    shutil.copytree(backup, coordinator_of(cluster))
    for broker in cluster.brokers.values():
        expect_refusal(broker, r"ends at offset \d+, and this broker has applied offset \d+: it is an older copy")
    shutil.rmtree(coordinator_of(cluster))
    newer.rename(coordinator_of(cluster))
    with sound_cluster(cluster):
        for broker in cluster.brokers.values():
            wait_for(lambda broker=broker: has_all(broker, "old", "new"), "all partitions are led")  # type: ignore[misc]


def test_brokers_stop_when_their_coordinator_is_emptied_under_them(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path / "cluster", 2)
    cluster.start()
    try:
        fill(cluster, "t")
        # In one step: its files are written anew all the time.
        coordinator_of(cluster).rename(tmp_path / "gone")
        controller = cluster.brokers[metadata(cluster.brokers[1]).controller_id]
        wait_for(lambda: controller.has_ended or None, "the controller stops")
        assert "was emptied while brokers ran" in controller.log
    finally:
        cluster.kill()
    assert any(cluster.brokers[1].data_directory.glob("t-*"))
