"""ConsumerGroupHeartbeat v0-1. v1 member ids are made by clients (KIP-1082), regular expressions (KIP-848)."""

from collections.abc import Awaitable

from levada.broker.group_requests import ask
from levada.broker.route import Request
from levada.groups.consumer import Client
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

API = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSIONS = stable_versions(API)


def handle(
    message: ConsumerGroupHeartbeatRequest, request: Request
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    client = Client(request.client_id or "", request.client_host, request.version)
    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.consumer_heartbeat(token, message, client, now_ms),
        _answered,
        _refused,
    )


def _answered(reply: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
    return reply


def _refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=0, heartbeat_interval_ms=0)
