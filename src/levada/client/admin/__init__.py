"""The asyncio admin client, with what it takes and gives."""

from levada.client.admin.acls import Acl, AclFilter
from levada.client.admin.admin import Admin
from levada.client.admin.append_times import AppendTime
from levada.client.admin.cluster import (
    BrokerDescription,
    ClusterDescription,
    Features,
    FeatureUpdate,
    Quorum,
    QuorumReplica,
    VersionRange,
)
from levada.client.admin.configs import Append, ConfigEntry, ConfigResource, ConfigSynonym, Subtract
from levada.client.admin.describing import PartitionDescription, TopicDescription, TopicListing
from levada.client.admin.group_descriptions import GroupDescription, GroupListing, MemberDescription
from levada.client.admin.group_offsets import GroupOffsets
from levada.client.admin.ids import TopicId
from levada.client.admin.kinds import (
    AclOperation,
    AclPermission,
    ConfigKind,
    ConfigSource,
    ConfigType,
    ElectionType,
    GroupState,
    GroupType,
    IsolationLevel,
    OffsetSpec,
    PatternType,
    ResourceType,
    ScramMechanism,
    TransactionState,
    UpgradeType,
)
from levada.client.admin.log_directories import LogDirectory, Replica, ReplicaPlace, ReplicaSize
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.partitions import HIGH_WATERMARK, ListedOffset, PartitionReassignment
from levada.client.admin.quotas import QuotaEntity, QuotaFilter, quota_entity
from levada.client.admin.scram import ScramCredential, ScramDeletion, ScramUpsertion
from levada.client.admin.topics import CreatedTopic, NewPartitions, NewTopic
from levada.client.admin.transactions import (
    AbortTransaction,
    ActiveProducer,
    FencedProducer,
    TransactionDescription,
    TransactionListing,
)

__all__ = [
    "HIGH_WATERMARK",  # everything committed, to delete_records
    "AbortTransaction",  # an open transaction in one partition
    "Acl",  # who may do what
    "AclFilter",  # which rules are meant
    "AclOperation",
    "AclPermission",
    "ActiveProducer",  # as a partition remembers it
    "Admin",  # the client
    "Append",  # to a key that holds a list
    "AppendTime",  # of a batch, by its broker's clock
    "BrokerDescription",
    "ClusterDescription",
    "ConfigEntry",  # a key with its value and where that comes from
    "ConfigKind",
    "ConfigResource",  # what has a configuration
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "ElectionType",
    "FeatureUpdate",
    "Features",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupOffsets",  # committed offsets by partition
    "GroupState",
    "GroupType",
    "IsolationLevel",
    "ListedOffset",
    "LogDirectory",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",  # latest, earliest, ...
    "Outcomes",  # a result or an error per item
    "PartitionDescription",
    "PartitionReassignment",
    "PatternType",
    "Quorum",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaFilter",
    "Replica",  # a partition's copy on one broker
    "ReplicaPlace",
    "ReplicaSize",
    "ResourceType",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "Subtract",  # from a key that holds a list
    "TopicDescription",
    "TopicId",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
    "VersionRange",
    "quota_entity",  # whom a quota is for
]
