"""AlterPartition (api key 56), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import Int8, Int16, Int32, Int64, Request, Since, Until, Uuid, message, struct


@struct
class BrokerState:
    broker_id: Int32
    broker_epoch: Int64 = -1


@struct
class RequestPartitionData:
    partition_index: Int32
    leader_epoch: Int32
    new_isr: Annotated[list[Int32], Until(2)] = field(default_factory=list)
    new_isr_with_epochs: Annotated[list[BrokerState], Since(3)] = field(default_factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


@struct
class RequestTopicData:
    topic_id: Uuid
    partitions: list[RequestPartitionData]


@message(api_key=56, versions="2-3", flexible="2+")
class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: list[RequestTopicData]


@struct
class ResponsePartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


@struct
class ResponseTopicData:
    topic_id: Uuid
    partitions: list[ResponsePartitionData]


@message(api_key=56, versions="2-3", flexible="2+")
class AlterPartitionResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[ResponseTopicData]
