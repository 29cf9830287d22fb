"""AddOffsetsToTxn (api key 25), every version."""

from levada.protocol.declare import Int16, Int32, Int64, Request, String, message


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
