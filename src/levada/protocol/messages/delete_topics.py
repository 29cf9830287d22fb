"""DeleteTopics (api key 20), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    NO_UUID,
    Int16,
    Int32,
    NullableSince,
    Request,
    Since,
    String,
    Until,
    Uuid,
    message,
    struct,
)


@struct
class DeleteTopicState:
    name: String | None = None
    topic_id: Uuid


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    topics: Annotated[list[DeleteTopicState], Since(6)] = field(default_factory=list)
    topic_names: Annotated[list[String], Until(5), IGNORABLE] = field(default_factory=list)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: Annotated[String | None, NullableSince(6)]
    topic_id: Annotated[Uuid, Since(6), IGNORABLE] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(5), IGNORABLE] = None


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult]
