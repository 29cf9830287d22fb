"""Cases about ACLs, to brokers without an authorizer."""

from collections.abc import Sequence

from levada.protocol.api import ApiKey
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from levada.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from levada.protocol.messages.describe_acls import DescribeAclsRequest
from tests.interop.differential.cases import EVERY, Case, Table

UNKNOWN, UNHEARD_OF = 0, 77
TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3
PLAIN = (TOPIC, LITERAL, READ, ALLOW)

KINDS = {
    f"{'unknown' if kind == UNKNOWN else 'unheard of'} {name}": (*PLAIN[:at], kind, *PLAIN[at + 1 :])
    for kind in (UNKNOWN, UNHEARD_OF)
    for at, name in enumerate(("resource", "pattern", "operation", "permission"))
}
"""Resource type, pattern type, operation and permission type; one of them is not known."""


def _description(kinds: Sequence[int], name: str | None = "a") -> DescribeAclsRequest:
    resource, pattern, operation, permission = kinds
    return DescribeAclsRequest(
        resource_type_filter=resource,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=permission,
    )


def _creation(*all_kinds: Sequence[int]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=resource,
                resource_name="a",
                resource_pattern_type=pattern,
                principal="User:ann",
                host="*",
                operation=operation,
                permission_type=permission,
            )
            for resource, pattern, operation, permission in all_kinds
        ]
    )


def _deletion(*all_kinds: Sequence[int]) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=resource,
                resource_name_filter="a",
                pattern_type_filter=pattern,
                principal_filter=None,
                host_filter=None,
                operation=operation,
                permission_type=permission,
            )
            for resource, pattern, operation, permission in all_kinds
        ]
    )


def _case(name: str, request: object) -> Case:
    return Case(name, lambda _: request)


TABLES = (
    Table(
        "DescribeAcls",
        ApiKey.DESCRIBE_ACLS,
        [
            Case("one topic", lambda _: _description(PLAIN), versions=EVERY),
            Case("any name", lambda _: _description(PLAIN, None), versions=EVERY),
            *(_case(name, _description(kinds)) for name, kinds in KINDS.items()),
        ],
    ),
    Table(
        "CreateAcls",
        ApiKey.CREATE_ACLS,
        [
            Case("none", lambda _: _creation()),
            Case("two", lambda _: _creation(PLAIN, PLAIN), versions=EVERY),
            *(_case(name, _creation(PLAIN, kinds)) for name, kinds in KINDS.items()),
        ],
    ),
    Table(
        "DeleteAcls",
        ApiKey.DELETE_ACLS,
        [
            Case("none", lambda _: _deletion()),
            Case("two", lambda _: _deletion(PLAIN, PLAIN), versions=EVERY),
            *(_case(name, _deletion(PLAIN, kinds)) for name, kinds in KINDS.items()),
        ],
    ),
)
