"""GroupCommit (api key 32000), ours alone: several transactions committed as one."""

from levada.protocol.declare import Int16, Int32, Int64, Request, String, message, struct


@struct
class GroupCommitMember:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16


@message(api_key=32000, versions="0", flexible="0+")
class GroupCommitRequest(Request["GroupCommitResponse"]):
    members: list[GroupCommitMember]


@struct
class GroupCommitResult:
    transactional_id: String
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


@message(api_key=32000, versions="0", flexible="0+")
class GroupCommitResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    results: list[GroupCommitResult]
