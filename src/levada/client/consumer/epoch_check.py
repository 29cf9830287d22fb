"""Asks leaders where the epoch of a position ends in their logs, which shows whether records were cut off (KIP-320)."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from levada.client.cluster import Cluster
from levada.client.consumer.by_leader import by_leader
from levada.client.consumer.subscription import Position
from levada.client.errors import KafkaError, UnsupportedVersion, error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

CONSUMER = -1
USEFUL_SINCE = 3
"""Before it, only brokers were allowed to ask."""


class EpochEnd(NamedTuple):
    checked_under: int
    """The leader epoch that was known when the question was asked."""
    leader_epoch: int
    """The largest that is not above the position's; -1 when the leader knows none."""
    end_offset: int
    """-1 when the leader knows none."""


class EpochFindings(NamedTuple):
    ends: dict[TopicPartition, EpochEnd | None]
    """None where the broker is too old to be asked."""
    failures: dict[TopicPartition, KafkaError]


async def epoch_ends(cluster: Cluster, positions: Mapping[TopicPartition, Position]) -> EpochFindings:
    """Ask each leader once."""
    findings = EpochFindings({}, {})
    groups = by_leader(cluster, positions, findings.failures)
    await asyncio.gather(
        *(
            _ask(cluster, leader, {each: positions[each] for each in group}, findings)
            for leader, group in groups.items()
        )
    )
    if any(failure.retriable for failure in findings.failures.values()):
        cluster.refresh_soon()
    return findings


async def _ask(
    cluster: Cluster, leader: int, positions: Mapping[TopicPartition, Position], findings: EpochFindings
) -> None:
    topics: dict[str, OffsetForLeaderTopic] = {}
    known: dict[TopicPartition, int] = {}
    for partition, position in positions.items():
        epoch = cluster.view.topics[partition.topic].partitions[partition.partition].leader_epoch
        known[partition] = epoch
        topic = topics.setdefault(partition.topic, OffsetForLeaderTopic(topic=partition.topic, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=partition.partition, current_leader_epoch=epoch, leader_epoch=position.offset_epoch
            )
        )
    request = OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=list(topics.values()))
    try:
        response: OffsetForLeaderEpochResponse = await cluster.call(leader, request, at_least=USEFUL_SINCE)
    except UnsupportedVersion:
        findings.ends.update(dict.fromkeys(positions))
        return
    except KafkaError as error:
        findings.failures.update(dict.fromkeys(positions, error))
        return
    for topic_answer in response.topics:
        for answer in topic_answer.partitions:
            partition = TopicPartition(topic_answer.topic, answer.partition)
            if partition not in known:
                continue
            if answer.error_code == ErrorCode.NONE:
                findings.ends[partition] = EpochEnd(known[partition], answer.leader_epoch, answer.end_offset)
            else:
                findings.failures[partition] = error_for(answer.error_code, context=f"epochs of {partition}")
