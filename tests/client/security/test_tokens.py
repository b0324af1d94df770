"""Tokens for OAUTHBEARER: from an endpoint over HTTP, a file or a provider; kept for 80 % of their life."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from kohort import ConfigError, KafkaError
from kohort.client import AuthenticationError, ClientOptions
from kohort.client.security.tokens import Tokens
from tests.client.security.authorities import unsecured_token


class Endpoint:
    """A token endpoint. `answers` has the next ones: a status and a body."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                authorization = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                endpoint.requests.append((authorization, parse_qs(body)))
                status, answer = endpoint.answers.pop(0)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Keep stderr quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"

    def give(self, token: str, life_s: float | None = 3600) -> None:
        answer = {"access_token": token, "token_type": "Bearer"} | ({} if life_s is None else {"expires_in": life_s})
        self.answers.append((200, json.dumps(answer).encode()))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def tokens(**given: Any) -> Tokens:
    common = {"bootstrap_servers": "a:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    return Tokens(ClientOptions.read(common | given), "a:1")


def of(endpoint: Endpoint, **given: Any) -> Tokens:
    given = {"sasl_oauth_client_id": "me", "sasl_oauth_client_secret": "hunter-2"} | given
    return tokens(sasl_oauth_token_endpoint_url=endpoint.url, **given)


async def test_client_credentials_get_a_token(endpoint: Endpoint) -> None:
    endpoint.give("first")
    source = of(endpoint, sasl_oauth_scope="kafka")
    token = await source.token()
    assert token.text.reveal() == "first"
    assert token.expires_at_ms is not None and 3590 < token.expires_at_ms / 1000 - time.time() <= 3600
    assert endpoint.requests == [("me:hunter-2", {"grant_type": ["client_credentials"], "scope": ["kafka"]})]
    assert await source.token() is source.token_now() is token  # kept
    assert len(endpoint.requests) == 1


def test_a_secret_that_is_sent_without_tls_is_a_warning(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    of(endpoint)
    assert caplog.text == "", "it does not leave this machine"
    tokens(
        sasl_oauth_token_endpoint_url="http://issuer.example.com:8080/token",
        sasl_oauth_client_id="me",
        sasl_oauth_client_secret="hunter-2",
    )
    assert "sent to the token endpoint issuer.example.com without TLS" in caplog.text
    assert "hunter-2" not in caplog.text


async def test_a_token_is_renewed_before_it_ends(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    source = of(endpoint)
    endpoint.give("first", 1000)
    await source.token()
    source._refresh_at -= 801  # as if 80 % of its life were over
    endpoint.give("second", 1000)
    assert (await source.token()).text.reveal() == "second"


async def test_the_present_token_serves_while_the_endpoint_is_down(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    source = of(endpoint)
    endpoint.give("first", 1000)
    await source.token()
    source._refresh_at -= 801
    endpoint.answers.append((503, b""))
    assert (await source.token()).text.reveal() == "first"
    assert "the present one is used until it ends" in caplog.text


@pytest.mark.parametrize(
    ("answer", "retriable", "sentence"),
    [
        (
            (401, b'{"error": "invalid_client"}'),
            False,
            r"answered 401 \('invalid_client'\): check sasl_oauth_client_id",
        ),
        ((503, b"later"), True, "answered 503"),
        ((302, b""), False, "answered 302"),
        ((200, b"<html>"), False, "did not answer with an access_token"),
        ((200, b'{"access_token": 7}'), False, "did not answer with an access_token"),
        ((200, b'{"access_token": "a", "expires_in": "soon"}'), False, "did not answer with an access_token"),
        ((200, b'{"access_token": "' + b"a" * (2 << 20) + b'"}'), False, "did not answer with an access_token"),
        ((200, b'{"access_token": "a b"}'), False, "cannot be sent"),
        ((200, b'{"access_token": "a", "expires_in": -5}'), False, "has expired"),
    ],
)
async def test_an_endpoint_that_gives_no_token_is_explained(
    endpoint: Endpoint, answer: tuple[int, bytes], retriable: bool, sentence: str
) -> None:
    endpoint.answers.append(answer)
    with pytest.raises(KafkaError, match=sentence) as refused:
        await of(endpoint).token()
    assert refused.value.retriable is retriable
    assert "hunter" not in str(refused.value)
    assert len(endpoint.requests) == 1  # the secret does not follow a redirect


async def test_an_endpoint_that_is_down_may_come_back() -> None:
    source = tokens(
        sasl_oauth_token_endpoint_url="http://127.0.0.1:1/token", sasl_oauth_client_id="a", sasl_oauth_client_secret="b"
    )
    with pytest.raises(KafkaError, match=r"127.0.0.1 cannot be reached: .*refused") as refused:
        await source.token()
    assert refused.value.retriable


async def test_a_token_in_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "to ken"
    source = tokens(sasl_oauth_token_endpoint_url=file.as_uri())
    with pytest.raises(KafkaError, match="cannot be read: No such file"):
        await source.token()
    file.write_text("one\n")
    assert (await source.token()).text.reveal() == "one"
    file.write_text("two\n")  # the end of the first is not known
    assert (await source.token()).text.reveal() == "two"


async def test_providers_may_be_functions_or_objects_and_may_be_async() -> None:
    ends = int(time.time() * 1000) + 60_000

    async def later() -> tuple[str, int]:
        return "later", ends

    class Provider:
        def token(self) -> str:
            return "object"

    class AsyncProvider:
        async def token(self) -> str:
            return "async-object"

    found = []
    for provider in (lambda: "function", later, Provider(), AsyncProvider()):
        found.append((await tokens(sasl_oauth_token_provider=provider).token()).text.reveal())
    assert found == ["function", "later", "object", "async-object"]


async def test_the_end_of_a_json_web_token_is_read_from_it() -> None:
    calls = []

    def provide() -> str:
        calls.append(1)
        return unsecured_token("alice", 60)

    source = tokens(sasl_oauth_token_provider=provide)
    token = await source.token()
    assert token.expires_at_ms is not None and 50 < token.expires_at_ms / 1000 - time.time() <= 60
    assert await source.token() is token and len(calls) == 1
    with pytest.raises(AuthenticationError, match="has expired"):
        await tokens(sasl_oauth_token=unsecured_token("alice", -60)).token()


async def test_a_provider_that_fails_does_not_reveal_why_in_the_sentence() -> None:
    def provide() -> str:
        raise ValueError("hunter-2 is wrong")

    with pytest.raises(AuthenticationError, match="sasl_oauth_token_provider failed with ValueError") as refused:
        await tokens(sasl_oauth_token_provider=provide).token()
    assert "hunter" not in str(refused.value)
    with pytest.raises(AuthenticationError, match="must return a token as text"):
        await tokens(sasl_oauth_token_provider=lambda: 7).token()


async def test_amazons_signer_is_named_when_it_is_missing() -> None:
    with pytest.raises(ConfigError, match="AWS_MSK_IAM needs sasl_aws_region"):
        await tokens(sasl_mechanism="AWS_MSK_IAM").token()
