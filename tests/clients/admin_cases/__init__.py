"""What our admin client does, as cases that run against any broker: one copy for ours and for Apache's."""

from tests.clients.admin_cases.case import Case, Target
from tests.clients.admin_cases.cluster_cases import CLUSTER_CASES
from tests.clients.admin_cases.config_cases import CONFIG_CASES
from tests.clients.admin_cases.group_cases import GROUP_CASES
from tests.clients.admin_cases.partition_cases import PARTITION_CASES
from tests.clients.admin_cases.topic_cases import TOPIC_CASES
from tests.clients.admin_cases.transaction_cases import TRANSACTION_CASES

CASES: list[Case] = [
    *TOPIC_CASES,
    *PARTITION_CASES,
    *CONFIG_CASES,
    *GROUP_CASES,
    *TRANSACTION_CASES,
    *CLUSTER_CASES,
]

__all__ = ["CASES", "Case", "Target"]
