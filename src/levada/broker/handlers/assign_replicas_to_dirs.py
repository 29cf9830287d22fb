"""AssignReplicasToDirs v0. Of brokers: in which of their directories replicas are (KIP-858)."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

API = ApiKey.ASSIGN_REPLICAS_TO_DIRS
VERSIONS = stable_versions(API)
IS_OF_BROKERS = True


async def handle(message: AssignReplicasToDirsRequest, request: Request) -> AssignReplicasToDirsResponse:
    try:
        return await request.broker.controller.decide(message, request.version)
    except ApiError as error:
        return AssignReplicasToDirsResponse(error_code=error.code, directories=[])
