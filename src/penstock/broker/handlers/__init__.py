"""One file per API; HANDLERS is all that this broker serves."""

from penstock.broker.handlers import (
    api_versions,
    create_topics,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
)

HANDLERS = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    api_versions,
    create_topics,
    init_producer_id,
)
