"""ListTransactions (api key 66), every version."""

from typing import Annotated

from levada.protocol.declare import Int16, Int32, Int64, Request, Since, String, message, struct


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Annotated[Int64, Since(1)] = -1
    transactional_id_pattern: Annotated[String | None, Since(2)] = None


@struct
class TransactionState:
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]
