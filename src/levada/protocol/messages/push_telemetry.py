"""PushTelemetry (api key 72), every version."""

from levada.protocol.declare import Bool, Bytes, Int8, Int16, Int32, Request, Uuid, message


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
