"""A broker's refusal in the words of Apache's tool, which prints Java's exceptions."""

from typing import TYPE_CHECKING, Final

from levada.model.error_codes import ErrorCode

if TYPE_CHECKING:
    from levada.client.errors import KafkaError

PACKAGE: Final = "org.apache.kafka.common.errors."

EXCEPTIONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException", "This server does not host this topic-partition.",
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "InvalidTopicException", "The request attempted to perform an operation on an invalid topic.",
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        "OffsetMetadataTooLarge", "The metadata field of the offset request was too large.",
    ),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The group id is invalid."),
    ErrorCode.UNKNOWN_MEMBER_ID: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    ErrorCode.ILLEGAL_GENERATION: ("IllegalGenerationException", "Specified group generation id is not valid."),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("TopicAuthorizationException", "Topic authorization failed."),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("GroupAuthorizationException", "Group authorization failed."),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("ClusterAuthorizationException", "Cluster authorization failed."),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
}  # fmt: skip
"""The exceptions that groups and their offsets can cause, and what each says where the broker says nothing."""


def is_known(error: "KafkaError") -> bool:
    return error.code in EXCEPTIONS


def message(error: "KafkaError") -> str:
    """What the exception says."""
    if error.said:
        return error.said
    return EXCEPTIONS[error.code][1] if error.code in EXCEPTIONS else str(error)


def spelled(error: "KafkaError") -> str:
    """The exception with its class, as Java prints it; our own words for what no broker has said."""
    return f"{PACKAGE}{EXCEPTIONS[error.code][0]}: {message(error)}" if error.code in EXCEPTIONS else str(error)
