"""OffsetDelete v0."""

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API = ApiKey.OFFSET_DELETE
VERSIONS = stable_versions(API)


async def handle(message: OffsetDeleteRequest, request: Request) -> OffsetDeleteResponse:
    if not message.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID, topics=[])
    image = request.broker.image
    answers = {
        (topic.name, partition.partition_index): OffsetDeleteResponsePartition(
            partition_index=partition.partition_index
        )
        for topic in message.topics
        for partition in topic.partitions
    }
    known = []
    for (name, index), answer in answers.items():
        topic = image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            known.append((name, index))
    try:
        outcome: ErrorCode | list[ErrorCode] = await request.broker.groups.submit(
            message.group_id, lambda machine, token, _: machine.delete_offsets(token, message.group_id, known)
        )
    except ApiError as error:
        outcome = error.code
    if isinstance(outcome, ErrorCode):
        return OffsetDeleteResponse(error_code=outcome, topics=[])
    for key, code in zip(known, outcome):
        answers[key].error_code = code
    return OffsetDeleteResponse(topics=_by_topic(answers))


def _by_topic(answers: dict[tuple[str, int], OffsetDeleteResponsePartition]) -> list[OffsetDeleteResponseTopic]:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for (name, _), answer in answers.items():
        topics.setdefault(name, OffsetDeleteResponseTopic(name=name, partitions=[])).partitions.append(answer)
    return list(topics.values())
