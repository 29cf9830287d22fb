"""Access rules: described, made, deleted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levada.client.admin.kinds import AclOperation, AclPermission, PatternType, ResourceType
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import BrokerAnswer, Question, check, verdict
from levada.client.errors import KafkaError
from levada.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from levada.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from levada.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may, or may not, do what with which resources.

    >>> Acl(ResourceType.TOPIC, "orders", "User:billing", AclOperation.READ).permission
    <AclPermission.ALLOW: 3>
    """

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    pattern_type: PatternType = PatternType.LITERAL
    host: str = "*"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which rules are meant; all, where nothing is said."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    pattern_type: PatternType = PatternType.ANY
    host: str | None = None


class AclsPart(AdminPart):
    async def describe_acls(self, matching: AclFilter | None = None, *, timeout_ms: float | None = None) -> list[Acl]:
        """The rules that a filter matches, or all."""
        wanted = matching or AclFilter()
        question: Question[str, list[Acl], DescribeAclsResponse] = Question(
            what="to describe ACLs",
            route=self._routing.any,
            request=lambda _, __: DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            ),
            read=_read_described,
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))

    async def create_acls(self, acls: Iterable[Acl], *, timeout_ms: float | None = None) -> Outcomes[Acl, None]:
        """Make rules.

        >>> readers = Acl(ResourceType.TOPIC, "orders", "User:billing", AclOperation.READ)
        >>> (await admin.create_acls([readers])).raise_any()
        """

        def request(items: Sequence[Acl], _: int) -> CreateAclsRequest:
            return CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=acl.resource_type,
                        resource_name=acl.resource_name,
                        resource_pattern_type=acl.pattern_type,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in items
                ]
            )

        def read(answer: BrokerAnswer[Acl, CreateAclsResponse]) -> dict[Acl, KafkaError | None]:
            response = answer.response
            # In the order they were given.
            return {
                acl: verdict(result.error_code, result.error_message, f"ACL of {acl.principal}", None)
                for acl, result in zip(answer.items, response.results)
            }

        question: Question[Acl, None, CreateAclsResponse] = Question(
            what="to create ACLs", route=self._routing.any, request=request, read=read
        )
        return await self._requests.each(acls, question, self._requests.deadline(timeout_ms))

    async def delete_acls(
        self, matching: Iterable[AclFilter], *, timeout_ms: float | None = None
    ) -> Outcomes[AclFilter, Outcomes[Acl, None]]:
        """Delete the rules that filters match; tells which they were, each with its own outcome."""

        def request(items: Sequence[AclFilter], _: int) -> DeleteAclsRequest:
            return DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=one.resource_type,
                        resource_name_filter=one.resource_name,
                        pattern_type_filter=one.pattern_type,
                        principal_filter=one.principal,
                        host_filter=one.host,
                        operation=one.operation,
                        permission_type=one.permission,
                    )
                    for one in items
                ]
            )

        def read(
            answer: BrokerAnswer[AclFilter, DeleteAclsResponse],
        ) -> dict[AclFilter, Outcomes[Acl, None] | KafkaError]:
            response = answer.response
            return {
                one: verdict(result.error_code, result.error_message, "to delete ACLs", _deleted(result))
                for one, result in zip(answer.items, response.filter_results)
            }

        question: Question[AclFilter, Outcomes[Acl, None], DeleteAclsResponse] = Question(
            what="to delete ACLs", route=self._routing.any, request=request, read=read
        )
        return await self._requests.each(matching, question, self._requests.deadline(timeout_ms))


def _read_described(answer: BrokerAnswer[str, DescribeAclsResponse]) -> dict[str, list[Acl]]:
    response = answer.response
    check(response.error_code, response.error_message, context=answer.items[0])
    acls = [
        Acl(
            resource_type=ResourceType(resource.resource_type),
            resource_name=resource.resource_name,
            principal=acl.principal,
            operation=AclOperation(acl.operation),
            permission=AclPermission(acl.permission_type),
            pattern_type=PatternType(resource.pattern_type),
            host=acl.host,
        )
        for resource in response.resources
        for acl in resource.acls
    ]
    return {answer.items[0]: acls}


def _deleted(result: DeleteAclsFilterResult) -> Outcomes[Acl, None]:
    found: dict[Acl, KafkaError | None] = {}
    for one in result.matching_acls:
        acl = _matching(one)
        found[acl] = verdict(one.error_code, one.error_message, f"ACL of {acl.principal}", None)
    return Outcomes(found)


def _matching(acl: DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        resource_type=ResourceType(acl.resource_type),
        resource_name=acl.resource_name,
        principal=acl.principal,
        operation=AclOperation(acl.operation),
        permission=AclPermission(acl.permission_type),
        pattern_type=PatternType(acl.pattern_type),
        host=acl.host,
    )
