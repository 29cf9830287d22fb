"""GetTelemetrySubscriptions (api key 71), every version."""

from levada.protocol.declare import Bool, Int8, Int16, Int32, Request, String, Uuid, message


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    client_instance_id: Uuid


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: list[String]
