"""One file per API; HANDLERS is all that this broker serves."""

from penstock.broker.handlers import (
    api_versions,
    create_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)

HANDLERS = (
    produce,
    fetch,
    list_offsets,
    metadata,
    find_coordinator,
    api_versions,
    create_topics,
    init_producer_id,
)
