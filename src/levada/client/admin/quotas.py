"""Quotas of users, client ids and addresses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import BrokerAnswer, Question, check, verdict
from levada.client.errors import KafkaError
from levada.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from levada.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

EXACT, DEFAULT, SPECIFIED = 0, 1, 2

QuotaEntity: TypeAlias = frozenset[tuple[str, str | None]]


def quota_entity(*, user: str | None = "", client_id: str | None = "", ip: str | None = "") -> QuotaEntity:
    """Whom a quota is for; None stands for all who have none of their own.

    >>> sorted(quota_entity(user="alice", client_id=None))
    [('client-id', None), ('user', 'alice')]
    """
    given = {USER: user, CLIENT_ID: client_id, IP: ip}
    return frozenset((type_, name) for type_, name in given.items() if name != "")


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Of which entities quotas are wanted: one name, the default, or with neither all that have the type."""

    entity_type: str
    name: str | None = None
    is_default: bool = False


class QuotasPart(AdminPart):
    async def describe_client_quotas(
        self, filters: Iterable[QuotaFilter] = (), *, strict: bool = False, timeout_ms: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of entities that match all filters; strict: and have no type that no filter names.

        >>> await admin.describe_client_quotas([QuotaFilter("user", "alice")])
        {frozenset({('user', 'alice')}): {'producer_byte_rate': 1000000.0}}
        """
        components = [
            ComponentData(
                entity_type=one.entity_type,
                match_type=DEFAULT if one.is_default else SPECIFIED if one.name is None else EXACT,
                match=None if one.is_default else one.name,
            )
            for one in filters
        ]
        question: Question[str, dict[QuotaEntity, dict[str, float]], DescribeClientQuotasResponse] = Question(
            what="to describe quotas",
            route=self._routing.any,
            request=lambda _, __: DescribeClientQuotasRequest(components=components, strict=strict),
            read=_read_described,
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas; None takes one away.

        >>> alice = quota_entity(user="alice")
        >>> (await admin.alter_client_quotas({alice: {"producer_byte_rate": 1e6}})).raise_any()
        """

        def request(items: Sequence[QuotaEntity], _: int) -> AlterClientQuotasRequest:
            return AlterClientQuotasRequest(
                entries=[
                    RequestEntryData(
                        entity=[
                            RequestEntityData(entity_type=type_, entity_name=name) for type_, name in _sorted(item)
                        ],
                        ops=[
                            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                            for key, value in changes[item].items()
                        ],
                    )
                    for item in items
                ],
                validate_only=validate_only,
            )

        question: Question[QuotaEntity, None, AlterClientQuotasResponse] = Question(
            what="to alter quotas", route=self._routing.any, request=request, read=_read_altered
        )
        return await self._requests.each(changes, question, self._requests.deadline(timeout_ms))


def _sorted(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    return sorted(entity, key=lambda part: part[0])


def _read_described(
    answer: BrokerAnswer[str, DescribeClientQuotasResponse],
) -> dict[str, dict[QuotaEntity, dict[str, float]]]:
    response = answer.response
    check(response.error_code, response.error_message, context=answer.items[0])
    quotas = {
        frozenset((part.entity_type, part.entity_name) for part in entry.entity): {
            one.key: one.value for one in entry.values
        }
        for entry in response.entries or ()
    }
    return {answer.items[0]: quotas}


def _read_altered(answer: BrokerAnswer[QuotaEntity, AlterClientQuotasResponse]) -> dict[QuotaEntity, KafkaError | None]:
    response = answer.response
    found: dict[QuotaEntity, KafkaError | None] = {}
    for entry in response.entries:
        entity = frozenset((part.entity_type, part.entity_name) for part in entry.entity)
        about = ", ".join(f"{type_} {name!r}" for type_, name in _sorted(entity))
        found[entity] = verdict(entry.error_code, entry.error_message, about, None)
    return found
