"""OAUTHBEARER: which tokens get in, and where the keys that verify them come from."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
import time
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import ECKey, OctKey

from kohort import Admin
from kohort.broker import Broker, BrokerOptions
from kohort.errors import ConfigError, ErrorCode
from kohort.security import Secret
from kohort.security.sasl import OAuthBearerClient
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import talking_to, until
from tests.broker.security.issuer import AUDIENCE, ISSUER, Issuer, new_key, running_issuer, token
from tests.broker.security.test_sasl import handshake


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        yield made


def settings(url: str, **more: str) -> dict[str, str]:
    oauth = {"expected.audience": AUDIENCE, "expected.issuer": ISSUER, "jwks.endpoint.url": url, **more}
    return {
        **QUICK,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
        **{f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in oauth.items()},
    }


async def login(broker: Broker, bearer: str) -> SaslAuthenticateResponse:
    async with talking_to(broker) as peer:
        await handshake(peer, "OAUTHBEARER")
        client = OAuthBearerClient(Secret(bearer))
        answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=client.start()), 2, SaslAuthenticateResponse)
        if answer.auth_bytes:
            answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2, SaslAuthenticateResponse)
            assert await peer.closed()
        else:
            assert [connection.principal for connection in broker.sockets] == ["User:alice"]
        return answer


async def test_a_token_of_the_issuer_gets_in_until_it_expires(start_broker: MakeBroker, issuer: Issuer) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    answer = await login(broker, token(issuer.keys[0]))
    assert answer.error_code == 0
    assert 590_000 < answer.session_lifetime_ms <= 600_000


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"])
async def test_public_keys_of_each_kind_are_known(start_broker: MakeBroker, issuer: Issuer, algorithm: str) -> None:
    issuer.keys = [new_key("mine", algorithm), new_key("other")]
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library, which signs with EdDSA under its old name
        bearer = token(issuer.keys[0], algorithm)
    assert (await login(broker, bearer)).error_code == 0


def unsigned(**header: Any) -> str:
    parts = ({"typ": "JWT", **header}, {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": 0, "exp": 2_000_000_000})
    return ".".join(encoded(json.dumps(part).encode()) for part in parts) + "."


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_with_the_public_key(key: ECKey) -> str:
    text = unsigned(alg="HS256", kid="first").removesuffix(".")
    return f"{text}.{encoded(hmac.digest(key.as_pem(private=False), text.encode(), hashlib.sha256))}"


HOUR = 3600
REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "expired": ({"exp": time.time() - HOUR}, "has expired"),
    "without an end": ({"exp": None}, "does not contain its time of issue"),
    "with an end that is no number": ({"exp": "never"}, "does not contain its time of issue"),
    "with an infinite end": ({"exp": float("inf")}, "does not contain its time of issue"),
    "without its time of issue": ({"iat": None}, "does not contain its time of issue"),
    "issued in the future": ({"iat": time.time() + HOUR}, "is not valid yet"),
    "not valid yet": ({"nbf": time.time() + HOUR}, "is not valid yet"),
    "for another audience": ({"aud": "others"}, "for another audience: 'others'"),
    "without an audience": ({"aud": None}, "for another audience: None"),
    "of another issuer": ({"iss": "https://others.example.com"}, "from another issuer"),
    "that names nobody": ({"sub": None}, "names nobody"),
    "whose name is blank": ({"sub": " "}, "names nobody"),
    "whose name is no text": ({"sub": 7}, "names nobody"),
    "with a scope that is no text": ({"scope": 7}, "is not a list of scopes"),
}


@pytest.mark.parametrize(("claims", "reason"), REJECTED.values(), ids=REJECTED)
async def test_a_token_with_wrong_claims_is_rejected(
    start_broker: MakeBroker,
    issuer: Issuer,
    claims: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    bearer = token(issuer.keys[0], **claims)
    answer = await login(broker, bearer)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        '{"status":"invalid_token"}',
    )
    assert reason in caplog.text and bearer not in caplog.text


async def test_a_token_that_its_issuer_did_not_sign_is_rejected(
    start_broker: MakeBroker, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    (key,) = issuer.keys
    assert isinstance(key, ECKey)
    good = token(key)
    secret = OctKey.import_key("s" * 64, {"kid": "first"})
    forged = {
        "the algorithm 'none'": unsigned(alg="none"),
        "the algorithm 'None'": unsigned(alg="None", kid="first"),
        "the algorithm None": unsigned(kid="first"),
        "the algorithm 'HS256'": signed_with_the_public_key(key),
        "the algorithm 'HS512'": token(secret, "HS512"),
        "the algorithm ['ES256']": unsigned(alg=["ES256"]),
        "cannot be verified": token(new_key("first")),
        "0 keys of the token issuer fit": token(new_key("first", "RS256"), "RS256"),
        "no key 'unknown'": token(new_key("unknown")),
        "is not a signed JSON Web Token": "eyJ",
        "cannot be verified: ": good[:-4],
        "cannot be verified: '": f"{good.rpartition('.')[0]}.",
    }
    for reason, bearer in forged.items():
        caplog.clear()
        assert (await login(broker, bearer)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert reason in caplog.text and bearer not in caplog.text
    for large in ("a" * 70_000 + ".b.c", encoded(b"[" * 3000) + ".b.c"):
        assert (await login(broker, large)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (await login(broker, good)).error_code == 0


async def test_a_name_is_trimmed(start_broker: MakeBroker, issuer: Issuer) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    assert (await login(broker, token(issuer.keys[0], sub=" \x00alice\n"))).error_code == 0
    assert (await login(broker, token(issuer.keys[0], sub="\x01"))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_clocks_may_differ_a_little(start_broker: MakeBroker, issuer: Issuer) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    now = time.time()
    assert (await login(broker, token(issuer.keys[0], exp=now - 5))).error_code == 0
    assert (await login(broker, token(issuer.keys[0], iat=now + 5, nbf=now + 5))).error_code == 0


async def test_a_new_key_is_read_when_a_token_names_it(
    start_broker: MakeBroker, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    monkeypatch.setattr("kohort.broker.security.key_set._AGAIN_AFTER_S", 0.1)
    issuer.keys = [new_key("second")]
    async with asyncio.timeout(20):
        assert (await login(broker, token(issuer.keys[0]))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await until(lambda: issuer.reads == 2)
        while (await login(broker, token(issuer.keys[0]))).error_code:
            pass


async def test_unknown_keys_do_not_make_the_broker_ask_often(start_broker: MakeBroker, issuer: Issuer) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    for number in range(20):
        await login(broker, token(new_key(f"unknown-{number}")))
    assert issuer.reads == 1


async def test_keys_are_read_again_after_their_interval(start_broker: MakeBroker, issuer: Issuer) -> None:
    await start_broker(BrokerOptions(settings=settings(issuer.jwks_url, jwks_endpoint_refresh_ms="20")))
    await until(lambda: issuer.reads >= 3)


async def test_an_endpoint_that_is_down_keeps_tokens_out_until_it_answers(
    start_broker: MakeBroker, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kohort.broker.security.key_set._AGAIN_AFTER_S", 0.1)
    issuer.status = 503
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    assert "cannot be read (HTTP Error 503: Service Unavailable): all tokens are rejected until they can" in caplog.text
    assert (await login(broker, token(issuer.keys[0]))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    issuer.status = 200
    async with asyncio.timeout(20):
        while (await login(broker, token(issuer.keys[0]))).error_code:
            pass
    issuer.status = 302  # a redirect is not followed
    broker._secured[0].close()
    await broker._secured[0].start()
    assert "the former keys stay in use" in caplog.text
    assert (await login(broker, token(issuer.keys[0]))).error_code == 0


async def test_an_endpoint_that_sends_byte_by_byte_does_not_keep_the_broker_from_starting(
    start_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kohort.broker.security.key_set._TIMEOUT_S", 0.4)
    ended, gone = asyncio.Event(), asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while not ended.is_set():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.05)  # shorter than the timeout of one read
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as endpoint:
        url = f"http://127.0.0.1:{endpoint.sockets[0].getsockname()[1]}/keys"
        broker = await start_broker(BrokerOptions(settings=settings(url)))
        assert "(it has not arrived after 0.4 s): all tokens are rejected until they can" in caplog.text
        assert (await login(broker, token(new_key("first")))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        ended.set()
        await gone.wait()


async def test_headers_that_name_other_keys_or_extensions_are_not_trusted(
    start_broker: MakeBroker, issuer: Issuer
) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    (key,), own = issuer.keys, new_key("first")
    theirs = {
        "jwk": own.as_dict(private=False),
        "jku": "https://evil.example.com/keys",
        "x5u": "https://evil.example.com",
    }
    assert (await login(broker, token(own, header=theirs))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert isinstance(key, ECKey)
    assert (await login(broker, signed(key, {}))).error_code == 0
    unknown: list[dict[str, Any]] = [{"crit": ["mine"], "mine": 1}, {"crit": 7}, {"crit": [[]]}, {"b64": False}]
    for header in (*unknown, {"typ": 7}, {"x5c": 7}):
        assert (await login(broker, signed(key, header))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def signed(key: ECKey, header: dict[str, Any]) -> str:
    """A token with a valid signature, also where the library refuses to sign."""
    now = int(time.time())
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + HOUR}
    text = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "ES256", "kid": key.kid, **header}, claims))
    assert key.private_key is not None
    numbers = decode_dss_signature(key.private_key.sign(text.encode(), ECDSA(SHA256())))
    return f"{text}.{encoded(b''.join(number.to_bytes(32) for number in numbers))}"


async def test_a_token_without_the_name_of_its_key_fits_only_one_key(
    start_broker: MakeBroker, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.keys = [new_key("one"), new_key("two"), new_key("three", "RS256")]
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    nameless = token(issuer.keys[0], header={"kid": None})
    assert (await login(broker, nameless)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "2 keys of the token issuer fit the bearer token, which does not name one" in caplog.text
    rsa = token(issuer.keys[2], "RS256", {"kid": None})
    assert (await login(broker, rsa)).error_code == 0


async def test_keys_come_from_a_file(start_broker: MakeBroker, tmp_path: Path) -> None:
    key, file = new_key(None), tmp_path / "keys.json"
    short = {"kty": "RSA", "n": "a" * 170, "e": "AQAB", "kid": "short"}
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}
    encrypts = {**new_key("encrypts").as_dict(private=False), "use": "enc"}
    file.write_text(json.dumps({"keys": [short, secret, encrypts, "x", {"kty": "EC"}, key.as_dict(private=False)]}))
    broker = await start_broker(BrokerOptions(settings=settings(f"file://{file}")))
    assert (await login(broker, token(key))).error_code == 0


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.com/keys", "must begin with https://, http:// or file://"),
        ("https:///keys", "must begin with"),
        ("file:///no/such/file", "has no keys that can be used"),
    ],
)
async def test_a_wrong_url_is_one_sentence(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        async with Broker(BrokerOptions(settings=settings(url))):
            pass


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"keys": []}', '{"keys": 7}', "[" * 100_000])
async def test_a_file_without_keys_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(ConfigError, match="has no keys that can be used"):
        async with Broker(BrokerOptions(settings=settings(f"file://{tmp_path}/keys.json"))):
            pass


async def test_without_the_library_the_broker_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "joserfc"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("bearer_tokens", "key_set"):
        monkeypatch.delitem(sys.modules, f"kohort.broker.security.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(ConfigError, match=r"pip install 'kohort\[oauth\]'"):
        async with Broker(BrokerOptions(settings=settings("https://issuer.example.com/keys"))):
            pass


async def test_our_client_logs_in_with_its_secret_for_the_token_endpoint(
    start_broker: MakeBroker, issuer: Issuer
) -> None:
    broker = await start_broker(BrokerOptions(settings=settings(issuer.jwks_url)))
    async with Admin(
        bootstrap_servers=broker.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_client_id="alice",
        sasl_oauth_client_secret="secret",
        sasl_oauth_token_endpoint_url=issuer.token_url,
    ) as admin:
        assert (await admin.describe_cluster()).cluster_id
        assert {connection.principal for connection in broker.sockets} == {"User:alice"}
