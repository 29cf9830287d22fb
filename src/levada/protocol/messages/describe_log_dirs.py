"""DescribeLogDirs (api key 35), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int16, Int32, Int64, Request, Since, String, message, struct


@struct
class DescribableLogDirTopic:
    topic: String
    partitions: list[Int32]


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@struct
class DescribeLogDirsTopic:
    name: String
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Annotated[Int64, Since(4), IGNORABLE] = -1
    usable_bytes: Annotated[Int64, Since(4), IGNORABLE] = -1
    is_cordoned: Annotated[Bool, Since(5), IGNORABLE] = False


@message(api_key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(3), IGNORABLE] = 0
    results: list[DescribeLogDirsResult]
