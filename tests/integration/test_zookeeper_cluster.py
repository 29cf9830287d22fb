"""Three brokers whose coordinator is a real ZooKeeper ensemble of three."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from levada.model.error_codes import ErrorCode
from tests.brokers import BrokerProcess
from tests.clusters import ClusterProcesses, sound_cluster, wait_for
from tests.integration.test_cluster import ALL, controller_of, create, leaders, metadata
from tests.tools.running import run_ours
from tests.zookeepers import ZooKeeperEnsemble

MADE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


def cluster_on(ensemble: ZooKeeperEnsemble, directory: Path, name: str) -> ClusterProcesses:
    return ClusterProcesses(directory / name, coordinator=f"zookeeper://{ensemble.hosts}/{name}")


def test_brokers_and_servers_die_in_turn_and_nothing_is_lost(ensemble: ZooKeeperEnsemble, tmp_path: Path) -> None:
    with sound_cluster(cluster_on(ensemble, tmp_path, "one")) as cluster:
        names = []
        for node_id, broker in cluster.brokers.items():
            assert create(broker, f"of-{node_id}", partitions=3) == (0, None)
            names.append(f"of-{node_id}")
        for broker in cluster.brokers.values():
            wait_for(lambda broker=broker: sorted(leaders(broker, "of-3")) == ALL, "all know it")  # type: ignore[misc]

        # The controller
        killed = controller_of(cluster)
        cluster.brokers[killed].kill()
        other = next(broker for node_id, broker in cluster.brokers.items() if node_id != killed)
        wait_for(lambda: create(other, "after-the-controller")[0] in MADE, "another controller")
        cluster.brokers[killed].start()

        # The leader of the ensemble
        leader = ensemble.leader()
        leader.kill()
        wait_for(lambda: create(other, "after-the-leader")[0] in MADE, "the ensemble has another leader")
        leader.start()
        leader.wait_until_serving()

        # The whole ensemble for a while
        for server in ensemble.servers:
            server.pause()
        try:
            code, _ = create(other, "meanwhile")
        finally:
            for server in ensemble.servers:
                server.go_on()
        assert code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
        wait_for(lambda: create(other, "meanwhile")[0] in MADE, "the ensemble is back")

        names += ["after-the-controller", "after-the-leader", "meanwhile"]
        for broker in cluster.brokers.values():
            wait_for(
                lambda broker=broker: all(topic.error_code == 0 for topic in metadata(broker, *names).topics),  # type: ignore[misc]
                "every topic at every broker",
            )
            wait_for(lambda broker=broker: sorted(leaders(broker, "of-1")) == ALL, "all are led")  # type: ignore[misc]


def test_two_clusters_share_an_ensemble_and_know_nothing_of_each_other(
    ensemble: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    coordinators = [f"zookeeper://{ensemble.hosts}/{name}" for name in ("left", "right")]
    left, right = (
        BrokerProcess(tmp_path / f"broker-{number}", node_id=1, coordinator=coordinator)
        for number, coordinator in enumerate(coordinators)
    )
    with sound_cluster(ClusterProcesses.of(tmp_path, left, right)):
        assert create(left, "only-left") == (0, None)
        assert [one.port for one in metadata(right).brokers] == [right.port]
        assert metadata(right, "only-left").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert metadata(left).cluster_id != metadata(right).cluster_id
        # As lines of Kafka's older days name a cluster.
        listed = run_ours(["topics", "--list", "--zookeeper", f"{ensemble.hosts}/left"])
        assert (listed.code, listed.out) == (0, "only-left\n")
    stray = BrokerProcess(tmp_path / "broker-0", node_id=1, coordinator=coordinators[1])
    with pytest.raises(AssertionError, match=r"belongs to cluster .*, its coordinator to"):
        stray.start()


def test_a_file_of_the_zookeeper_era_starts_a_broker(ensemble: ZooKeeperEnsemble, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", f"zookeeper.connect={ensemble.hosts}/era", node_id=5)
    broker.start()
    try:
        assert create(broker, "t") == (0, None)
        assert not (tmp_path / "broker" / "coordinator").exists()
    finally:
        assert broker.stop() == 0


def test_brokers_refuse_an_ensemble_that_was_wiped_and_give_it_its_memory_back(
    ensemble: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    cluster = cluster_on(ensemble, tmp_path, "remembered")
    with sound_cluster(cluster):
        assert create(cluster.brokers[1], "kept", partitions=6) == (0, None)
        for broker in cluster.brokers.values():
            wait_for(lambda broker=broker: leaders(broker, "kept") or None, "all know it")  # type: ignore[misc]
    other = f"zookeeper://{ensemble.hosts}/wiped"
    moved = ClusterProcesses(cluster.directory, coordinator=other)
    with pytest.raises(AssertionError, match="knows of none: if it has lost its memory"):
        moved.brokers[1].start()

    directories = ",".join(str(broker.data_directory) for broker in cluster.brokers.values())
    restore = ["metadata", "restore", "--data-dir", directories, "--coordinator", other]
    done = run_ours(restore)
    assert done.code == 0, done
    assert "1 topics with 6 partitions, 3 brokers" in done.out
    again = run_ours(restore)
    assert again.code == 1
    assert "is not empty" in again.err

    with sound_cluster(moved):
        for broker in moved.brokers.values():
            wait_for(lambda broker=broker: sorted(leaders(broker, "kept")) == [1, 1, 2, 2, 3, 3], "all are led")  # type: ignore[misc]
        assert create(moved.brokers[2], "later") == (0, None)
