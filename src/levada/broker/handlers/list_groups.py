"""ListGroups v0-5. v3 flexible, v4 filter by state (KIP-518), v5 filter by type (KIP-848)."""

from levada.broker.route import Request
from levada.model.errors import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

API = ApiKey.LIST_GROUPS
VERSIONS = stable_versions(API)


def handle(message: ListGroupsRequest, request: Request) -> ListGroupsResponse:
    coordinator = request.broker.groups
    if coordinator.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    states = {state.casefold() for state in message.states_filter}
    types = {type_.casefold() for type_ in message.types_filter}
    return ListGroupsResponse(
        groups=[
            group
            for machine in coordinator.machines()
            for group in machine.listing()
            if (not states or group.group_state.casefold() in states)
            and (not types or group.group_type.casefold() in types)
        ]
    )
