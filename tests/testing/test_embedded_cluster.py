"""Several brokers in the process of a test."""

import pytest

from levada.testing import EmbeddedCluster


def test_records_are_spread_over_brokers_and_outlive_one() -> None:
    with EmbeddedCluster(3) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.produce("orders", [(f"key-{number}", str(number)) for number in range(30)])
        described = cluster.admin().describe_topics(["orders"])["orders"]
        assert sorted(one.leader or 0 for one in described.partitions) == [1, 2, 3]
        cluster.kill(2)
        assert cluster.brokers == [1, 3]
        cluster.start(2)
        records = cluster.wait_for_records("orders", 30)
        assert sorted(int(record.value or b"") for record in records) == list(range(30))
        assert any(cluster.data_directory(2).glob("orders-*"))


def test_another_broker_decides_when_the_controller_is_gone() -> None:
    with EmbeddedCluster(2) as cluster:
        cluster.create_topic("before")
        cluster.stop(1)
        cluster.create_topic("after")
        assert cluster.admin().describe_cluster().controller_id == 2
        cluster.start()
        assert cluster.brokers == [1, 2]
        assert {"before", "after"} <= set(cluster.admin().list_topics())


def test_clusters_are_apart_and_settings_are_for_all_their_brokers() -> None:
    with EmbeddedCluster(2, auto_create_topics_enable=False) as one, EmbeddedCluster(1) as other:
        one.create_topic("t")
        assert list(other.admin().list_topics()) == []
        assert one.admin().describe_cluster().cluster_id != other.admin().describe_cluster().cluster_id


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one broker, not 0"):
        EmbeddedCluster(0)
    cluster = EmbeddedCluster(2)
    with pytest.raises(RuntimeError, match="the cluster does not run"):
        cluster.create_topic("t")
    with cluster:
        with pytest.raises(ValueError, match="there is no broker 3: they are 1 to 2"):
            cluster.start(3)
        cluster.stop(2)
        with pytest.raises(RuntimeError, match="broker 2 does not run"):
            cluster.kill(2)
