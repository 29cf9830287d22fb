"""Which transactions are not over, as coordinators and partitions tell it."""

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.list_transactions import ListTransactionsRequest
from levada.sim.requests.connections import Connector

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST = -1
CONSUMER = -1
UNDER_WAY = ["Ongoing", "PrepareCommit", "PrepareAbort"]


async def under_way(connector: Connector) -> list[str]:
    """What the coordinators say of transactions that are not over."""
    request = ListTransactionsRequest(state_filters=UNDER_WAY, producer_id_filters=[])
    reply = await connector.call(request, 1)
    code = ErrorCode(reply.error_code)
    if code:
        return [f"the coordinators answer {code.name}"]
    return [f"{one.transactional_id} is {one.transaction_state}" for one in reply.transaction_states]


async def unstable(connector: Connector, topic: str, partitions: int) -> list[str]:
    """Partitions whose last stable offset is behind their end, as ListOffsets tells it."""
    ends = [await _ends(connector, topic, partitions, isolation) for isolation in (READ_COMMITTED, READ_UNCOMMITTED)]
    return [
        f"partition {index} is stable up to {stable} of {end}"
        for index, (stable, end) in enumerate(zip(*ends))
        if stable != end
    ]


async def _ends(connector: Connector, topic: str, partitions: int, isolation_level: int) -> list[int]:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    topics = [ListOffsetsTopic(name=topic, partitions=wanted)]
    request = ListOffsetsRequest(replica_id=CONSUMER, isolation_level=isolation_level, topics=topics)
    reply = await connector.call(request, 6)
    return [one.offset for one in reply.topics[0].partitions]
