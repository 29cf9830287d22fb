"""AwaitMetadata (api key 32001), ours alone: a broker hears of what its controller decides as soon as it counts."""

from levada.protocol.declare import Int16, Int32, Int64, Request, message


@message(api_key=32001, versions="0", flexible="0+")
class AwaitMetadataRequest(Request["AwaitMetadataResponse"]):
    offset: Int64
    """Of the last record that the broker has read."""
    max_wait_ms: Int32


@message(api_key=32001, versions="0", flexible="0+")
class AwaitMetadataResponse:
    error_code: Int16 = 0
    offset: Int64 = -1
    """Of the last record that counts."""
