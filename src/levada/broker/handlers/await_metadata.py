"""AwaitMetadata v0. Ours alone, of brokers: answered when the metadata log goes on, or after a while."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.await_metadata import AwaitMetadataRequest, AwaitMetadataResponse

API = ApiKey.AWAIT_METADATA
VERSIONS = stable_versions(API)
IS_OF_BROKERS = True

MAX_WAIT_MS = 60_000


async def handle(message: AwaitMetadataRequest, request: Request) -> AwaitMetadataResponse:
    seconds = min(max(message.max_wait_ms, 0), MAX_WAIT_MS) / 1000
    try:
        return AwaitMetadataResponse(offset=await request.broker.controller.changed(message.offset, seconds))
    except ApiError as error:
        return AwaitMetadataResponse(error_code=error.code)
