"""Errors of kafka-python.

What the adapter raises is an instance of one of these and of Kohort's own class, such as
`kohort.KafkaError` or `kohort.ConfigError`. Names and hierarchy are those of kafka-python 3.0.
"""

from collections.abc import Mapping

from kohort import client
from kohort.compat import ErrorNames
from kohort.compat.kafka_python.structs import TopicPartition


class KafkaError(client.KohortError):
    """Base of all errors."""

    retriable: bool = False
    invalid_metadata: bool = False

    def __str__(self) -> str:
        return f"{type(self).__name__}: {super().__str__()}" if self.args else type(self).__name__


class RetriableError(KafkaError):
    """Error after which the same call may succeed."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """Error that shows that the client's metadata is out of date."""

    invalid_metadata = True


class Cancelled(RetriableError):
    """Operation that was cancelled."""


class CommitFailedError(KafkaError):
    """Commit that the group rejected."""


class IllegalArgumentError(KafkaError):
    """Invalid argument."""


class IllegalStateError(KafkaError):
    """Call that the state of the client does not allow."""


class KafkaConfigurationError(KafkaError):
    """Invalid option."""


class KafkaConnectionError(InvalidMetadataError):
    """Connection that failed."""


class KafkaProtocolError(KafkaError):
    """Peer that does not speak the protocol."""


class KafkaTimeoutError(RetriableError):
    """Operation that took too long."""


class NoOffsetForPartitionError(KafkaError):
    """Partition without an offset while auto_offset_reset is "none"."""


class LogTruncationError(KafkaError):
    """Log that lost records which the consumer has read."""


class NodeNotReadyError(RetriableError):
    """Broker that is not connected."""


class UnsupportedCodecError(KafkaError):
    """Unknown compression."""


class BrokerResponseError(KafkaError):
    """Error code of a broker. `errno` is its number, and `message` its name."""

    errno: int | None = None
    message: str | None = None
    description: str | None = None

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class AuthorizationError(BrokerResponseError):
    """Missing permission."""


kafka_errors: dict[int, type[BrokerResponseError]] = {}
"""Class of each error code."""


def _code(name: str, errno: int, *bases: type[KafkaError]) -> type[BrokerResponseError]:
    code = client.ErrorCode(errno)
    values = {"errno": errno, "message": code.name, "description": code.sentence, "__module__": __name__}
    kind: type[BrokerResponseError] = type(name, (*bases, BrokerResponseError), values)
    kafka_errors[errno] = kind
    return kind


UnknownError = _code("UnknownError", -1)
NoError = _code("NoError", 0)
OffsetOutOfRangeError = _code("OffsetOutOfRangeError", 1)
CorruptRecordError = _code("CorruptRecordError", 2)
UnknownTopicOrPartitionError = _code("UnknownTopicOrPartitionError", 3, InvalidMetadataError)
InvalidFetchRequestError = _code("InvalidFetchRequestError", 4)
LeaderNotAvailableError = _code("LeaderNotAvailableError", 5, InvalidMetadataError)
NotLeaderForPartitionError = _code("NotLeaderForPartitionError", 6, InvalidMetadataError)
RequestTimedOutError = _code("RequestTimedOutError", 7, KafkaTimeoutError)
BrokerNotAvailableError = _code("BrokerNotAvailableError", 8)
ReplicaNotAvailableError = _code("ReplicaNotAvailableError", 9, InvalidMetadataError)
MessageSizeTooLargeError = _code("MessageSizeTooLargeError", 10)
StaleControllerEpochError = _code("StaleControllerEpochError", 11)
OffsetMetadataTooLargeError = _code("OffsetMetadataTooLargeError", 12)
NetworkExceptionError = _code("NetworkExceptionError", 13, KafkaConnectionError)
CoordinatorLoadInProgressError = _code("CoordinatorLoadInProgressError", 14, RetriableError)
CoordinatorNotAvailableError = _code("CoordinatorNotAvailableError", 15, RetriableError)
NotCoordinatorError = _code("NotCoordinatorError", 16, RetriableError)
InvalidTopicError = _code("InvalidTopicError", 17)
RecordListTooLargeError = _code("RecordListTooLargeError", 18)
NotEnoughReplicasError = _code("NotEnoughReplicasError", 19, RetriableError)
NotEnoughReplicasAfterAppendError = _code("NotEnoughReplicasAfterAppendError", 20, RetriableError)
InvalidRequiredAcksError = _code("InvalidRequiredAcksError", 21)
IllegalGenerationError = _code("IllegalGenerationError", 22)
InconsistentGroupProtocolError = _code("InconsistentGroupProtocolError", 23)
InvalidGroupIdError = _code("InvalidGroupIdError", 24)
UnknownMemberIdError = _code("UnknownMemberIdError", 25)
InvalidSessionTimeoutError = _code("InvalidSessionTimeoutError", 26)
RebalanceInProgressError = _code("RebalanceInProgressError", 27)
InvalidCommitOffsetSizeError = _code("InvalidCommitOffsetSizeError", 28)
TopicAuthorizationFailedError = _code("TopicAuthorizationFailedError", 29, AuthorizationError)
GroupAuthorizationFailedError = _code("GroupAuthorizationFailedError", 30, AuthorizationError)
ClusterAuthorizationFailedError = _code("ClusterAuthorizationFailedError", 31, AuthorizationError)
InvalidTimestampError = _code("InvalidTimestampError", 32)
UnsupportedSaslMechanismError = _code("UnsupportedSaslMechanismError", 33)
IllegalSaslStateError = _code("IllegalSaslStateError", 34)
UnsupportedVersionError = _code("UnsupportedVersionError", 35)
TopicAlreadyExistsError = _code("TopicAlreadyExistsError", 36)
InvalidPartitionsError = _code("InvalidPartitionsError", 37)
InvalidReplicationFactorError = _code("InvalidReplicationFactorError", 38)
InvalidReplicationAssignmentError = _code("InvalidReplicationAssignmentError", 39)
InvalidConfigurationError = _code("InvalidConfigurationError", 40)
NotControllerError = _code("NotControllerError", 41, RetriableError)
InvalidRequestError = _code("InvalidRequestError", 42)
UnsupportedForMessageFormatError = _code("UnsupportedForMessageFormatError", 43)
PolicyViolationError = _code("PolicyViolationError", 44)
OutOfOrderSequenceNumberError = _code("OutOfOrderSequenceNumberError", 45)
DuplicateSequenceNumberError = _code("DuplicateSequenceNumberError", 46)
InvalidProducerEpochError = _code("InvalidProducerEpochError", 47)
InvalidTxnStateError = _code("InvalidTxnStateError", 48)
InvalidProducerIdMappingError = _code("InvalidProducerIdMappingError", 49)
InvalidTransactionTimeoutError = _code("InvalidTransactionTimeoutError", 50)
ConcurrentTransactionsError = _code("ConcurrentTransactionsError", 51, RetriableError)
TransactionCoordinatorFencedError = _code("TransactionCoordinatorFencedError", 52)
TransactionalIdAuthorizationFailedError = _code("TransactionalIdAuthorizationFailedError", 53, AuthorizationError)
SecurityDisabledError = _code("SecurityDisabledError", 54)
OperationNotAttemptedError = _code("OperationNotAttemptedError", 55)
KafkaStorageError = _code("KafkaStorageError", 56, InvalidMetadataError)
LogDirNotFoundError = _code("LogDirNotFoundError", 57)
SaslAuthenticationFailedError = _code("SaslAuthenticationFailedError", 58)
UnknownProducerIdError = _code("UnknownProducerIdError", 59)
ReassignmentInProgressError = _code("ReassignmentInProgressError", 60)
DelegationTokenAuthDisabledError = _code("DelegationTokenAuthDisabledError", 61)
DelegationTokenNotFoundError = _code("DelegationTokenNotFoundError", 62)
DelegationTokenOwnerMismatchError = _code("DelegationTokenOwnerMismatchError", 63)
DelegationTokenRequestNotAllowedError = _code("DelegationTokenRequestNotAllowedError", 64)
DelegationTokenAuthorizationFailedError = _code("DelegationTokenAuthorizationFailedError", 65, AuthorizationError)
DelegationTokenExpiredError = _code("DelegationTokenExpiredError", 66)
InvalidPrincipalTypeError = _code("InvalidPrincipalTypeError", 67)
NonEmptyGroupError = _code("NonEmptyGroupError", 68)
GroupIdNotFoundError = _code("GroupIdNotFoundError", 69)
FetchSessionIdNotFoundError = _code("FetchSessionIdNotFoundError", 70, RetriableError)
InvalidFetchSessionEpochError = _code("InvalidFetchSessionEpochError", 71, RetriableError)
ListenerNotFoundError = _code("ListenerNotFoundError", 72, InvalidMetadataError)
TopicDeletionDisabledError = _code("TopicDeletionDisabledError", 73)
FencedLeaderEpochError = _code("FencedLeaderEpochError", 74, InvalidMetadataError)
UnknownLeaderEpochError = _code("UnknownLeaderEpochError", 75, InvalidMetadataError)
UnsupportedCompressionTypeError = _code("UnsupportedCompressionTypeError", 76)
StaleBrokerEpochError = _code("StaleBrokerEpochError", 77)
OffsetNotAvailableError = _code("OffsetNotAvailableError", 78, RetriableError)
MemberIdRequiredError = _code("MemberIdRequiredError", 79)
PreferredLeaderNotAvailableError = _code("PreferredLeaderNotAvailableError", 80, InvalidMetadataError)
GroupMaxSizeReachedError = _code("GroupMaxSizeReachedError", 81)
FencedInstanceIdError = _code("FencedInstanceIdError", 82)
EligibleLeadersNotAvailableError = _code("EligibleLeadersNotAvailableError", 83, InvalidMetadataError)
ElectionNotNeededError = _code("ElectionNotNeededError", 84, InvalidMetadataError)
NoReassignmentInProgressError = _code("NoReassignmentInProgressError", 85)
GroupSubscribedToTopicError = _code("GroupSubscribedToTopicError", 86)
InvalidRecordError = _code("InvalidRecordError", 87)
UnstableOffsetCommitError = _code("UnstableOffsetCommitError", 88, RetriableError)
ThrottlingQuotaExceededError = _code("ThrottlingQuotaExceededError", 89, RetriableError)
ProducerFencedError = _code("ProducerFencedError", 90)
ResourceNotFoundError = _code("ResourceNotFoundError", 91)
DuplicateResourceError = _code("DuplicateResourceError", 92)
UnacceptableCredentialError = _code("UnacceptableCredentialError", 93)
InconsistentVoterSetError = _code("InconsistentVoterSetError", 94)
InvalidUpdateVersionError = _code("InvalidUpdateVersionError", 95)
FeatureUpdateFailedError = _code("FeatureUpdateFailedError", 96)
PrincipalDeserializationFailureError = _code("PrincipalDeserializationFailureError", 97)
SnapshotNotFoundError = _code("SnapshotNotFoundError", 98)
PositionOutOfRangeError = _code("PositionOutOfRangeError", 99)
UnknownTopicIdError = _code("UnknownTopicIdError", 100, InvalidMetadataError)
DuplicateBrokerRegistrationError = _code("DuplicateBrokerRegistrationError", 101)
BrokerIdNotRegisteredError = _code("BrokerIdNotRegisteredError", 102)
InconsistentTopicIdError = _code("InconsistentTopicIdError", 103, InvalidMetadataError)
InconsistentClusterIdError = _code("InconsistentClusterIdError", 104)
TransactionalIdNotFoundError = _code("TransactionalIdNotFoundError", 105)
FetchSessionTopicIdError = _code("FetchSessionTopicIdError", 106, RetriableError)
IneligibleReplicaError = _code("IneligibleReplicaError", 107)
NewLeaderElectedError = _code("NewLeaderElectedError", 108)
OffsetMovedToTieredStorageError = _code("OffsetMovedToTieredStorageError", 109)
FencedMemberEpochError = _code("FencedMemberEpochError", 110)
UnreleasedInstanceIdError = _code("UnreleasedInstanceIdError", 111)
UnsupportedAssignorError = _code("UnsupportedAssignorError", 112)
StaleMemberEpochError = _code("StaleMemberEpochError", 113)
MismatchedEndpointTypeError = _code("MismatchedEndpointTypeError", 114)
UnsupportedEndpointTypeError = _code("UnsupportedEndpointTypeError", 115)
UnknownControllerIdError = _code("UnknownControllerIdError", 116)
UnknownSubscriptionIdError = _code("UnknownSubscriptionIdError", 117)
TelemetryTooLargeError = _code("TelemetryTooLargeError", 118)
InvalidRegistrationError = _code("InvalidRegistrationError", 119)
TransactionAbortableError = _code("TransactionAbortableError", 120)
InvalidRecordStateError = _code("InvalidRecordStateError", 121)
ShareSessionNotFoundError = _code("ShareSessionNotFoundError", 122, RetriableError)
InvalidShareSessionEpochError = _code("InvalidShareSessionEpochError", 123, RetriableError)
FencedStateEpochError = _code("FencedStateEpochError", 124)
InvalidVoterKeyError = _code("InvalidVoterKeyError", 125)
DuplicateVoterError = _code("DuplicateVoterError", 126)
VoterNotFoundError = _code("VoterNotFoundError", 127)

CorruptRecordException = CorruptRecordError
IncompatibleBrokerVersion = UnsupportedVersionError


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Return the class of an error code."""
    return kafka_errors.get(error_code, UnknownError)


_BY_KIND: Mapping[type[client.KohortError], type[client.KohortError]] = {
    KafkaError: KafkaError,
    client.ConfigError: KafkaConfigurationError,
    client.CommitFailedError: CommitFailedError,
    client.NotAssignedError: IllegalStateError,
    client.ClosedError: IllegalStateError,
    client.ConcurrentUseError: IllegalStateError,
    client.NoOffsetError: NoOffsetForPartitionError,
    client.LogTruncatedError: LogTruncationError,
    client.NotKafkaError: KafkaProtocolError,
    client.ProducerFencedError: ProducerFencedError,
    client.TransactionAbortableError: TransactionAbortableError,
    client.TransactionStateError: IllegalStateError,
    client.TransactionTimeoutError: KafkaTimeoutError,
}

_ARGUMENTS = {client.OffsetOutOfRangeError: lambda error: ({TopicPartition(*error.partition): error.position},)}

NAMES = ErrorNames(
    _BY_KIND, kafka_errors, UnknownError, state=IllegalStateError, other=KafkaError, arguments=_ARGUMENTS
)
