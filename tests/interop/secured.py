"""A secured broker, Apache Kafka's or ours: one listener with TLS and SASL, one that wants a client's certificate.

Its third listener has no security. Clients of that one are `User:ANONYMOUS`, who may do everything; all others need
ACLs.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.client.security.authorities import Certificates, certificates
from tests.interop.kafka import free_ports, running_kafka
from tests.interop.kohort import kohort
from tests.interop.mixed.login import Login
from tests.interop.process import ServerProcess

SESSION_MS = 3_000
"""Clients of the listener with SASL must authenticate again within this time."""

PLAIN_USERS = ("franz-go", "producer")
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecuredBroker:
    """A running broker."""

    bootstrap: str
    """Where anonymous clients may do everything."""
    sasl: str
    tls: str
    certificates: Certificates
    passwords: dict[str, str]
    """Of the users of PLAIN."""
    process: ServerProcess
    admin: AdminClient
    """May do everything."""

    def login(self, user: str, mechanism: str) -> Login:
        """Add a user, and return how it connects: by SASL, or by a certificate if no mechanism is named."""
        made = self.certificates
        if not mechanism:
            made.issue(user, f"{user}.example.com", common_name=user)
            names = {"certfile": str(made.directory / f"{user}.crt"), "keyfile": str(made.directory / f"{user}.key")}
            return Login(self.tls, made.cafile, user, **names)
        if mechanism == "PLAIN":
            return Login(self.sasl, made.cafile, user, mechanism, self.passwords[user])
        password = secrets.token_hex(12)
        info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        for done in self.admin.alter_user_scram_credentials([change]).values():
            done.result(20.0)
        return Login(self.sasl, made.cafile, user, mechanism, password)

    def allow(self, user: str, operation: str, *, topic: str = "", group: str = "") -> None:
        """Let the user do this with a topic or a group."""
        kind, name = (ResourceType.TOPIC, topic) if topic else (ResourceType.GROUP, group)
        acl = AclBinding(
            *(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*"),
            *(AclOperation[operation], AclPermissionType.ALLOW),
        )
        for done in self.admin.create_acls([acl]).values():
            done.result(20.0)


@contextlib.contextmanager
def running_secured_broker(kind: str, directory: Path) -> Iterator[SecuredBroker]:
    """Run Apache Kafka (`kafka`) or ours (`kohort`)."""
    made = certificates(directory)
    own, sasl, tls, controller = free_ports(4)
    addresses = f"PLAINTEXT://127.0.0.1:{own},MEMBERS://localhost:{sasl},CERTIFICATES://localhost:{tls}"
    passwords = {user: secrets.token_hex(12) for user in PLAIN_USERS}
    config = _config(made, addresses, passwords)
    if kind == "kafka":
        for name in ("listeners", "advertised.listeners"):
            config[name] += f",CONTROLLER://127.0.0.1:{controller}"
        config["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        config["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
        config["inter.broker.listener.name"] = "PLAINTEXT"
        with running_kafka(config) as kafka:
            yield _broker(own, sasl, tls, made, passwords, kafka.process)
        return
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    process = ServerProcess(kohort("broker", "--memory", "--config", str(file)))
    try:
        process.wait_for(r"^ready (\S+)$", timeout=20.0)
        yield _broker(own, sasl, tls, made, passwords, process)
        code = process.stop()
        assert code == 0, f"the broker ended with {code} after SIGTERM\n{process.output()}"
    finally:
        process.kill()


def _broker(
    own: int, sasl: int, tls: int, made: Certificates, passwords: dict[str, str], process: ServerProcess
) -> SecuredBroker:
    bootstrap = f"127.0.0.1:{own}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return SecuredBroker(bootstrap, f"localhost:{sasl}", f"localhost:{tls}", made, passwords, process, admin)


def _config(made: Certificates, addresses: str, passwords: dict[str, str]) -> dict[str, str]:
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    members = "listener.name.members"
    return {
        "listeners": addresses,
        "advertised.listeners": addresses,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MEMBERS:SASL_SSL,CERTIFICATES:SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{members}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {users};",
        f"{members}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        f"{members}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        f"{members}.connections.max.reauth.ms": str(SESSION_MS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.issue("server", "localhost")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": made.cafile,
        "listener.name.certificates.ssl.client.auth": "required",
        # A certificate's user is its common name.
        "listener.name.certificates.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }
