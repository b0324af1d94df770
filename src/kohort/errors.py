"""Kafka's error codes in one table, and the exceptions that carry them.

`ErrorCode` is a code on the wire; `KafkaError` is the exception that the client raises. Names,
numbers and retriability are those of Apache Kafka's protocol guide.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """Protocol error.

    `retriable` is whether repeating the request may succeed; `sentence` describes it to a person.
    """

    sentence: str
    retriable: bool

    def __new__(cls, code: int, sentence: str = "", retriable: bool = False) -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "the broker met an unexpected error; its log says which"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is outside the partition's range"
    CORRUPT_MESSAGE = 2, "the record batch fails its checksum or is malformed", True
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker does not have that topic or partition", True
    INVALID_FETCH_SIZE = 4, "the fetch size is invalid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", True
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead that partition", True
    REQUEST_TIMED_OUT = 7, "the request timed out", True
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available", True
    MESSAGE_TOO_LARGE = 10, "the record batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved"
    OFFSET_METADATA_TOO_LARGE = 12, "the commit's metadata is longer than offset.metadata.max.bytes"
    NETWORK_EXCEPTION = 13, "the connection was lost before the answer arrived", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading the group", True
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available", True
    NOT_COORDINATOR = 16, "this broker does not coordinate that group", True
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not valid: 1 to 249 of letters, digits, '.', '_' and '-'"
    RECORD_LIST_TOO_LARGE = 18, "the records are larger than the segment size"
    NOT_ENOUGH_REPLICAS = 19, "there are fewer replicas in sync than required", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but to fewer replicas than required", True
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the member's generation is not the group's"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member shares no assignor with the group, or sent a malformed subscription"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the group does not know this member; it must join again"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the range that the broker allows"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing; the member must join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the commit is too large"
    TOPIC_AUTHORIZATION_FAILED = (
        29,
        "not authorized to access the topic: its operator must allow that to this client (an ACL)",
    )
    GROUP_AUTHORIZATION_FAILED = (
        30,
        "not authorized to access the group: its operator must allow that to this client (an ACL)",
    )
    CLUSTER_AUTHORIZATION_FAILED = (
        31,
        "not authorized to access the cluster: its operator must allow that to this client (an ACL)",
    )
    INVALID_TIMESTAMP = 32, "a record's timestamp is out of the allowed range"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not support that SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "the request is not valid in this state of authentication"
    UNSUPPORTED_VERSION = 35, "the broker does not support this version of the request"
    TOPIC_ALREADY_EXISTS = 36, "a topic of that name exists"
    INVALID_PARTITIONS = 37, "the number of partitions must be at least 1"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is not possible with the brokers that there are"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "a configuration value is not valid"
    NOT_CONTROLLER = 41, "this broker is not the controller", True
    INVALID_REQUEST = 42, "the request contradicts itself or lacks a required field"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the record format does not support this"
    POLICY_VIOLATION = 44, "the request violates a policy of the broker"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the producer's sequence number does not follow its last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the producer's batch was written before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the current one"
    INVALID_TXN_STATE = 48, "the transaction is not in a state that allows this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to that transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is larger than allowed"
    CONCURRENT_TRANSACTIONS = 51, "another operation on the transaction is under way", True
    TRANSACTION_COORDINATOR_FENCED = 52, "the transaction coordinator was replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized to use the transactional id"
    SECURITY_DISABLED = 54, "security features are disabled"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the broker could not write or read its log on disk", True
    LOG_DIR_NOT_FOUND = 57, "the log directory was not found"
    SASL_AUTHENTICATION_FAILED = 58, "the user name or password is wrong"
    UNKNOWN_PRODUCER_ID = 59, "the partition knows nothing of the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment is under way"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are disabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the delegation token was not found"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the delegation token belongs to another"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens cannot be asked for on this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session is unknown", True
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session epoch is not the expected one", True
    LISTENER_NOT_FOUND = 72, "the listener was not found", True
    TOPIC_DELETION_DISABLED = 73, "topics cannot be deleted on this broker"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the partition's", True
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the partition's", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the compression type is not supported"
    STALE_BROKER_EPOCH = 77, "the broker's epoch is stale"
    OFFSET_NOT_AVAILABLE = 78, "the offset is not available yet", True
    MEMBER_ID_REQUIRED = 79, "join again with the member id of this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", True
    GROUP_MAX_SIZE_REACHED = 81, "the group is full (group.max.size)"
    FENCED_INSTANCE_ID = 82, "another member took over this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no eligible leader is available", True
    ELECTION_NOT_NEEDED = 84, "the partition has its leader already", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment is under way"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "a member of the group is subscribed to the topic"
    INVALID_RECORD = 87, "a record is not valid"
    UNSTABLE_OFFSET_COMMIT = 88, "a transaction on these offsets is not decided yet", True
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is used up", True
    PRODUCER_FENCED = 90, "a newer producer with the same transactional id exists"
    RESOURCE_NOT_FOUND = 91, "there is no such resource"
    DUPLICATE_RESOURCE = 92, "the resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential is not acceptable"
    INCONSISTENT_VOTER_SET = 94, "the voter set is inconsistent"
    INVALID_UPDATE_VERSION = 95, "the update version is not valid"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, "the snapshot was not found"
    POSITION_OUT_OF_RANGE = 99, "the position is out of range"
    UNKNOWN_TOPIC_ID = 100, "this broker does not have a topic of that id", True
    DUPLICATE_BROKER_REGISTRATION = 101, "a broker of that id is registered"
    BROKER_ID_NOT_REGISTERED = 102, "no broker of that id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic id does not belong to the topic", True
    INCONSISTENT_CLUSTER_ID = 104, "the cluster id is not this cluster's"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "the transactional id was not found"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session uses topic ids in another way", True
    INELIGIBLE_REPLICA = 107, "the replica is not eligible"
    NEW_LEADER_ELECTED = 108, "a new leader was elected"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member's epoch is not the coordinator's; it must abandon its partitions and rejoin"
    UNRELEASED_INSTANCE_ID = 111, "a live member uses this instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the broker does not have that assignor"
    STALE_MEMBER_EPOCH = 113, "the member must retry with its newest epoch"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request was sent to the wrong kind of endpoint"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "that kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "the controller id is unknown"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is unknown"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is too large"
    INVALID_REGISTRATION = 119, "the broker registration is not valid"
    TRANSACTION_ABORTABLE = 120, "the transaction must be aborted"
    INVALID_RECORD_STATE = 121, "the record is not in a state that allows this"
    SHARE_SESSION_NOT_FOUND = 122, "the share session is unknown", True
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session epoch is not the expected one", True
    FENCED_STATE_EPOCH = 124, "the share state epoch is old"
    INVALID_VOTER_KEY = 125, "the voter key is not the expected one"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "the client must connect to its bootstrap servers again"


class KohortError(Exception):
    """Base of the errors that a user, a peer or the machine can cause.

    The text is one sentence that says what to do.
    """

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later."""
        return False


class ConfigError(KohortError, ValueError):
    """Option that is unknown, of the wrong type, out of range, or in conflict with another."""


class AssignorError(KohortError):
    """Failure or invalid result of a user's server-side assignor.

    The group's last target assignment remains in effect.
    """


class KafkaError(KohortError):
    """Error response of a broker, or no response in time (`NETWORK_EXCEPTION`, `REQUEST_TIMED_OUT`)."""

    def __init__(self, code: ErrorCode, detail: str | None = None) -> None:
        self.code = code
        self.sentence = detail or code.sentence
        """Description of the problem without the code's name, as a broker returns it beside the code."""
        super().__init__(f"{code.name}: {self.sentence}")

    @property
    def retriable(self) -> bool:
        return self.code.retriable


def install_extra(extra: str) -> str:
    """Return the instruction that installs an extra, for error messages. Kohort is installed from a checkout."""
    return f"run `pip install '.[{extra}]'` in the checkout of Kohort"


def error_code(number: int) -> ErrorCode:
    """Return the code with this number; UNKNOWN_SERVER_ERROR if this version does not know it."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
