"""EndTxn (api key 26), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int16, Int32, Int64, Request, Since, String, message

EPOCH_BUMP_SINCE = 5
"""The answer tells the epoch of the next transaction (KIP-890)."""


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Request["EndTxnResponse"]):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, Since(5), IGNORABLE] = -1
    producer_epoch: Annotated[Int16, Since(5), IGNORABLE] = -1
