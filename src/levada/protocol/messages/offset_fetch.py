"""OffsetFetch (api key 9), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    NO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableSince,
    Request,
    Since,
    String,
    Until,
    Uuid,
    message,
    struct,
)

STABLE_SINCE = 7
"""Offsets of transactions under way can be waited for (KIP-447)."""
MANY_GROUPS_SINCE = 8
"""One request can ask for several groups (KIP-709)."""
TOPIC_IDS_SINCE = 10
"""Topics go by their ids from here on, and not by their names (KIP-848)."""


@struct
class OffsetFetchRequestTopic:
    name: String
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestTopics:
    name: Annotated[String, Until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_UUID
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup:
    group_id: String
    member_id: Annotated[String | None, Since(9), IGNORABLE] = None
    member_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    topics: list[OffsetFetchRequestTopics] | None


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    group_id: Annotated[String, Until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Until(7), NullableSince(2)] = field(default_factory=list)
    groups: Annotated[list[OffsetFetchRequestGroup], Since(8)] = field(default_factory=list)
    require_stable: Annotated[Bool, Since(7)] = False


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Since(5), IGNORABLE] = -1
    metadata: String | None
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: String
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: Annotated[String, Until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_UUID
    partitions: list[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@message(api_key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Until(7)] = field(default_factory=list)
    error_code: Annotated[Int16, Since(2), Until(7), IGNORABLE] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Since(8)] = field(default_factory=list)
