"""The admin client."""

import logging
from collections.abc import Sequence
from types import TracebackType

from levada.client.admin.acls import AclsPart
from levada.client.admin.append_times import AppendTimesPart
from levada.client.admin.cluster import ClusterPart
from levada.client.admin.configs import ConfigsPart
from levada.client.admin.group_offsets import GroupOffsetsPart
from levada.client.admin.groups import GroupsPart
from levada.client.admin.log_directories import LogDirectoriesPart
from levada.client.admin.partitions import PartitionsPart
from levada.client.admin.quotas import QuotasPart
from levada.client.admin.request_router import RequestRouter
from levada.client.admin.routing import Routing
from levada.client.admin.scram import ScramPart
from levada.client.admin.topics import TopicsPart
from levada.client.admin.transactions import TransactionsPart
from levada.client.cluster import Cluster
from levada.client.default_world import default_world
from levada.client.options import admin_options
from levada.world.world import ClientWorld

logger = logging.getLogger("levada.client")


class Admin(
    TopicsPart,
    PartitionsPart,
    AppendTimesPart,
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
    When no broker could be asked at all (none in reach, an API that the broker does not serve), the call itself raises.
    What can pass, such as a coordinator that is moving, is tried again until `timeout_ms` is over, which is
    `default.api.timeout.ms` where it is not given.

    Settings are Kafka's, as keywords (`request_timeout_ms=5_000`) or by their dotted names.
    """

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, world: ClientWorld | None = None, **options: object
    ) -> None:
        self.options = admin_options(bootstrap, options)
        for warning in self.options.warnings:
            logger.warning("%s", warning)
        cluster = Cluster(world or default_world(), self.options, creates_topics=False)
        self._requests = RequestRouter(cluster)
        self._routing = Routing(cluster)

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let the connections go; calls that are under way fail."""
        await self._requests.cluster.close()
