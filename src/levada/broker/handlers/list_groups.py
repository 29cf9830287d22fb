"""ListGroups v0-5. v3 flexible, v4 filter by state (KIP-518), v5 filter by type (KIP-848)."""

import asyncio
from collections.abc import Awaitable, Iterable
from itertools import chain, islice

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

API = ApiKey.LIST_GROUPS
VERSIONS = stable_versions(API)

LARGE = 1_000
"""Groups that are looked at in one turn of the loop."""


def handle(message: ListGroupsRequest, request: Request) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    coordinator = request.broker.groups
    if coordinator.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    states = {state.casefold() for state in message.states_filter}
    types = {type_.casefold() for type_ in message.types_filter}

    def wanted(groups: Iterable[ListedGroup]) -> list[ListedGroup]:
        return [
            group
            for group in groups
            if (not states or group.group_state.casefold() in states)
            and (not types or group.group_type.casefold() in types)
        ]

    async def in_slices() -> ListGroupsResponse:
        found = wanted(first)
        while some := list(islice(groups, LARGE)):
            await asyncio.sleep(0)
            found += wanted(some)
        return ListGroupsResponse(groups=found)

    groups = chain.from_iterable(machine.listing() for machine in coordinator.machines())
    first = list(islice(groups, LARGE))
    if len(first) < LARGE:
        return ListGroupsResponse(groups=wanted(first))
    request.is_large = True
    return in_slices()
