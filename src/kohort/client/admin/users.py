"""SCRAM credentials of users (KIP-554)."""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass

from kohort.client.arguments import whole_number
from kohort.client.net import Cluster
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.requests import check
from kohort.security import Secret
from kohort.security.sasl import MAX_STORED_ITERATIONS, MIN_ITERATIONS, ScramMechanism, salt_of
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

_SALT_BYTES = 32


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """Mechanism and number of iterations of a stored credential."""

    mechanism: ScramMechanism
    iterations: int = MIN_ITERATIONS


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """Credential to set. The client salts the password, so the broker never receives it."""

    user: str
    credential_info: ScramCredentialInfo
    password: Secret | str | bytes
    salt: bytes | None = None
    """None for a random one, which is best."""

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user!r}, {self.credential_info}, [hidden])"


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """Credential to delete."""

    user: str
    mechanism: ScramMechanism


UserScramCredentialAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


async def describe_user_scram_credentials(
    cluster: Cluster, users: Iterable[str] | None
) -> dict[str, list[ScramCredentialInfo]]:
    """Return the credentials of these users, or of all. Mechanisms unknown to this client are omitted."""
    named = None if users is None else [UserName(name=user) for user in dict.fromkeys(users)]
    if named == []:
        return {}  # to a broker, no name means all users
    request = DescribeUserScramCredentialsRequest(users=named)
    response = await cluster.retrying(lambda: cluster.ask_any(request, DescribeUserScramCredentialsResponse))
    check(response.error_code, "", response.error_message)
    found: dict[str, list[ScramCredentialInfo]] = {}
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"{result.user}: the user has no SCRAM credential")
        check(result.error_code, result.user, result.error_message)
        known = [(ScramMechanism.numbered(info.mechanism), info.iterations) for info in result.credential_infos]
        found[result.user] = [ScramCredentialInfo(mechanism, each) for mechanism, each in known if mechanism]
    return dict(sorted(found.items()))


async def alter_user_scram_credentials(cluster: Cluster, alterations: Iterable[UserScramCredentialAlteration]) -> None:
    """Set and delete credentials. Raises the first error of a request after its other users are changed."""
    for some in _rounds(alterations):
        request = await asyncio.to_thread(_request, some)  # salting a password takes milliseconds
        response = await _alter(cluster, request)
        for result in response.results:
            check(result.error_code, result.user, result.error_message)


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    return await cluster.retrying(lambda: cluster.ask_any(request, AlterUserScramCredentialsResponse))


def _rounds(alterations: Iterable[UserScramCredentialAlteration]) -> list[list[UserScramCredentialAlteration]]:
    """Divide the alterations into requests: a broker takes one alteration of a user in a request."""
    rounds: list[list[UserScramCredentialAlteration]] = []
    seen: dict[str, int] = {}
    for alteration in alterations:
        if isinstance(alteration, UserScramCredentialUpsertion):
            whole_number("iterations", alteration.credential_info.iterations, MIN_ITERATIONS)
            if alteration.credential_info.iterations > MAX_STORED_ITERATIONS:
                raise ConfigError(f"iterations must be at most {MAX_STORED_ITERATIONS}.")
            if not alteration.password:
                raise ConfigError("The password cannot be empty.")
        number = seen.get(alteration.user, 0)
        seen[alteration.user] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(alteration)
    return rounds


def _request(alterations: list[UserScramCredentialAlteration]) -> AlterUserScramCredentialsRequest:
    request = AlterUserScramCredentialsRequest()
    for alteration in alterations:
        if isinstance(alteration, UserScramCredentialDeletion):
            request.deletions.append(
                ScramCredentialDeletion(name=alteration.user, mechanism=alteration.mechanism.number)
            )
            continue
        mechanism, iterations = alteration.credential_info.mechanism, alteration.credential_info.iterations
        password = alteration.password if isinstance(alteration.password, Secret) else Secret(alteration.password)
        salt = alteration.salt or salt_of(os.urandom(_SALT_BYTES))
        salted = mechanism.salted_password(password.reveal_bytes(), salt, iterations)
        request.upsertions.append(
            ScramCredentialUpsertion(
                name=alteration.user,
                mechanism=mechanism.number,
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
        )
    return request
