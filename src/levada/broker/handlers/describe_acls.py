"""DescribeAcls v1-3. Refused: there is no authorizer."""

from levada.broker.acls import NO_AUTHORIZER_HERE, REFUSED, check_kinds
from levada.broker.route import Request
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

API = ApiKey.DESCRIBE_ACLS
VERSIONS = stable_versions(API)


def handle(message: DescribeAclsRequest, request: Request) -> DescribeAclsResponse:
    check_kinds(message.resource_type_filter, message.pattern_type_filter, message.operation, message.permission_type)
    return DescribeAclsResponse(error_code=REFUSED, error_message=NO_AUTHORIZER_HERE, resources=[])
