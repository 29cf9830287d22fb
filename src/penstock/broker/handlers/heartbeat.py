"""Heartbeat v0-4. v3 static members (KIP-345), v4 flexible."""

from penstock.broker.route import Request
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

API = ApiKey.HEARTBEAT
VERSIONS = stable_versions(API)


def handle(message: HeartbeatRequest, request: Request) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=request.broker.groups.heartbeat(message))
