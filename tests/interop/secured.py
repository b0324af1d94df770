"""A secured broker, Apache Kafka's or ours: one listener with TLS and SASL, one that wants a client's certificate.

Its third listener has no security. Clients of that one are `User:ANONYMOUS`, who may do everything; all others but
`User:admin` need ACLs.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from joserfc.jwk import Key

from tests.broker.security.issuer import AUDIENCE, ISSUER, new_key, token
from tests.client.security.authorities import Certificates, certificates
from tests.interop.kafka import QUICK_START, free_ports, running_kafka
from tests.interop.kohort import kohort
from tests.interop.mixed.login import OAUTHBEARER, Login
from tests.interop.process import ServerProcess

SESSION_MS = 3_000
"""Clients of the listener with SASL must authenticate again within this time."""

PLAIN_USERS = ("admin", "franz-go", "producer")
SUPER_USERS = "User:ANONYMOUS;User:admin"
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Trust:
    """What the broker verifies its users by."""

    certificates: Certificates
    passwords: Mapping[str, str]
    """Of the users of PLAIN."""
    key: Key
    """Signs the tokens of OAUTHBEARER."""

    @property
    def keys_url(self) -> str:
        """The file with the key set of the tokens."""
        return (self.certificates.directory / "keys.json").as_uri()


@dataclass(frozen=True)
class Ports:
    """Listeners of one broker."""

    own: int
    sasl: int
    tls: int

    def __str__(self) -> str:
        return f"PLAINTEXT://127.0.0.1:{self.own},MEMBERS://localhost:{self.sasl},CERTIFICATES://localhost:{self.tls}"


class SecuredBroker:
    """A running broker."""

    def __init__(self, ports: Ports, trust: Trust, process: ServerProcess) -> None:
        self.bootstrap = f"127.0.0.1:{ports.own}"
        """Where anonymous clients may do everything."""
        self.process = process
        self._sasl, self._tls = f"localhost:{ports.sasl}", f"localhost:{ports.tls}"
        self._trust = trust
        # Kept, because its answers arrive only while it is.
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def login(self, user: str, mechanism: str) -> Login:
        """Add a user, and return how it connects: by SASL, or by a certificate if no mechanism is named."""
        made = self._trust.certificates
        if not mechanism:
            made.issue(user, f"{user}.example.com", common_name=user)
            names = {"certfile": str(made.directory / f"{user}.crt"), "keyfile": str(made.directory / f"{user}.key")}
            return Login(self._tls, made.cafile, user, **names)
        if mechanism == "PLAIN":
            secret = self._trust.passwords[user]
        elif mechanism == OAUTHBEARER:
            secret = token(self._trust.key, "RS256", sub=user, exp=int(time.time()) + 3600)
        else:
            secret = secrets.token_hex(12)
            info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], 4096)
            change = UserScramCredentialUpsertion(user, info, secret.encode())
            for done in self._admin.alter_user_scram_credentials([change]).values():
                done.result(20.0)
        return Login(self._sasl, made.cafile, user, mechanism, secret)

    def allow(self, user: str, operation: str, *, topic: str = "", group: str = "") -> None:
        """Let the user do this with a topic or a group."""
        acl = AclBinding(*_acl(user, operation, topic, group))
        for done in self._admin.create_acls([acl]).values():
            done.result(20.0)

    def no_longer_allow(self, user: str, operation: str, *, topic: str = "", group: str = "") -> None:
        """Remove what `allow` has added."""
        acls = AclBindingFilter(*_acl(user, operation, topic, group))
        for done in self._admin.delete_acls([acls]).values():
            assert len(done.result(20.0)) == 1


def _acl(user: str, operation: str, topic: str, group: str) -> tuple[Any, ...]:
    kind, name = (ResourceType.TOPIC, topic) if topic else (ResourceType.GROUP, group)
    return (
        *(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*"),
        *(AclOperation[operation], AclPermissionType.ALLOW),
    )


@contextlib.contextmanager
def running_secured_broker(
    kind: str, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[SecuredBroker]:
    """Run Apache Kafka (`kafka`) or ours (`kohort`), with these settings beside its own."""
    trust, ports = _new_trust(directory), Ports(*free_ports(3))
    config = {**_config(trust), **(settings or {})}
    config["listeners"] = config["advertised.listeners"] = str(ports)
    if kind == "kafka":
        with running_kafka({**config, **_of_kafka(config)}, _jvm(trust)) as kafka:
            yield SecuredBroker(ports, trust, kafka.process)
    else:
        with _kohort(directory, config, "broker", "--memory") as process:
            yield SecuredBroker(ports, trust, process)


@contextlib.contextmanager
def running_secured_cluster(directory: Path, settings: Mapping[str, str]) -> Iterator[SecuredBroker]:
    """Run three brokers of ours. The addresses are those of the first."""
    trust, free = _new_trust(directory), free_ports(9)
    brokers = [Ports(*free[at : at + 3]) for at in (0, 3, 6)]
    listen = [part for ports in brokers for part in ("--listen", str(ports))]
    with _kohort(directory, {**_config(trust), **settings}, "cluster", "--brokers", "3", *listen) as process:
        yield SecuredBroker(brokers[0], trust, process)


@contextlib.contextmanager
def _kohort(directory: Path, config: Mapping[str, str], *command: str) -> Iterator[ServerProcess]:
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    process = ServerProcess(kohort(*command, "--config", str(file)))
    try:
        process.wait_for(r"^ready (\S+)$", timeout=60.0)
        yield process
        code = process.stop(60.0)
        assert code == 0, f"the broker ended with {code} after SIGTERM\n{process.output()}"
    finally:
        process.kill()


def _of_kafka(config: Mapping[str, str]) -> dict[str, str]:
    """Return what only Apache Kafka needs."""
    (controller,) = free_ports(1)
    listeners = f"{config['listeners']},CONTROLLER://127.0.0.1:{controller}"
    bearer = f"{_MODULES}.oauthbearer"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"{config['listener.security.protocol.map']},CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.members.oauthbearer.sasl.jaas.config": f"{bearer}.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";',
        "listener.name.members.oauthbearer.sasl.server.callback.handler.class": (
            f"{bearer}.OAuthBearerValidatorCallbackHandler"
        ),
    }


def _jvm(trust: Trust) -> list[str]:
    return [*QUICK_START, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={trust.keys_url}"]


def _new_trust(directory: Path) -> Trust:
    made, key = certificates(directory), new_key("of-members", "RS256")
    made.issue("server", "localhost")
    (directory / "keys.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    return Trust(made, {user: secrets.token_hex(12) for user in PLAIN_USERS}, key)


def _config(trust: Trust) -> dict[str, str]:
    users = " ".join(f'user_{user}="{password}"' for user, password in trust.passwords.items())
    members = "listener.name.members"
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MEMBERS:SASL_SSL,CERTIFICATES:SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{members}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {users};",
        f"{members}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        f"{members}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "sasl.oauthbearer.jwks.endpoint.url": trust.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connections.max.reauth.ms": str(SESSION_MS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(trust.certificates.directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trust.certificates.cafile,
        "listener.name.certificates.ssl.client.auth": "required",
        # A certificate's user is its common name.
        "listener.name.certificates.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": SUPER_USERS,
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }
