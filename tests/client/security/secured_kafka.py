"""Brokers, Apache Kafka's and ours, with a listener for each security protocol."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joserfc.jwk import Key

from kohort import Cluster
from kohort.lab.apache_kafka import QUICK_START, free_ports, running_kafka
from kohort.lab.process import ServerProcess
from kohort.properties import format_properties
from kohort.security.sasl import ScramMechanism, salt_of
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from tests.broker.security.issuer import AUDIENCE, ISSUER, new_key, token
from tests.client.security.authorities import Certificates, certificates
from tests.interop.kohort import kohort

USER, PASSWORD = "alice", 'pencil, 4711="x"'
SESSION_MS = 2_000
LONG_SESSION_MS = 60_000
"""A session that lasts while a busy machine lets a process stand still, for tests that log in again much earlier."""
_MODULES = "org.apache.kafka.common.security"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True)
class SecuredKafka:
    """Addresses of a broker's listeners, and its certificates."""

    certificates: Certificates
    ports: dict[str, int]
    key: Key

    def address(self, listener: str, host: str = "localhost") -> str:
        return f"{host}:{self.ports[listener]}"

    def token(self, subject: str = USER, life_s: float = 3600.0, **claims: Any) -> str:
        """Return a token that the broker accepts, unless the claims make it invalid."""
        now = time.time()
        return token(self.key, "RS256", **{"sub": subject, "iat": now, "exp": now + life_s, **claims})

    @property
    def keys_url(self) -> str:
        """The file with the key set of the tokens."""
        return (self.certificates.directory / "keys.json").as_uri()


@contextlib.contextmanager
def running_secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """Run Apache Kafka with the listeners of `_configured`."""
    (controller,) = free_ports(1)
    kafka, config = _configured(directory)
    for name in kafka.ports:
        handler = f"listener.name.{name.lower()}.oauthbearer.sasl.server.callback.handler.class"
        config[handler] = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    for name in ("listeners", "advertised.listeners"):
        config[name] += f",CONTROLLER://127.0.0.1:{controller}"
    config["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    config["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
    config["inter.broker.listener.name"] = "PLAINTEXT"
    options = [*QUICK_START, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={kafka.keys_url}"]
    with running_kafka({name: value.replace("\\", "\\\\") for name, value in config.items()}, options):
        yield kafka


@contextlib.contextmanager
def running_secured_kohort(directory: Path) -> Iterator[SecuredKafka]:
    """Run our broker with the listeners of `_configured`."""
    kafka, config = _configured(directory)
    file = directory / "server.properties"
    file.write_text(format_properties(config))
    process = ServerProcess(kohort("broker", "--memory", "--config", str(file)))
    try:
        process.wait_for(r"^ready (\S+)$", timeout=20.0)
        yield kafka
    finally:
        process.kill()


def _configured(directory: Path) -> tuple[SecuredKafka, dict[str, str]]:
    """Return the listeners and their settings.

    SHORT ends sessions after SESSION_MS, LONG after LONG_SESSION_MS. MTLS wants a certificate of the client, and
    EXPIRED has an old one.
    """
    made, key = certificates(directory), new_key("of-clients", "RS256")
    (directory / "keys.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    server = made.issue("server", "localhost")
    expired = made.issue("expired", "localhost", expired=True)
    protocols = {
        "SASL_SSL": "SASL_SSL",
        "SASL_PLAINTEXT": "SASL_PLAINTEXT",
        "SHORT": "SASL_PLAINTEXT",
        "LONG": "SASL_PLAINTEXT",
        "SSL": "SSL",
        "MTLS": "SSL",
        "EXPIRED": "SSL",
        "SCRAM_ONLY": "SASL_PLAINTEXT",
    }
    own, *others = free_ports(1 + len(protocols))
    ports = dict(zip(protocols, others, strict=True)) | {"PLAINTEXT": own}
    listeners = ",".join([f"PLAINTEXT://127.0.0.1:{own}"] + [f"{name}://localhost:{ports[name]}" for name in protocols])
    kafka = SecuredKafka(made, ports, key)
    quoted = PASSWORD.replace('"', '\\"')
    jaas = {
        "plain": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{quoted}";',
        "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";',
    }
    config = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:{kind}" for name, kind in protocols.items())]
        ),
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": kafka.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.scram_only.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": made.cafile,
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": str(expired),
        "connection.failed.authentication.delay.ms": "20",
    }
    for name in protocols:
        if protocols[name].startswith("SASL"):
            for mechanism in _MECHANISMS:
                prefix = f"listener.name.{name.lower()}.{mechanism.lower()}"
                config[f"{prefix}.sasl.jaas.config"] = jaas[mechanism.lower()]
    config["listener.name.short.connections.max.reauth.ms"] = str(SESSION_MS)
    config["listener.name.long.connections.max.reauth.ms"] = str(LONG_SESSION_MS)
    return kafka, config


async def add_scram_users(kafka: SecuredKafka) -> None:
    """Store the user's credential for both mechanisms. Kafka takes one of a user in a request."""
    async with Cluster.of(kafka.address("PLAINTEXT", "127.0.0.1")) as cluster:
        for mechanism in ScramMechanism:
            salt = salt_of(os.urandom(32))
            salted = mechanism.salted_password(PASSWORD.encode(), salt, 8192)
            credential = ScramCredentialUpsertion(
                name=USER, mechanism=mechanism.number, iterations=8192, salt=salt, salted_password=salted
            )
            request = AlterUserScramCredentialsRequest(upsertions=[credential])
            answer = await cluster.ask_any(request, AlterUserScramCredentialsResponse)
            assert [(result.error_code, result.error_message) for result in answer.results] == [(0, None)]
