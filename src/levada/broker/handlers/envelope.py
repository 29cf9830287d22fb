"""Envelope v0. Of brokers: a client's request, forwarded to the controller by the broker that it came to (KIP-590)."""

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, request_class, response_class, stable_versions
from levada.protocol.codec import BAD_BYTES, encode_bytes, limited_decoder_of
from levada.protocol.errors import TooManyElements
from levada.protocol.headers import decode_request_header, encode_response_header, response_has_tags, skip_tags
from levada.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

API = ApiKey.ENVELOPE
VERSIONS = stable_versions(API)
IS_OF_BROKERS = True

FORWARDED = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
    )
)
"""What the controller decides for clients."""


async def handle(message: EnvelopeRequest, request: Request) -> EnvelopeResponse:
    data = message.request_data
    try:
        header = decode_request_header(data)
        key, version = header.api_key, header.api_version
        if key not in FORWARDED or version not in request_class(key).versions:
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        cls = request_class(key)
        position = skip_tags(data, header.body) if version >= cls.flexible_since else header.body
        inner, _ = limited_decoder_of(cls, version)(memoryview(data), position, len(data))
    except (*BAD_BYTES, TooManyElements):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        reply = await request.broker.controller.decide(inner, version)
    except ApiError as error:
        return EnvelopeResponse(error_code=error.code)
    assert isinstance(reply, response_class(key))
    head = encode_response_header(header.correlation_id, has_tags=response_has_tags(key, version))
    return EnvelopeResponse(response_data=head + encode_bytes(reply, version))
