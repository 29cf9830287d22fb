"""DescribeProducers (api key 61), every version."""

from levada.protocol.declare import Int16, Int32, Int64, Request, String, message, struct


@struct
class TopicRequest:
    name: String
    partition_indexes: list[Int32]


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    topics: list[TopicRequest]


@struct
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    name: String
    partitions: list[PartitionResponse]


@message(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse]
