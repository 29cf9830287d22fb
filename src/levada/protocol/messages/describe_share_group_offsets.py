"""DescribeShareGroupOffsets (api key 90), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int16, Int32, Int64, Request, Since, String, Uuid, message, struct


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: String
    partitions: list[Int32]


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: String
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    groups: list[DescribeShareGroupOffsetsRequestGroup]


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Annotated[Int64, Since(1), IGNORABLE] = -1
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: String
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
