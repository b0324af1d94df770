"""Errors of aiokafka.

What the adapter raises is an instance of one of these and of Kohort's own class, such as
`kohort.KafkaError` or `kohort.ConfigError`. Names and hierarchy are those of aiokafka 0.14.
"""

from collections.abc import Mapping

from kohort import client
from kohort.compat import ErrorNames
from kohort.compat.aiokafka.structs import TopicPartition


class KafkaError(client.KohortError, RuntimeError):
    """Base of most errors."""

    retriable: bool = False
    invalid_metadata: bool = False

    def __str__(self) -> str:
        return f"{type(self).__name__}: {super().__str__()}" if self.args else type(self).__name__


class ConsumerStoppedError(client.KohortError):
    """Use of a consumer after `stop`."""


class IllegalOperation(client.KohortError):
    """Call that the options of the client do not allow."""


class IllegalStateError(KafkaError):
    """Call that the state of the client does not allow."""


class IllegalArgumentError(KafkaError):
    """Invalid argument."""


class NoBrokersAvailable(KafkaError):
    """No broker that answers."""

    retriable = True


class NodeNotReadyError(KafkaError):
    """Broker that is not connected."""

    retriable = True


class KafkaProtocolError(KafkaError):
    """Peer that does not speak the protocol."""

    retriable = True


class Cancelled(KafkaError):
    """Operation that was cancelled."""

    retriable = True


class CommitFailedError(KafkaError):
    """Commit that the group rejected."""


class AuthenticationMethodNotSupported(KafkaError):
    """SASL mechanism that the broker does not offer."""


class AuthenticationFailedError(KafkaError):
    """Rejected user, password or certificate."""


class KafkaUnavailableError(KafkaError):
    """Cluster that cannot be reached."""


class KafkaTimeoutError(KafkaError):
    """Operation that took too long."""


class KafkaConnectionError(KafkaError):
    """Connection that failed."""

    retriable = True


class UnsupportedCodecError(KafkaError):
    """Unknown compression."""


class KafkaConfigurationError(KafkaError):
    """Invalid option."""


class NoOffsetForPartitionError(KafkaError):
    """Partition without an offset while auto_offset_reset is "none"."""


class RecordTooLargeError(KafkaError):
    """Record that is too large to fetch."""


class ProducerClosed(KafkaError):
    """Use of a producer after `stop`."""


class ProducerFenced(KafkaError):
    """Producer whose transactional id another producer uses."""


class BrokerResponseError(KafkaError):
    """Error code of a broker. `errno` is its number, and `message` its name."""

    errno: int
    message: str
    description: str | None = None

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


kafka_errors: dict[int, type[BrokerResponseError]] = {}
"""Class of each error code that aiokafka names."""


def _code(name: str, errno: int, *bases: type[KafkaError]) -> type[BrokerResponseError]:
    code = client.ErrorCode(errno)
    values = {
        "errno": errno,
        "message": code.name,
        "description": code.sentence,
        "retriable": code.retriable,
        "__module__": __name__,
    }
    kind: type[BrokerResponseError] = type(name, (*bases, BrokerResponseError), values)
    kafka_errors[errno] = kind
    return kind


UnknownError = _code("UnknownError", -1)
NoError = _code("NoError", 0)
OffsetOutOfRangeError = _code("OffsetOutOfRangeError", 1)
CorruptRecordException = _code("CorruptRecordException", 2)
UnknownTopicOrPartitionError = _code("UnknownTopicOrPartitionError", 3)
InvalidFetchRequestError = _code("InvalidFetchRequestError", 4)
LeaderNotAvailableError = _code("LeaderNotAvailableError", 5)
NotLeaderForPartitionError = _code("NotLeaderForPartitionError", 6)
RequestTimedOutError = _code("RequestTimedOutError", 7, KafkaTimeoutError)
BrokerNotAvailableError = _code("BrokerNotAvailableError", 8)
ReplicaNotAvailableError = _code("ReplicaNotAvailableError", 9)
MessageSizeTooLargeError = _code("MessageSizeTooLargeError", 10)
StaleControllerEpochError = _code("StaleControllerEpochError", 11)
OffsetMetadataTooLargeError = _code("OffsetMetadataTooLargeError", 12)
StaleLeaderEpochCodeError = _code("StaleLeaderEpochCodeError", 13)
GroupLoadInProgressError = _code("GroupLoadInProgressError", 14)
GroupCoordinatorNotAvailableError = _code("GroupCoordinatorNotAvailableError", 15)
NotCoordinatorForGroupError = _code("NotCoordinatorForGroupError", 16)
InvalidTopicError = _code("InvalidTopicError", 17)
RecordListTooLargeError = _code("RecordListTooLargeError", 18)
NotEnoughReplicasError = _code("NotEnoughReplicasError", 19)
NotEnoughReplicasAfterAppendError = _code("NotEnoughReplicasAfterAppendError", 20)
InvalidRequiredAcksError = _code("InvalidRequiredAcksError", 21)
IllegalGenerationError = _code("IllegalGenerationError", 22)
InconsistentGroupProtocolError = _code("InconsistentGroupProtocolError", 23)
InvalidGroupIdError = _code("InvalidGroupIdError", 24)
UnknownMemberIdError = _code("UnknownMemberIdError", 25)
InvalidSessionTimeoutError = _code("InvalidSessionTimeoutError", 26)
RebalanceInProgressError = _code("RebalanceInProgressError", 27)
InvalidCommitOffsetSizeError = _code("InvalidCommitOffsetSizeError", 28)
TopicAuthorizationFailedError = _code("TopicAuthorizationFailedError", 29)
GroupAuthorizationFailedError = _code("GroupAuthorizationFailedError", 30)
ClusterAuthorizationFailedError = _code("ClusterAuthorizationFailedError", 31)
InvalidTimestampError = _code("InvalidTimestampError", 32)
UnsupportedSaslMechanismError = _code("UnsupportedSaslMechanismError", 33)
IllegalSaslStateError = _code("IllegalSaslStateError", 34)
UnsupportedVersionError = _code("UnsupportedVersionError", 35)
TopicAlreadyExistsError = _code("TopicAlreadyExistsError", 36)
InvalidPartitionsError = _code("InvalidPartitionsError", 37)
InvalidReplicationFactorError = _code("InvalidReplicationFactorError", 38)
InvalidReplicationAssignmentError = _code("InvalidReplicationAssignmentError", 39)
InvalidConfigurationError = _code("InvalidConfigurationError", 40)
NotControllerError = _code("NotControllerError", 41)
InvalidRequestError = _code("InvalidRequestError", 42)
UnsupportedForMessageFormatError = _code("UnsupportedForMessageFormatError", 43)
PolicyViolationError = _code("PolicyViolationError", 44)
OutOfOrderSequenceNumber = _code("OutOfOrderSequenceNumber", 45)
DuplicateSequenceNumber = _code("DuplicateSequenceNumber", 46)
InvalidProducerEpoch = _code("InvalidProducerEpoch", 47)
InvalidTxnState = _code("InvalidTxnState", 48)
InvalidProducerIdMapping = _code("InvalidProducerIdMapping", 49)
InvalidTransactionTimeout = _code("InvalidTransactionTimeout", 50)
ConcurrentTransactions = _code("ConcurrentTransactions", 51)
TransactionCoordinatorFenced = _code("TransactionCoordinatorFenced", 52)
TransactionalIdAuthorizationFailed = _code("TransactionalIdAuthorizationFailed", 53)
SecurityDisabled = _code("SecurityDisabled", 54)
OperationNotAttempted = _code("OperationNotAttempted", 55)
KafkaStorageError = _code("KafkaStorageError", 56)
LogDirNotFound = _code("LogDirNotFound", 57)
SaslAuthenticationFailed = _code("SaslAuthenticationFailed", 58)
UnknownProducerId = _code("UnknownProducerId", 59)
ReassignmentInProgress = _code("ReassignmentInProgress", 60)
DelegationTokenAuthDisabled = _code("DelegationTokenAuthDisabled", 61)
DelegationTokenNotFound = _code("DelegationTokenNotFound", 62)
DelegationTokenOwnerMismatch = _code("DelegationTokenOwnerMismatch", 63)
DelegationTokenRequestNotAllowed = _code("DelegationTokenRequestNotAllowed", 64)
DelegationTokenAuthorizationFailed = _code("DelegationTokenAuthorizationFailed", 65)
DelegationTokenExpired = _code("DelegationTokenExpired", 66)
InvalidPrincipalType = _code("InvalidPrincipalType", 67)
NonEmptyGroup = _code("NonEmptyGroup", 68)
GroupIdNotFound = _code("GroupIdNotFound", 69)
FetchSessionIdNotFound = _code("FetchSessionIdNotFound", 70)
InvalidFetchSessionEpoch = _code("InvalidFetchSessionEpoch", 71)
ListenerNotFound = _code("ListenerNotFound", 72)
MemberIdRequired = _code("MemberIdRequired", 79)


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Return the class of an error code."""
    return kafka_errors.get(error_code, UnknownError)


_BY_KIND: Mapping[type[client.KohortError], type[client.KohortError]] = {
    KafkaError: KafkaError,
    ConsumerStoppedError: ConsumerStoppedError,
    IllegalOperation: IllegalOperation,
    client.ConfigError: KafkaConfigurationError,
    client.CommitFailedError: CommitFailedError,
    client.NotAssignedError: IllegalStateError,
    client.ClosedError: IllegalStateError,
    client.ConcurrentUseError: IllegalStateError,
    client.NoOffsetError: NoOffsetForPartitionError,
    client.LogTruncatedError: OffsetOutOfRangeError,
    client.NotKafkaError: KafkaConnectionError,
    client.AuthenticationError: AuthenticationFailedError,
    client.ProducerFencedError: ProducerFenced,
    client.TransactionStateError: IllegalOperation,
    client.TransactionTimeoutError: KafkaTimeoutError,
}

_BY_CODE = {**kafka_errors, client.ErrorCode.NETWORK_EXCEPTION: KafkaConnectionError}

_ARGUMENTS = {client.OffsetOutOfRangeError: lambda error: ({TopicPartition(*error.partition): error.position},)}

NAMES = ErrorNames(_BY_KIND, _BY_CODE, UnknownError, state=IllegalStateError, other=KafkaError, arguments=_ARGUMENTS)
