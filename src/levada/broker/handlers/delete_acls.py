"""DeleteAcls v1-3. Each filter is refused: there is no authorizer."""

from levada.broker.acls import NO_AUTHORIZER, REFUSED, check_kinds
from levada.broker.route import Request
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

API = ApiKey.DELETE_ACLS
VERSIONS = stable_versions(API)


def handle(message: DeleteAclsRequest, request: Request) -> DeleteAclsResponse:
    for one in message.filters:
        check_kinds(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=REFUSED, error_message=NO_AUTHORIZER, matching_acls=[])
            for _ in message.filters
        ]
    )
