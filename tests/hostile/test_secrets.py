"""Secrets of brokers and clients appear in no log, exception, repr, command line or file of theirs."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import subprocess
import traceback
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, KafkaError, Producer
from kohort.broker import Broker, BrokerOptions
from kohort.client import ConfigKind, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kohort.properties import format_properties
from tests.broker.conftest import QUICK
from tests.broker.security.issuer import AUDIENCE, ISSUER, Issuer, running_issuer, token
from tests.client.security.authorities import KEY_PASSWORD, Certificates, certificates
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN_PASSWORD = "zebra-plain-8831"
SCRAM_PASSWORD = "zebra-scram-9942"
WRONG_PASSWORD = "zebra-wrong-1153"
CLIENT_SECRET = "zebra-oidc-2264"


def broker_settings(pem: Certificates, keys_url: str) -> dict[str, str]:
    return {
        **QUICK,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.jaas.config": f'{MODULE} required user_alice="{PLAIN_PASSWORD}";',
        "sasl.oauthbearer.jwks.endpoint.url": keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "ssl.keystore.key": (pem.directory / "server.locked.key").read_text(),
        "ssl.keystore.certificate.chain": (pem.directory / "server.crt").read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }


@pytest.fixture
def pem(tmp_path: Path) -> Certificates:
    made = certificates(tmp_path)
    made.issue("server", "127.0.0.1")
    return made


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        yield made


def key_text(pem: Certificates) -> str:
    """A line of the private key."""
    return (pem.directory / "server.locked.key").read_text().splitlines()[5]


def shown(secrets: Iterable[str], text: str) -> list[str]:
    """Which of the secrets are in the text, as they are or in base64."""
    return [one for one in secrets if one in text or b64encode(one.encode()).decode().rstrip("=") in text]


def reprs() -> Iterator[str]:
    """What each object of ours shows of itself."""
    gc.collect()
    for found in gc.get_objects():
        if str(type(found).__module__).startswith("kohort") and not isinstance(found, type):
            try:
                yield f"{type(found).__module__}.{type(found).__name__}: {found!r}"
            except (AttributeError, ReferenceError):  # not complete yet, or gone
                continue


async def use(bootstrap: str, login: Mapping[str, Any]) -> str:
    """Use every client with this login; return what they and all objects tell, also of failures."""
    told = []
    common: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": "SASL_SSL", **login}
    try:
        async with Admin(**common) as admin:
            told.append(repr(admin))
            told.append(repr(await admin.list_topics()))
        async with Producer(**common) as producer:
            told.append(repr(producer))
            await producer.send("orders", b"value")
        async with Consumer("orders", group_id="g", auto_offset_reset="earliest", **common) as consumer:
            told.append(repr(consumer))
            async for record in consumer:
                told += [repr(record), *reprs()]
                break
        told.append("it works")
    except KafkaError as error:
        told += [repr(error), str(error), repr(vars(error)), "".join(traceback.format_exception(error)), *reprs()]
    return "\n".join(told)


async def test_no_log_exception_or_repr_shows_a_secret(
    tmp_path: Path, pem: Certificates, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    good, expired = token(issuer.keys[0]), token(issuer.keys[0], exp=1)
    secrets = [
        *(PLAIN_PASSWORD, SCRAM_PASSWORD, WRONG_PASSWORD, CLIENT_SECRET, KEY_PASSWORD, key_text(pem)),
        *(part for one in (good, expired) for part in one.split(".")[1:]),
    ]
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    listeners = {"listeners": "OWN://127.0.0.1:0,CLIENTS://127.0.0.1:0"}
    protocols = {"listener.security.protocol.map": "OWN:PLAINTEXT,CLIENTS:SASL_SSL"}
    settings = {**broker_settings(pem, issuer.jwks_url), **listeners, **protocols}
    data = tmp_path / "data"
    told = [repr(BrokerOptions(postgres=f"postgresql://kohort:{PLAIN_PASSWORD}@db.example.com/log"))]
    async with Broker(BrokerOptions(settings=settings, data=data)) as broker:
        own, clients = (f"127.0.0.1:{broker.endpoints[name].port}" for name in ("OWN", "CLIENTS"))
        async with Admin(bootstrap_servers=own) as admin:
            info = ScramCredentialInfo(ScramMechanism.SHA_512, 4096)
            upsertion = UserScramCredentialUpsertion("bob", info, SCRAM_PASSWORD)
            await admin.alter_user_scram_credentials([upsertion])
            told += [repr(upsertion), repr(await admin.describe_user_scram_credentials())]
            told.append(repr(await admin.describe_configs(ConfigKind.BROKER, "1")))
        ca = {"ssl_cafile": pem.cafile}
        endpoint = {"sasl_oauth_token_endpoint_url": issuer.token_url, "sasl_oauth_client_id": "bob"}
        without_tls = {"bootstrap_servers": own, "default_api_timeout_ms": 3_000}
        logins: dict[str, tuple[bool, dict[str, Any]]] = {
            "PLAIN": (True, password("PLAIN", "alice", PLAIN_PASSWORD)),
            "PLAIN, wrong": (False, password("PLAIN", "alice", WRONG_PASSWORD)),
            "SCRAM": (True, password("SCRAM-SHA-512", "bob", SCRAM_PASSWORD)),
            "SCRAM, wrong": (False, password("SCRAM-SHA-512", "bob", WRONG_PASSWORD)),
            "SCRAM, not offered": (False, password("SCRAM-SHA-256", "bob", SCRAM_PASSWORD)),
            "token": (True, {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": good}),
            "token, expired": (False, {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": expired}),
            "endpoint": (
                True,
                {"sasl_mechanism": "OAUTHBEARER", **endpoint, "sasl_oauth_client_secret": CLIENT_SECRET},
            ),
            "no TLS": (False, {**password("PLAIN", "alice", PLAIN_PASSWORD), **without_tls}),
        }
        for name, (works, login) in logins.items():
            found = await use(login.pop("bootstrap_servers", clients), {**ca, **login})
            assert ("it works" in found) == works, f"{name}: {found}"
            told.append(found)
    assert any(".ConsumerOptions: ConsumerOptions(" in text for text in told)
    assert not [line for text in told for line in text.splitlines() if shown(secrets, line)]
    lines = [f"{each.getMessage()} {each.args!r} {each.exc_text}" for each in caplog.records]
    assert not [line for line in lines if shown(secrets, line)]
    assert "authenticated peer=" in caplog.text and "authentication failed peer=" in caplog.text
    for path in data.rglob("*"):
        assert not path.is_file() or not shown(secrets, path.read_bytes().decode("latin-1")), path


def password(mechanism: str, user: str, text: str) -> dict[str, Any]:
    return {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": text}


def test_no_command_line_or_output_shows_a_secret(tmp_path: Path, pem: Certificates) -> None:
    keys = tmp_path / "keys.json"
    with running_issuer() as issuer:
        keys.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in issuer.keys]}))
    secrets = [PLAIN_PASSWORD, SCRAM_PASSWORD, WRONG_PASSWORD, KEY_PASSWORD, key_text(pem)]
    file = tmp_path / "server.properties"
    file.write_text(format_properties(broker_settings(pem, keys.as_uri())))
    file.chmod(0o600)
    process = ServerProcess(
        kohort("broker", "--config", str(file), "--listen", "SASL_SSL://127.0.0.1:0", "--data", str(tmp_path / "data"))
    )
    try:
        at = process.wait_for(r"^ready (\S+)$", timeout=60.0)[1]
        client = tmp_path / "client.properties"

        def ran(*command: str, secret: str, **environment: str) -> str:
            client.write_text(
                format_properties(
                    {
                        "security.protocol": "SASL_SSL",
                        "ssl.truststore.type": "PEM",
                        "ssl.truststore.location": pem.cafile,
                        "sasl.mechanism": "PLAIN",
                        "sasl.jaas.config": f'{MODULE} required username="alice" password="{secret}";',
                    }
                )
            )
            arguments = [*command, "--bootstrap", at, "--command-config", str(client)]
            with subprocess.Popen(
                kohort(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, env={**os.environ, **environment},
            ) as child:  # fmt: skip
                while child.poll() is None:
                    assert not [line for line in command_lines() if shown(secrets, line)]
                assert child.stdout is not None
                return child.stdout.read()

        good = {"secret": PLAIN_PASSWORD}
        told = [
            ran("topic", "create", "orders", **good),
            ran("user", "add", "bob", **good, KOHORT_PASSWORD=SCRAM_PASSWORD),
            ran("user", "list", "--json", **good),
            ran("topic", "list", secret=WRONG_PASSWORD),
        ]
        assert "orders" in told[0] and "bob" in told[1] and "bob" in told[2], told
        assert "rejects user" in told[3], told[3]
        assert not shown(secrets, "\n".join(told))
        assert process.stop(30.0) == 0
        assert "authentication failed peer=" in process.output()
        assert not shown(secrets, process.output())
    finally:
        process.kill()


def command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().decode("latin-1")
        except OSError:  # it has ended
            continue
