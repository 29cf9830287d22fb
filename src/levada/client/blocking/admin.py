"""The admin client for code without asyncio."""

from collections.abc import Sequence
from typing import Any

from levada.client.admin import Admin as AsyncAdmin
from levada.client.blocking.client import BlockingClient, blocking


class Admin(BlockingClient[AsyncAdmin]):
    """Looks at a cluster and changes it; Kafka's admin settings are keyword arguments.

    >>> from levada.client.admin import NewTopic
    >>> with Admin(bootstrap) as admin:
    ...     admin.create_topics([NewTopic("payments", 3)]).raise_any()
    ...     len(admin.describe_topics(["payments"])["payments"].partitions)
    3
    """

    def __init__(self, bootstrap: str | Sequence[str] | None = None, **options: Any) -> None:
        super().__init__("admin", lambda _: AsyncAdmin(bootstrap, **options), _close)

    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    next_append_times = blocking(AsyncAdmin.next_append_times)
    delete_records = blocking(AsyncAdmin.delete_records)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)
    describe_configs = blocking(AsyncAdmin.describe_configs)
    incremental_alter_configs = blocking(AsyncAdmin.incremental_alter_configs)
    alter_configs = blocking(AsyncAdmin.alter_configs)
    list_config_resources = blocking(AsyncAdmin.list_config_resources)
    list_groups = blocking(AsyncAdmin.list_groups)
    describe_consumer_groups = blocking(AsyncAdmin.describe_consumer_groups)
    describe_classic_groups = blocking(AsyncAdmin.describe_classic_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    remove_members_from_group = blocking(AsyncAdmin.remove_members_from_group)
    list_group_offsets = blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    abort_handed_over = blocking(AsyncAdmin.abort_handed_over)
    can_commit_groups = blocking(AsyncAdmin.can_commit_groups)
    fence_producers = blocking(AsyncAdmin.fence_producers)
    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    describe_features = blocking(AsyncAdmin.describe_features)
    describe_api_versions = blocking(AsyncAdmin.describe_api_versions)
    update_features = blocking(AsyncAdmin.update_features)
    unregister_broker = blocking(AsyncAdmin.unregister_broker)
    describe_quorum = blocking(AsyncAdmin.describe_quorum)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    describe_replica_log_dirs = blocking(AsyncAdmin.describe_replica_log_dirs)
    alter_replica_log_dirs = blocking(AsyncAdmin.alter_replica_log_dirs)
    describe_acls = blocking(AsyncAdmin.describe_acls)
    create_acls = blocking(AsyncAdmin.create_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(AsyncAdmin.alter_user_scram_credentials)


async def _close(admin: AsyncAdmin, timeout: float = 0.0) -> None:
    """Nothing is left to be waited for."""
    await admin.close()
