"""Who may use the demo's broker: everybody in plaintext, or users over TLS who may do only what they need."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kohort.broker import stored_credentials
from kohort.client import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType
from kohort.errors import KohortError
from kohort.properties import format_properties
from kohort.security import Secret
from kohort.security.sasl import ScramCredential, ScramMechanism, salt_of

ADMIN, PRODUCER, MEMBER, SPARK, WATCHER = "admin", "producer", "member", "spark", "watcher"
"""Users of the secured demo."""

_ITERATIONS = 4096

Rights = Mapping[str, Sequence[tuple[Operation, ResourceType, str]]]
"""What each user may do, as operation, kind of resource, and name."""


@dataclass(frozen=True, slots=True)
class Access:
    """How the demo's processes connect."""

    directory: Path | None = None
    """Directory of the files with certificates and passwords; None without security."""

    @property
    def protocol(self) -> str:
        """What stands before the address on which the broker listens."""
        return "" if self.directory is None else "SASL_SSL://"

    @property
    def of_broker(self) -> list[str]:
        """Additional arguments of the broker."""
        return [] if self.directory is None else ["--config", str(self.directory / "broker.properties")]

    def of_child(self, user: str) -> list[str]:
        """Additional arguments of a process that connects as this user."""
        return [] if self.directory is None else ["--command-config", str(self._file(user))]

    def of_client(self, user: str) -> dict[str, Any]:
        """Options of a client of this process that connects as this user."""
        from kohort.demo.processes import read_client_options

        return read_client_options(None if self.directory is None else self._file(user))

    def _file(self, user: str) -> Path:
        assert self.directory is not None
        return self.directory / f"{user}.properties"


def secured_access(directory: Path, data: Path) -> Access:
    """Make a certificate, and users in the store of a broker that does not run yet. Raise KohortError without openssl.

    Only this user of the machine can read the files.
    """
    directory.mkdir(mode=0o700)
    _make_certificate(directory)
    settings = {
        "ssl.keystore.location": str(directory / "broker.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
    }
    (directory / "broker.properties").write_text(format_properties(settings))
    mechanism = ScramMechanism.SHA_512
    with stored_credentials(data, None) as credentials:
        for user in (ADMIN, PRODUCER, MEMBER, SPARK, WATCHER):
            password = os.urandom(16).hex()
            made = ScramCredential.from_password(mechanism, Secret(password), salt_of(os.urandom(32)), _ITERATIONS)
            credentials.change(user, (), {mechanism: made})
            login = {
                "security.protocol": "SASL_SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(directory / "ca.pem"),
                "sasl.mechanism": mechanism.value,
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
                f' username="{user}" password="{password}";',
            }
            (directory / f"{user}.properties").write_text(format_properties(login))
    return Access(directory)


def _make_certificate(directory: Path) -> None:
    """Make a certificate for 127.0.0.1 that signs itself."""
    if shutil.which("openssl") is None:
        raise KohortError("The secured demo makes its certificate with openssl, which is not installed.")
    key, certificate = directory / "key.pem", directory / "ca.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KohortError(f"openssl cannot make a certificate: {done.stderr.strip()}")
    (directory / "broker.pem").write_text(key.read_text() + certificate.read_text())


def rights(topic: str, group: str, spark_group: str, journal: str) -> Rights:
    """Return what each user needs, which docs/security.md lists. The administrator may do everything."""
    read, write, describe = Operation.READ, Operation.WRITE, Operation.DESCRIBE
    a_topic, a_group = ResourceType.TOPIC, ResourceType.GROUP
    return {
        PRODUCER: [(write, a_topic, topic)],
        MEMBER: [(read, a_topic, topic), (read, a_group, group)],
        SPARK: [(read, a_topic, topic), (read, a_group, spark_group)],
        WATCHER: [
            (describe, a_topic, topic),
            (describe, a_group, group),
            (describe, a_group, spark_group),
            (read, a_topic, journal),
        ],
    }


def acls(some: Rights) -> list[Acl]:
    """Return these rights as ACLs."""
    return [
        Acl(ResourcePattern(kind, name, PatternType.LITERAL), f"User:{user}", "*", operation, Permission.ALLOW)
        for user, each in some.items()
        for operation, kind, name in each
    ]
