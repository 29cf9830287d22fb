"""WriteTxnMarkers (api key 27), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int8, Int16, Int32, Int64, Request, Since, String, message, struct


@struct
class WritableTxnMarkerTopic:
    name: String
    partition_indexes: list[Int32]


@struct
class WritableTxnMarker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, Since(2), IGNORABLE] = 0


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@message(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult]
