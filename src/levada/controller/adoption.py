"""Takes over the logs that lie in a data directory which has no metadata: Apache's, or an older version's."""

from dataclasses import dataclass, field

from levada.controller.decision import Context, ControllerDecision
from levada.controller.topics import new_partition
from levada.metadata.image import Image
from levada.metadata.records import FeatureLevelRecord, MetadataRecord, ProducerIdsRecord, TopicRecord
from levada.protocol.declare import AnsweredBy

METADATA_VERSION = "metadata.version"
METADATA_LEVEL = 30
"""The level of Apache 4.3's records, which are ours."""


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic that was found as directories."""

    name: str
    topic_id: bytes
    partition_count: int


@dataclass(frozen=True, slots=True)
class AdoptRequest(AnsweredBy[bool]):
    """What a node found on its disk when it was the first of its cluster."""

    broker_id: int
    topics: list[FoundTopic] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SkipProducerIdsRequest(AnsweredBy[bool]):
    """The first producer id that no adopted log has seen."""

    next_producer_id: int


def adopt(image: Image, request: AdoptRequest, context: Context) -> ControllerDecision[bool]:
    """Only a cluster that knows nothing yet takes anything over."""
    if image.offset >= 0:
        return ControllerDecision(reply=False)
    records: list[MetadataRecord] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_LEVEL)]
    for topic in request.topics:
        records.append(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        records += [
            new_partition(topic.topic_id, index, [request.broker_id], image) for index in range(topic.partition_count)
        ]
    return ControllerDecision(reply=True, records=records)


def skip_producer_ids(image: Image, request: SkipProducerIdsRequest, context: Context) -> ControllerDecision[bool]:
    """An id that is given twice would make a new producer's records look like repetitions."""
    if request.next_producer_id <= image.next_producer_id:
        return ControllerDecision(reply=False)
    return ControllerDecision(
        reply=True, records=[ProducerIdsRecord(broker_id=-1, next_producer_id=request.next_producer_id)]
    )
