"""OAUTHBEARER: tokens and extensions, the two steps of a rejection, and malformed messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security import Secret
from kohort.security.sasl import (
    MAX_TOKEN_BYTES,
    ClientDone,
    ClientFailed,
    Done,
    Failed,
    InvalidToken,
    OAuthBearerClient,
    OAuthBearerServer,
    Send,
    ValidToken,
    check_extensions,
    check_token,
)
from tests.security.sasl.conversation import converse

TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."
EXTENSIONS = {"logicalCluster": "lkc-1", "identityPoolId": "pool a"}


def server(outcome: ValidToken | InvalidToken, seen: list[object] | None = None) -> OAuthBearerServer:
    def validate(token: str, extensions: dict[str, str]) -> ValidToken | InvalidToken:
        if seen is not None:
            seen.append((token, extensions))
        return outcome

    return OAuthBearerServer(validate)


def test_a_valid_token_authenticates_with_its_extensions() -> None:
    seen: list[object] = []
    asked = OAuthBearerClient(Secret(TOKEN), EXTENSIONS)
    assert asked.start().startswith(b"n,,\x01auth=Bearer eyJ")
    assert asked.start().endswith(b"\x01logicalCluster=lkc-1\x01identityPoolId=pool a\x01\x01")
    assert converse(asked, server(ValidToken("alice", 5_000), seen)) == (
        ClientDone(),
        Done("alice", expires_at_ms=5_000),
    )
    assert seen == [(TOKEN, EXTENSIONS)]


def test_a_rejection_has_two_steps_and_fails_for_both() -> None:
    asked, theirs = OAuthBearerClient(Secret(TOKEN)), server(InvalidToken("it expired", scope="kafka"))
    rejected = theirs.receive(asked.start())
    assert rejected == Send(b'{"status":"invalid_token","scope":"kafka"}')
    assert asked.receive(rejected.token) == Send(b"\x01")
    assert asked.rejection == "the server rejected the token: 'invalid_token', it requires the scope 'kafka'"
    end = theirs.receive(b"\x01")
    assert isinstance(end, Failed) and end.reason == "it expired"
    # A server that then claims success is not believed.
    assert isinstance(asked.receive(b""), ClientFailed)


@pytest.mark.parametrize("answer", [b"no json", b"[1]", b"{}", b'{"status": 5}', b"[" * 20_000, b"\xff\x1b[31m"])
def test_the_client_copes_with_any_rejection(answer: bytes) -> None:
    asked = OAuthBearerClient(Secret(TOKEN))
    asked.start()
    assert asked.receive(answer) == Send(b"\x01")
    step = asked.receive(b"")
    assert isinstance(step, ClientFailed)
    assert len(step.reason) < 600 and step.reason.isprintable()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic eyJ\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01key=value\x01\x01",
        b"n,,\x01auth=Bearer eyJ\x01auth=Bearer eyJ\x01\x01",
        b"n,,\x01auth=Bearer eyJ\x01a1=x\x01\x01",
        b"n,,\x01auth=Bearer eyJ\x01a=\xff\x01\x01",
        b"n,,\x01auth=Bearer eyJ\x01\x01more",
        b"y,,\x01auth=Bearer eyJ\x01\x01",
        b"n,a=bob,\x01auth=Bearer eyJ\x01\x01",
        b"n,,\x01auth=Bearer " + b"e" * MAX_TOKEN_BYTES + b"\x01\x01",
    ],
)
def test_a_malformed_message_fails(message: bytes) -> None:
    theirs = server(ValidToken("alice", None))
    assert isinstance(theirs.receive(message), Send)
    assert isinstance(theirs.receive(b"\x01"), Failed)


def test_a_client_may_name_itself() -> None:
    assert server(ValidToken("a,b", None)).receive(b"n,a=a=2Cb,\x01auth=bearer eyJ\x01\x01") == Done("a,b")


@given(st.binary(max_size=80))
def test_no_garbage_gets_in(message: bytes) -> None:
    assert isinstance(server(ValidToken("alice", None)).receive(message), Send)


@pytest.mark.parametrize("token", ["", "abc xyz", "abc\nxyz", "abc\x01xyz", "größe", "a" * MAX_TOKEN_BYTES])
def test_tokens_that_cannot_be_sent_are_named(token: str) -> None:
    problem = check_token(token)
    assert problem is not None and (not token or token not in problem)
    assert check_token(TOKEN) is None


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "x\x01"}, {"a": "ö"}])
def test_extensions_that_cannot_be_sent_are_named(extensions: dict[str, str]) -> None:
    assert check_extensions(extensions) is not None
    assert check_extensions(EXTENSIONS) is None
