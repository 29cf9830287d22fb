"""CreatePartitions (api key 37), every version."""

from levada.protocol.declare import Bool, Int16, Int32, Request, String, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32]


@struct
class CreatePartitionsTopic:
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


@struct
class CreatePartitionsTopicResult:
    name: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
