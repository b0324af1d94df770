"""DescribeUserScramCredentials and AlterUserScramCredentials, and the logins that they allow."""

import asyncio
from collections.abc import Mapping

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import MemoryStore
from kohort.security.sasl import ScramMechanism
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
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, talking_to
from tests.broker.security.test_sasl import authenticate, client_of, handshake

SECURED = {
    **QUICK,
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "connection.failed.authentication.delay.ms": "0",
}
SALT = b"salt"


def upsertion(user: str, password: str) -> ScramCredentialUpsertion:
    mechanism = ScramMechanism.SHA_512
    salted = mechanism.salted_password(password.encode(), SALT, 4096)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism.number, iterations=4096, salt=SALT, salted_password=salted
    )


def deletion(user: str) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=ScramMechanism.SHA_512.number)


async def alter(
    peer: Peer, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    answer = await peer.ask(request, 0, AlterUserScramCredentialsResponse)
    return {result.user: (result.error_code, result.error_message) for result in answer.results}


async def describe(peer: Peer, *users: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
    answer = await peer.ask(request, 0, DescribeUserScramCredentialsResponse)
    assert answer.error_code == 0
    return {
        result.user: (result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos])
        for result in answer.results
    }


async def login(broker: Broker, user: str, password: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.endpoints["SASL_PLAINTEXT"].port)
    peer = Peer(reader, writer)
    await handshake(peer, "SCRAM-SHA-512")
    answer = await authenticate(peer, client_of("SCRAM-SHA-512", user, password))
    writer.close()
    return answer.error_code


async def test_a_user_logs_in_with_the_last_password_until_deleted(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(settings=SECURED))
    async with talking_to(broker) as peer:
        assert await login(broker, "alice", "first") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await alter(peer, upsertion("alice", "first")) == {"alice": (0, None)}
        assert await login(broker, "alice", "first") == ErrorCode.NONE
        assert await alter(peer, upsertion("alice", "second")) == {"alice": (0, None)}
        assert await login(broker, "alice", "first") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await login(broker, "alice", "second") == ErrorCode.NONE
        assert await alter(peer, deletion("alice")) == {"alice": (0, None)}
        assert await login(broker, "alice", "second") == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_each_user_of_a_request_has_a_result_of_its_own(broker: Broker) -> None:
    async with talking_to(broker) as peer:
        changes = (upsertion("alice", "a"), upsertion("bob", "b"), upsertion("bob", "c"), deletion("carol"))
        results = await alter(peer, *changes)
        codes = {user: code for user, (code, _) in results.items()}
        assert codes == {
            "alice": ErrorCode.NONE,
            "bob": ErrorCode.DUPLICATE_RESOURCE,
            "carol": ErrorCode.RESOURCE_NOT_FOUND,
        }
        assert await describe(peer) == {"alice": (0, [(2, 4096)])}
        assert await describe(peer, "bob", "alice") == {
            "bob": (ErrorCode.RESOURCE_NOT_FOUND, []),
            "alice": (0, [(2, 4096)]),
        }


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"name": ""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"mechanism": 3}, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ({"iterations": 4095}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16385}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salt": b""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": b""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
    ids=str,
)
async def test_a_bad_credential_is_refused(broker: Broker, changed: Mapping[str, object], code: ErrorCode) -> None:
    change = upsertion("alice", "a")
    for name, value in changed.items():
        setattr(change, name, value)
    async with talking_to(broker) as peer:
        (result,) = (await alter(peer, change)).values()
        assert result[0] == code
        assert await describe(peer) == {}


async def test_a_full_disk_is_an_error_and_changes_nothing(
    start_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    broker = await start_broker(BrokerOptions(settings=SECURED), store)

    def full(kind: str, name: str, configs: Mapping[str, str]) -> None:
        raise OSError(28, "No space left on device")

    async with talking_to(broker) as peer:
        with monkeypatch.context() as patch:
            patch.setattr(store, "keep_configs", full)
            results = await alter(peer, upsertion("alice", "a"))
        assert results["alice"][0] == ErrorCode.KAFKA_STORAGE_ERROR
        assert await describe(peer) == {}
        assert await alter(peer, upsertion("alice", "a")) == {"alice": (0, None)}
