"""Waits until brokers have made the logs of a topic: Apache's do so after the topic is there."""

from levada import Admin
from tests.tools.scenario import Act, Stage
from tests.tools.stages import wait_until


def logs_are_made(topic: str, count: int) -> Act:
    """On broker 1, for so many partitions."""

    def wait(stage: Stage) -> None:
        with Admin(stage.bootstrap) as admin:
            wait_until(lambda: _made(admin, topic) == count)

    return Act(wait)


def _made(admin: Admin, topic: str) -> int:
    directories = admin.describe_log_dirs([1])[1].values()
    return sum(partition.topic == topic for directory in directories for partition in directory.replicas)
