"""How much of what there is a micro-batch takes."""

import math
from collections.abc import Mapping

from levada.client.types import TopicPartition
from levada.spark.source.offsets import Offsets


def limited(limit: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Ends at most about `limit` offsets ahead, shared among the partitions in proportion to their lag.

    A partition with a lag gets at least one, so that none starves; with many partitions that may be more than the limit
    in all, as in Spark's own source.
    """
    lags = {partition: lag for partition, end in ends.items() if (lag := end - starts[partition]) > 0}
    total = sum(lags.values())
    taken: Offsets = {}
    for partition, end in ends.items():
        if partition not in lags:
            taken[partition] = end
            continue
        share = limit * (lags[partition] / total)
        whole = math.ceil(share) if share < 1 else math.floor(share)
        taken[partition] = min(end, starts[partition] + whole)
    return taken


def is_too_little(
    minimum: int | None,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    waited_ms: float,
    max_wait_ms: int,
) -> bool:
    """Whether a batch had better wait for more records; never longer than `max_wait_ms` since the last one."""
    if minimum is None or waited_ms >= max_wait_ms:
        return False
    return sum(end - starts[partition] for partition, end in ends.items()) < minimum
