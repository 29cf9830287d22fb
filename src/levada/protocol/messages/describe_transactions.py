"""DescribeTransactions (api key 65), every version."""

from levada.protocol.declare import Int16, Int32, Int64, Request, String, message, struct


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    transactional_ids: list[String]


@struct
class TopicData:
    topic: String
    partitions: list[Int32]


@struct
class TransactionState:
    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState]
