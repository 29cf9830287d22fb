"""How clients reach a cluster: nodes with their connections and versions, the view of topics, coordinators."""

from levada.client.cluster.cluster import Cluster, CoordinatorKind
from levada.client.cluster.node import Node
from levada.client.cluster.view import NO_EPOCH, NO_NODE, Address, BrokerView, ClusterView, PartitionView, TopicView
from levada.client.cluster.waiting import Backoff, Deadline, background

__all__ = [
    "NO_EPOCH",  # no leader epoch is known
    "NO_NODE",  # no broker
    "Address",  # host and port
    "Backoff",  # growing pauses
    "BrokerView",  # id, address, rack
    "Cluster",  # requests to the right broker, and the view
    "ClusterView",  # brokers and topics as last heard
    "CoordinatorKind",  # of groups or of transactions
    "Deadline",  # when a call gives up
    "Node",  # one broker
    "PartitionView",  # leader, epoch, replicas
    "TopicView",  # a topic and its partitions
    "background",  # a task of a client
]
