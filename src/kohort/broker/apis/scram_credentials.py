"""DescribeUserScramCredentials and AlterUserScramCredentials: the users of SCRAM (KIP-554).

Changes are durable when the answer is sent. A request changes at most one credential of a user, and each user is
changed independently of the others.
"""

from collections import Counter
from typing import Protocol

from kohort.broker.logs import DiskErrors, Leadership
from kohort.broker.net import Call
from kohort.broker.security import ScramCredentials
from kohort.errors import ErrorCode, KafkaError
from kohort.security.sasl import MAX_STORED_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    leadership: Leadership
    scram_credentials: ScramCredentials


def describe(broker: Dependencies, call: Call, request: DescribeUserScramCredentialsRequest) -> None:
    """Return the mechanisms and iterations of the named users, or of all; never salts or keys."""
    known = broker.scram_credentials.users()
    named = Counter(user.name for user in request.users or ()) or Counter(known.keys())
    results = []
    for user, times in named.items():
        if times > 1:
            results.append(_described_error(user, ErrorCode.DUPLICATE_RESOURCE, "The request names the user twice."))
        elif not known.get(user):
            results.append(_described_error(user, ErrorCode.RESOURCE_NOT_FOUND, "The user has no SCRAM credential."))
        else:
            infos = [
                CredentialInfo(mechanism=mechanism.number, iterations=credential.iterations)
                for mechanism, credential in known[user].items()
            ]
            results.append(DescribeUserScramCredentialsResult(user=user, error_message="", credential_infos=infos))
    call.reply(DescribeUserScramCredentialsResponse(error_message="", results=results))  # not null, as in Kafka


def _described_error(user: str, code: ErrorCode, sentence: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=sentence)


def alter(broker: Dependencies, call: Call, request: AlterUserScramCredentialsRequest) -> None:
    """Set and delete credentials."""
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    named = Counter(change.name for change in changes)
    results = {}
    for change in changes:
        user = change.name
        if user in results:
            continue
        code, sentence = ErrorCode.NONE, None
        try:
            # A second change is an error, unless the first one is: then its error is returned.
            _check(broker, change)
            if named[user] > 1:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, "The request changes the user twice.")
            _apply(broker, change)
        except KafkaError as error:
            code, sentence = error.code, error.sentence
        except OSError as error:
            broker.disk_errors.note(f"keep the credentials of {user}", error)
            code, sentence = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        results[user] = AlterUserScramCredentialsResult(user=user, error_code=code, error_message=sentence)
    call.reply(AlterUserScramCredentialsResponse(results=list(results.values())))


def _check(broker: Dependencies, change: _Change) -> None:
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The name of a user cannot be empty.")
    mechanism = ScramMechanism.numbered(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"SCRAM mechanism {change.mechanism} is unknown.")
    if isinstance(change, ScramCredentialUpsertion):
        if not MIN_ITERATIONS <= change.iterations <= MAX_STORED_ITERATIONS:
            limits = f"from {MIN_ITERATIONS} to {MAX_STORED_ITERATIONS}"
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The number of iterations must be {limits}.")
        if not change.salt or not change.salted_password:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A credential needs a salt and a salted password.")
        return
    broker.leadership.catch_up()
    if broker.scram_credentials.credential(change.name, mechanism) is None:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"The user has no credential for {mechanism.value}.")


def _apply(broker: Dependencies, change: _Change) -> None:
    mechanism = ScramMechanism.numbered(change.mechanism)
    assert mechanism is not None
    if isinstance(change, ScramCredentialDeletion):
        broker.scram_credentials.change(change.name, [mechanism], {})
        return
    broker.leadership.catch_up()
    salted, salt = bytes(change.salted_password), bytes(change.salt)
    credential = ScramCredential.from_salted_password(mechanism, salted, salt, change.iterations)
    broker.scram_credentials.change(change.name, [], {mechanism: credential})
