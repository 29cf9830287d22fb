"""A group as ConsumerGroupDescribe shows it."""

from collections.abc import Iterable

from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.member import ConsumerGroupMember, Target
from levada.groups.consumer.refusals import Refusal
from levada.metadata.image import Image
from levada.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC, CONSUMER = 0, 1
"""Types of members."""


def describe(group: ConsumerGroup, default_assignor: str, image: Image) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignors.most_named() or default_assignor,
        members=[_member(member, group.target_of(member.member_id), image) for member in group.members.values()],
    )


def refuse(group_id: str, refusal: Refusal) -> DescribedGroup:
    return DescribedGroup(
        error_code=refusal.code,
        error_message=refusal.text,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _member(member: ConsumerGroupMember, target: Target, image: Image) -> Member:
    # A member still uses what it has been told to give up.
    current = {topic_id: list(epochs) for topic_id, epochs in member.assigned.items()}
    for topic_id, epochs in member.revoking.items():
        current.setdefault(topic_id, []).extend(epochs)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(current.items(), image),
        target_assignment=_assignment(target.items(), image),
        member_type=CLASSIC if member.uses_classic_protocol else CONSUMER,
    )


def _assignment(partitions: Iterable[tuple[bytes, Iterable[int]]], image: Image) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=image.topic_names[topic_id], partitions=list(indexes))
            for topic_id, indexes in partitions
            if topic_id in image.topic_names
        ]
    )
