"""AlterClientQuotas (api key 49), every version."""

from levada.protocol.declare import Bool, Float64, Int16, Int32, Request, String, message, struct


@struct
class RequestEntityData:
    entity_type: String
    entity_name: String | None


@struct
class OpData:
    key: String
    value: Float64
    remove: Bool


@struct
class RequestEntryData:
    entity: list[RequestEntityData]
    ops: list[OpData]


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    entries: list[RequestEntryData]
    validate_only: Bool


@struct
class ResponseEntityData:
    entity_type: String
    entity_name: String | None


@struct
class ResponseEntryData:
    error_code: Int16 = 0
    error_message: String | None
    entity: list[ResponseEntityData]


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntryData]
