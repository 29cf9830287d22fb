"""AddPartitionsToTxn (api key 24), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int16, Int32, Int64, Request, Since, String, Until, message, struct

BY_BROKERS_SINCE = 4
"""For brokers, which verify several producers at once (KIP-890); clients use older versions."""


@struct
class AddPartitionsToTxnTopic:
    name: String
    partitions: list[Int32]


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    transactions: Annotated[list[AddPartitionsToTxnTransaction], Since(4)] = field(default_factory=list)
    v3_and_below_transactional_id: Annotated[String, Until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Until(3)] = field(default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnTopicResult:
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(4), IGNORABLE] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Since(4)] = field(default_factory=list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Until(3)] = field(
        default_factory=list
    )
