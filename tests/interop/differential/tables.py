"""Every table, in the order in which they are sent."""

from tests.interop.differential import (
    cluster_cases,
    config_cases,
    fetch_cases,
    offset_cases,
    record_cases,
    topic_cases,
)

TABLES = (
    cluster_cases.API_VERSIONS,
    cluster_cases.METADATA,
    cluster_cases.DESCRIBE_TOPIC_PARTITIONS,
    cluster_cases.DESCRIBE_CLUSTER,
    offset_cases.DESCRIBE_LOG_DIRS,
    topic_cases.ELECT_LEADERS,
    topic_cases.CREATE_TOPICS,
    topic_cases.DELETE_TOPICS,
    topic_cases.CREATE_PARTITIONS,
    config_cases.DESCRIBE_CONFIGS,
    config_cases.ALTER_CONFIGS,
    config_cases.TOPIC_CHANGES,
    config_cases.BROKER_CHANGES,
    record_cases.INIT_PRODUCER_ID,
    record_cases.PRODUCE,
    record_cases.DELETE_RECORDS,
    offset_cases.LIST_OFFSETS,
    offset_cases.OFFSET_FOR_LEADER_EPOCH,
    fetch_cases.FETCH,
    fetch_cases.SESSIONS,
    cluster_cases.UNREGISTER_BROKER,
    cluster_cases.FIND_COORDINATOR,
)
