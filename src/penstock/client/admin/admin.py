"""The admin client."""

import logging
from collections.abc import Sequence
from types import TracebackType

from penstock.client.admin.acls import AclsPart
from penstock.client.admin.asking import Asking
from penstock.client.admin.cluster import ClusterPart
from penstock.client.admin.configs import ConfigsPart
from penstock.client.admin.group_offsets import GroupOffsetsPart
from penstock.client.admin.groups import GroupsPart
from penstock.client.admin.log_directories import LogDirectoriesPart
from penstock.client.admin.partitions import PartitionsPart
from penstock.client.admin.quotas import QuotasPart
from penstock.client.admin.routing import Routing
from penstock.client.admin.scram import ScramPart
from penstock.client.admin.topics import TopicsPart
from penstock.client.admin.transactions import TransactionsPart
from penstock.client.cluster import Cluster
from penstock.client.options import admin_options
from penstock.client.surroundings import real_surroundings
from penstock.world.world import ClientWorld

logger = logging.getLogger("penstock.client")


class Admin(
    TopicsPart,
    PartitionsPart,
    ConfigsPart,
    GroupsPart,
    GroupOffsetsPart,
    TransactionsPart,
    ClusterPart,
    LogDirectoriesPart,
    AclsPart,
    QuotasPart,
    ScramPart,
):
    """Looks at a cluster and changes it.

    >>> async with Admin(bootstrap) as admin:
    ...     created = await admin.create_topics([NewTopic("shipments", 3), NewTopic("returns", 3)])
    ...     created.raise_any()

    A call about several things gives `Outcomes`: a mapping with a result per thing, and the error of each that failed.
    When nobody could be asked at all (no broker in reach, an API that the broker does not serve), the call itself
    raises. What can pass, such as a coordinator that is moving, is tried again until `timeout_ms` is over, which is
    `default.api.timeout.ms` where it is not given.

    Settings are Kafka's, as keywords (`request_timeout_ms=5_000`) or by their dotted names.
    """

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, world: ClientWorld | None = None, **options: object
    ) -> None:
        self.options = admin_options(bootstrap, options)
        for warning in self.options.warnings:
            logger.warning("%s", warning)
        cluster = Cluster(world or real_surroundings(), self.options, creates_topics=False)
        self._asking = Asking(cluster)
        self._routing = Routing(cluster)

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let the connections go; calls that are under way fail."""
        await self._asking.cluster.close()
