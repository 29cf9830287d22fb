"""DescribeClientQuotas (api key 48), every version."""

from levada.protocol.declare import Bool, Float64, Int8, Int16, Int32, Request, String, message, struct


@struct
class ComponentData:
    entity_type: String
    match_type: Int8
    match: String | None


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    components: list[ComponentData]
    strict: Bool


@struct
class EntityData:
    entity_type: String
    entity_name: String | None


@struct
class ValueData:
    key: String
    value: Float64


@struct
class EntryData:
    entity: list[EntityData]
    values: list[ValueData]


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    entries: list[EntryData] | None
