"""DeleteTopics: delete topics by name or, from version 6, by ID."""

from kohort.model import NO_TOPIC_ID
from kohort.wire.codec import Int16, Int32, Message, NullableString, String, Struct, Uuid, array, message, since, struct


@struct
class DeleteTopicState(Struct):
    """A topic, by name or by ID."""

    name: NullableString = None
    topic_id: Uuid = NO_TOPIC_ID  # KIP-516


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest(Message):
    """Delete topics independently of each other."""

    topics: list[DeleteTopicState] = since(6)
    topic_names: list[String] = since(0, until=5, ignorable=True)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult(Struct):
    """Result for one topic."""

    name: NullableString = since(0, default="", nullable=6)
    topic_id: Uuid = since(6, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = since(5, default=None, ignorable=True)


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsResponse(Message):
    """Result for each topic."""

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = array()
