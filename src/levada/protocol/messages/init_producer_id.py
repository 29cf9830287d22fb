"""InitProducerId (api key 22), every version."""

from typing import Annotated

from levada.protocol.declare import Bool, Int16, Int32, Int64, Request, Since, String, message


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, Since(3)] = -1
    producer_epoch: Annotated[Int16, Since(3)] = -1
    enable_2pc: Annotated[Bool, Since(6)] = False
    keep_prepared_txn: Annotated[Bool, Since(6)] = False


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, Since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Since(6)] = -1
