"""CreateAcls v1-3. Each is refused: there is no authorizer."""

from levada.broker.acls import NO_AUTHORIZER, REFUSED, check_kinds
from levada.broker.route import Request
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

API = ApiKey.CREATE_ACLS
VERSIONS = stable_versions(API)


def handle(message: CreateAclsRequest, request: Request) -> CreateAclsResponse:
    for acl in message.creations:
        check_kinds(acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type)
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=REFUSED, error_message=NO_AUTHORIZER) for _ in message.creations]
    )
