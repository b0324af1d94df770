"""Guards of requests about topics and their records."""

from kohort.broker.access.request_access import RequestAccess
from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID
from kohort.security import Operation
from kohort.wire.batches import is_transactional
from kohort.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kohort.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
)
from kohort.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kohort.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kohort.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produce(access: RequestAccess, request: ProduceRequest) -> ProduceRequest | None:
    """Append to the topics that the client may write."""

    def refused(topic: TopicProduceData) -> TopicProduceResponse:
        return TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                PartitionProduceResponse(index=partition.index, error_code=_DENIED, base_offset=-1)
                for partition in topic.partition_data
            ],
        )

    def allowed(topic: TopicProduceData) -> bool:
        return access.topic_or_id(Operation.WRITE, topic.name, topic.topic_id)

    transactional_id = request.transactional_id
    if (
        transactional_id is not None
        and any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data)
        and not access.transactional_id(Operation.WRITE, transactional_id)
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        answers = [refused(topic) for topic in request.topic_data]
        for answer in answers:
            for partition in answer.partition_responses:
                partition.error_code = code
        access.refuse(ProduceResponse(responses=answers))
        return None
    if request.acks == 0 and not all(allowed(topic) for topic in request.topic_data):
        connection = access.call.connection
        access.call.complete_without_answer()  # the producer cannot be notified otherwise (Kafka does the same)
        connection.refuse(f"a produce request without acknowledgement is not authorized for {connection.principal}")
        return None
    return access.keep_allowed(request, "topic_data", allowed, refused, ProduceResponse(), "responses")


def fetch(access: RequestAccess, request: FetchRequest) -> FetchRequest | None:
    """Pass the request on: a session has partitions that the request does not name, so Fetch checks each itself."""
    return request


def list_offsets(access: RequestAccess, request: ListOffsetsRequest) -> ListOffsetsRequest | None:
    """Look up offsets of topics that the client may describe."""

    def refused(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
        return ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=_DENIED)
                for partition in topic.partitions
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.DESCRIBE, topic.name),
        refused,
        ListOffsetsResponse(),
        "topics",
    )


def offset_for_leader_epoch(
    access: RequestAccess, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochRequest | None:
    """Look up epochs of topics that the client may describe, or of all if it acts as a broker."""
    if access.cluster(Operation.CLUSTER_ACTION):
        return request

    def refused(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
        return OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(partition=partition.partition, error_code=_DENIED) for partition in topic.partitions
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.DESCRIBE, topic.topic),
        refused,
        OffsetForLeaderEpochResponse(),
        "topics",
    )


def metadata(access: RequestAccess, request: MetadataRequest) -> MetadataRequest | None:
    """Describe the topics that the client may describe, and create those that it may create."""
    version = access.call.version
    if request.include_cluster_authorized_operations:

        def tell_cluster(response: MetadataResponse) -> None:
            response.cluster_authorized_operations = access.cluster_bits()

        access.amend(tell_cluster)
    if request.include_topic_authorized_operations:

        def tell_topics(response: MetadataResponse) -> None:
            # Also of topics that do not exist (Kafka does the same).
            for topic in response.topics:
                if topic.name is not None:
                    topic.topic_authorized_operations = access.topic_bits(topic.name)

        access.amend(tell_topics)
    if request.topics is None or (version == 0 and not request.topics):

        def hide(response: MetadataResponse) -> None:
            response.topics = [
                topic
                for topic in response.topics
                if topic.name is not None and access.topic(Operation.DESCRIBE, topic.name)
            ]

        access.amend(hide)
        return request
    may_create = version < 4 or request.allow_auto_topic_creation

    def allowed(topic: MetadataRequestTopic) -> bool:
        if topic.topic_id != NO_TOPIC_ID or topic.name is None:
            return access.topic_or_id(Operation.DESCRIBE, "", topic.topic_id)
        if not access.topic(Operation.DESCRIBE, topic.name):
            return False
        if not may_create or access.exists(topic.name):
            return True
        return access.cluster(Operation.CREATE) or access.topic(Operation.CREATE, topic.name)

    if all(map(allowed, request.topics)):
        return request
    kept = [topic for topic in request.topics if allowed(topic)]
    added = [_hidden(topic) for topic in request.topics if not allowed(topic)]
    # The brokers belong to the response also if no topic is left. An empty list asks for no topic from version 1 on.
    request.topics = kept if kept or version else [MetadataRequestTopic(name="")]

    def add(response: MetadataResponse) -> None:
        response.topics = [*(response.topics if kept else ()), *added]

    access.amend(add)
    return request


def _hidden(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """Return the answer for a topic that the client may not know: without its name if it has only the ID."""
    if topic.topic_id != NO_TOPIC_ID:
        return MetadataResponseTopic(error_code=_DENIED, name=None, topic_id=topic.topic_id, partitions=[])
    return MetadataResponseTopic(error_code=_DENIED, name=topic.name, partitions=[])


def describe_topic_partitions(
    access: RequestAccess, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsRequest | None:
    """Return the error for each topic that the client may not describe; the handler leaves those out."""
    denied = [topic.name for topic in request.topics if not access.topic(Operation.DESCRIBE, topic.name)]

    def amend(response: DescribeTopicPartitionsResponse) -> None:
        for topic in response.topics:
            assert topic.name is not None
            topic.topic_authorized_operations = access.topic_bits(topic.name)
        told = {topic.name for topic in response.topics}
        hidden = [name for name in dict.fromkeys(denied) if name not in told]
        response.topics += [DescribeTopicPartitionsResponseTopic(error_code=_DENIED, name=name) for name in hidden]

    access.amend(amend)
    return request


def create_topics(access: RequestAccess, request: CreateTopicsRequest) -> CreateTopicsRequest | None:
    """Create the topics that the client may create, and return the configs that it may describe."""

    def allowed(topic: CreatableTopic) -> bool:
        return access.cluster(Operation.CREATE) or access.topic(Operation.CREATE, topic.name)

    def refused(topic: CreatableTopic) -> CreatableTopicResult:
        return CreatableTopicResult(
            name=topic.name, error_code=_DENIED, error_message="Authorization failed.", configs=[]
        )

    def hide_configs(response: CreateTopicsResponse) -> None:
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE and not access.topic(Operation.DESCRIBE_CONFIGS, topic.name):
                topic.topic_config_error_code = _DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []

    access.amend(hide_configs)
    return access.keep_allowed(request, "topics", allowed, refused, CreateTopicsResponse(), "topics")


def delete_topics(access: RequestAccess, request: DeleteTopicsRequest) -> DeleteTopicsRequest | None:
    """Delete the topics that the client may delete."""

    def refused_name(name: str) -> DeletableTopicResult:
        return DeletableTopicResult(name=name, error_code=_DENIED, error_message=_DENIED.sentence)

    def refused(topic: DeleteTopicState) -> DeletableTopicResult:
        result = refused_name(topic.name or "")
        if topic.topic_id != NO_TOPIC_ID:
            found = access.with_id(topic.topic_id)
            assert found is not None
            result.topic_id = topic.topic_id
            result.name = found.name if access.topic(Operation.DESCRIBE, found.name) else None
        return result

    if access.call.version < 6:
        return access.keep_allowed(
            request,
            "topic_names",
            lambda name: access.topic(Operation.DELETE, name),
            refused_name,
            DeleteTopicsResponse(),
            "responses",
        )
    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic_or_id(Operation.DELETE, topic.name or "", topic.topic_id),
        refused,
        DeleteTopicsResponse(),
        "responses",
    )


def delete_records(access: RequestAccess, request: DeleteRecordsRequest) -> DeleteRecordsRequest | None:
    """Delete records of topics that the client may delete."""

    def refused(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
        return DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=partition.partition_index, low_watermark=-1, error_code=_DENIED
                )
                for partition in topic.partitions
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.DELETE, topic.name),
        refused,
        DeleteRecordsResponse(),
        "topics",
    )


def create_partitions(access: RequestAccess, request: CreatePartitionsRequest) -> CreatePartitionsRequest | None:
    """Add partitions to topics that the client may alter."""

    def refused(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        return CreatePartitionsTopicResult(name=topic.name, error_code=_DENIED, error_message=None)

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.ALTER, topic.name),
        refused,
        CreatePartitionsResponse(),
        "results",
    )


def describe_producers(access: RequestAccess, request: DescribeProducersRequest) -> DescribeProducersRequest | None:
    """Describe producers of topics that the client may read."""

    def refused(topic: TopicRequest) -> TopicResponse:
        return TopicResponse(
            name=topic.name,
            partitions=[
                PartitionResponse(partition_index=index, error_code=_DENIED, error_message=_DENIED.sentence)
                for index in topic.partition_indexes
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.READ, topic.name),
        refused,
        DescribeProducersResponse(),
        "topics",
    )


def init_producer_id(access: RequestAccess, request: InitProducerIdRequest) -> InitProducerIdRequest | None:
    """Give an ID to a producer that may write any topic (KIP-679), or that may use its transactional ID."""
    if request.transactional_id is not None:
        if access.transactional_id(Operation.WRITE, request.transactional_id):
            return request
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        access.refuse(InitProducerIdResponse(error_code=code, producer_epoch=-1))
        return None
    if access.cluster(Operation.IDEMPOTENT_WRITE) or access.any_topic(Operation.WRITE):
        return request
    access.refuse(InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, producer_epoch=-1))
    return None
