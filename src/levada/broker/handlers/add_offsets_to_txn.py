"""AddOffsetsToTxn v0-4. v2 producers learn that they are fenced (KIP-588), v3 flexible, v4 new errors (KIP-890)."""

from collections.abc import Awaitable

from levada.broker.coordinator_call import call_coordinator
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.topics import CONSUMER_OFFSETS
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

API = ApiKey.ADD_OFFSETS_TO_TXN
VERSIONS = stable_versions(API)

NEWEST_CLASSIC_ADD = 3
"""Of AddPartitionsToTxn: a producer that adds its group before it commits offsets is one of the classic flow."""


def handle(
    message: AddOffsetsToTxnRequest, request: Request
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    broker = request.broker
    index = broker.groups.partition_of(message.group_id)
    if index < 0:
        return _answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return call_coordinator(
        broker.transactions,
        message.transactional_id,
        lambda machine, token, now_ms: machine.add_partitions(
            token,
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            [(CONSUMER_OFFSETS, index)],
            min(request.version, NEWEST_CLASSIC_ADD),
            now_ms,
        ),
        _answered,
        _answered,
    )


def _answered(code: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)
