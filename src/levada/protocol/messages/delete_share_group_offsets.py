"""DeleteShareGroupOffsets (api key 92), every version."""

from levada.protocol.declare import Int16, Int32, Request, String, Uuid, message, struct


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    group_id: String
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
