"""ACLs where there is no authorizer: refused, or not read at all where a kind is unknown."""

from typing import cast

import pytest

from levada.broker.handlers import create_acls, delete_acls, describe_acls
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.net.reply import CloseConnection
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from levada.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from levada.protocol.messages.describe_acls import DescribeAclsRequest

UNKNOWN, UNHEARD_OF = 0, 77
PLACES = range(4)
"""Of a resource type, a pattern type, an operation and a permission type."""

REQUEST = cast("Request", None)
"""The answer depends on nothing but the message."""


def kinds_with(kind: int, place: int) -> tuple[int, ...]:
    return tuple(kind if at == place else 3 for at in PLACES)


def description(resource: int, pattern: int, operation: int, permission: int) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=resource,
        resource_name_filter=None,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=permission,
    )


def acl(resource: int, pattern: int, operation: int, permission: int) -> AclCreation:
    return AclCreation(
        resource_type=resource,
        resource_name="a",
        resource_pattern_type=pattern,
        principal="User:ann",
        host="*",
        operation=operation,
        permission_type=permission,
    )


def acl_filter(resource: int, pattern: int, operation: int, permission: int) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=resource,
        resource_name_filter=None,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=permission,
    )


@pytest.mark.parametrize("place", PLACES)
def test_every_acl_is_refused_with_a_code_of_its_own(place: int) -> None:
    kinds = kinds_with(UNHEARD_OF, place)
    described = describe_acls.handle(description(*kinds), REQUEST)
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
    created = create_acls.handle(CreateAclsRequest(creations=[acl(*kinds), acl(*kinds)]), REQUEST)
    assert [one.error_code for one in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = delete_acls.handle(DeleteAclsRequest(filters=[acl_filter(*kinds), acl_filter(*kinds)]), REQUEST)
    assert [one.error_code for one in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_kind_ends_the_connection(place: int) -> None:
    kinds = kinds_with(UNKNOWN, place)
    with pytest.raises(CloseConnection):
        describe_acls.handle(description(*kinds), REQUEST)
    with pytest.raises(CloseConnection):
        create_acls.handle(CreateAclsRequest(creations=[acl(3, 3, 3, 3), acl(*kinds)]), REQUEST)
    with pytest.raises(CloseConnection):
        delete_acls.handle(DeleteAclsRequest(filters=[acl_filter(3, 3, 3, 3), acl_filter(*kinds)]), REQUEST)
