"""What the reliability check looks at in a running cluster: brokers, topics and their state now."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from levada.cli.doctor.findings import Finding, ok, risk
from levada.cli.doctor.reliability import check_broker, check_racks, check_topic

if TYPE_CHECKING:
    from levada.client.admin import TopicDescription
    from levada.client.blocking import Admin

TOPICS_PER_REQUEST = 500


def check_cluster(admin: "Admin", only: list[str]) -> Iterator[Finding]:
    """Every broker, and every topic or those that are named."""
    from levada.client.admin import ConfigResource

    cluster = admin.describe_cluster()
    yield ok("cluster", f"{cluster.cluster_id} with {_count(len(cluster.brokers), 'broker')}")
    resources = [ConfigResource.broker(broker.broker_id) for broker in cluster.brokers]
    is_alone = len(cluster.brokers) == 1
    for resource, entries in admin.describe_configs(resources).items():
        settings = {name: entry.value for name, entry in entries.items()}
        yield from check_broker(int(resource.name), settings, is_alone=is_alone)
    yield from check_racks(broker.rack for broker in cluster.brokers)
    yield from _check_topics(admin, only, is_alone=is_alone)


def _check_topics(admin: "Admin", only: list[str], *, is_alone: bool) -> Iterator[Finding]:
    """Those of the users: what the internal ones have is told under the brokers' settings."""
    from levada.client.admin import ConfigResource

    names = only or sorted(admin.list_topics())
    yield ok("topics", _count(len(names), "topic") + " looked at")
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        some = names[start : start + TOPICS_PER_REQUEST]
        described = admin.describe_topics(some)
        configs = admin.describe_configs([ConfigResource.topic(name) for name in some])
        for name in some:
            topic = described[name]
            settings = {key: entry.value for key, entry in configs[ConfigResource.topic(name)].items()}
            replicas = min(len(one.replicas) for one in topic.partitions)
            yield from check_topic(name, replicas, settings, is_alone=is_alone)
            # No more can be wanted than there are.
            yield from _check_state(topic, min(int(settings.get("min.insync.replicas") or 1), replicas))


def _check_state(topic: "TopicDescription", min_in_sync: int) -> Iterator[Finding]:
    """Where the cluster is less than it should be at this moment."""
    where = f"topic {topic.name}"
    for state, partitions, remedy in (
        ("no leader", [one for one in topic.partitions if one.leader is None], "start the brokers that hold them"),
        (
            f"fewer replicas in sync than min.insync.replicas={min_in_sync}",
            [one for one in topic.partitions if len(one.in_sync) < min_in_sync],
            "bring the missing brokers back: writes with acks=all are refused until then",
        ),
        (
            "replicas out of sync",
            [one for one in topic.partitions if len(one.in_sync) < len(one.replicas)],
            "look why the followers do not keep up",
        ),
    ):
        if partitions:
            listed = ",".join(str(one.index) for one in partitions[:10]) + (",..." if len(partitions) > 10 else "")
            yield risk(where, f"{state} (partitions {listed})", remedy)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
