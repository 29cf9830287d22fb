"""ConsumerGroupHeartbeat v0-1. v1 member ids are made by clients (KIP-1082), regular expressions (KIP-848)."""

from collections.abc import Awaitable

from penstock.broker.group_requests import ask
from penstock.broker.route import Request
from penstock.groups.consumer import Client
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.consumer_group_heartbeat import (
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
        lambda reply: reply,
        _refused,
    )


def _refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=0, heartbeat_interval_ms=0)
