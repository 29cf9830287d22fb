"""The composition root: one node, wired onto a World."""

from levada.node.node import Node
from levada.node.settings import NodeSettings, node_settings

__all__ = [
    "Node",  # a broker that can be started and stopped
    "NodeSettings",  # what it works with
    "node_settings",  # the same, from configuration keys
]
