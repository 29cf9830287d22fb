"""The coordinator of a group, over a connection of its own: a join that waits there must not hold up fetches."""

from collections.abc import Callable
from typing import TypeVar

from levada.client.cluster import Cluster, CoordinatorKind, Node
from levada.client.errors import Disconnected, IllegalState, KafkaError, TimedOut, error_for
from levada.model.error_codes import ErrorCode
from levada.net.channel import ChannelClosed
from levada.protocol.declare import Request
from levada.protocol.errors import CodecError

T = TypeVar("T")

MOVED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class GroupCoordinatorLookup:
    """Found when it is needed, and looked for again when it has moved."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._node: Node | None = None
        self._is_closed = False

    async def ask(
        self,
        api_key: int,
        build: Callable[[int], Request[T]],
        *,
        timeout_ms: float | None = None,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> T:
        """The answer to a request that is built for the version both sides speak."""
        node = await self._reach()
        try:
            await node.connect()
            version = node.version_of(api_key, at_least, at_most)
            limit_ms = timeout_ms or self._cluster.options["request.timeout.ms"]
            return await node.post(build(version), version, limit_ms)
        except (ChannelClosed, CodecError) as error:
            self.forget()
            raise node.lost(error) from error
        except (Disconnected, TimedOut):
            self.forget()
            raise

    def refusal(self, code: int, message: str | None = None) -> KafkaError:
        """The error for an answer's code; one that says so has the coordinator looked for again."""
        if code in MOVED:
            self.forget()
        return error_for(code, message, context=f"group {self._group_id!r}")

    def forget(self) -> None:
        """It may have moved."""
        self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._group_id)

    def hang_up(self) -> None:
        """Give up the calls that are under way: what waits there would hold up whatever is said next."""
        if self._node is not None:
            self._node.close()
            self._node = None

    def close(self) -> None:
        self._is_closed = True
        self.hang_up()

    async def _reach(self) -> Node:
        node_id = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id)
        broker = self._cluster.view.brokers.get(node_id)
        if broker is None:
            self.forget()
            raise Disconnected(f"the coordinator of group {self._group_id!r}, broker {node_id}, is not up")
        if self._is_closed:
            raise IllegalState("the consumer is closed")
        if self._node is not None and self._node.address != broker.address:
            self.hang_up()
        if self._node is None:
            self._node = self._cluster.separate_node(broker.address)
        return self._node
