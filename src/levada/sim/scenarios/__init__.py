"""All scenarios by their names."""

from typing import Final

from levada.sim.frame.run import Run
from levada.sim.scenarios.client_storm import ClientStorm
from levada.sim.scenarios.group_storm import GroupStorm
from levada.sim.scenarios.members import Members
from levada.sim.scenarios.metadata_storm import MetadataStorm
from levada.sim.scenarios.single_node import SingleNode
from levada.sim.scenarios.transaction_storm import TransactionStorm

SCENARIOS: Final[dict[str, type[Run]]] = {
    "single-node": SingleNode,
    "metadata-storm": MetadataStorm,
    "groups": GroupStorm,
    "transactions": TransactionStorm,
    "clients": ClientStorm,
    "members": Members,
}
