"""DescribeQuorum v0-2. v1 tells times (KIP-836), v2 directories and listeners (KIP-853)."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

API = ApiKey.DESCRIBE_QUORUM
VERSIONS = stable_versions(API)


async def handle(message: DescribeQuorumRequest, request: Request) -> DescribeQuorumResponse:
    try:
        return await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        return DescribeQuorumResponse(error_code=error.code, error_message=str(error), topics=[])
