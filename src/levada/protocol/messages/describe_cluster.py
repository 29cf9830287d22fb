"""DescribeCluster (api key 60), every version."""

from typing import Annotated

from levada.protocol.declare import Bool, Int8, Int16, Int32, Request, Since, String, message, struct


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, Since(1)] = 1
    include_fenced_brokers: Annotated[Bool, Since(2)] = False


@struct
class DescribeClusterBroker:
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Annotated[Bool, Since(2)] = False


@message(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, Since(1)] = 1
    cluster_id: String
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -2147483648
