"""Apache Kafka's tools against a secured broker, by `--command-config`: users, ACLs, and what they allow."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.interop.java_tools import JavaTools, running_java_tools
from tests.interop.mixed.login import Login
from tests.interop.process import until
from tests.interop.secured import SecuredBroker

pytestmark = pytest.mark.interop


@pytest.fixture
def tools(kafka_tools: None) -> Iterator[JavaTools]:
    with running_java_tools() as running:
        yield running


def options(login: Login, directory: Path) -> tuple[str, ...]:
    """Return the options by which a tool connects."""
    file = directory / f"{login.user}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in login.java().items()))
    return "--bootstrap-server", login.bootstrap, "--command-config", str(file)


def test_users_and_acls_by_the_tools_of_apache_kafka(
    secured: SecuredBroker, tools: JavaTools, fresh: str, tmp_path: Path
) -> None:
    administrator = secured.login("admin", "SCRAM-SHA-256")
    admin = options(administrator, tmp_path)
    user = replace(administrator, user="alice", mechanism="SCRAM-SHA-512", password=secrets.token_hex(12))
    alice = options(user, tmp_path)
    bob = options(secured.login("bob", "SCRAM-SHA-512"), tmp_path)

    # A user.
    about = ("--entity-type", "users", "--entity-name", "alice")
    credential = f"SCRAM-SHA-512=[iterations=4096,password={user.password}]"
    assert "Completed updating config for user alice" in tools.succeed(
        "kafka-configs", *admin, "--alter", *about, "--add-config", credential
    )
    assert "alice' are SCRAM-SHA-512=iterations=4096" in tools.succeed("kafka-configs", *admin, "--describe", *about)

    # What she may not see is hidden.
    tools.succeed("kafka-topics", *admin, "--create", "--topic", fresh, "--partitions", "2")
    assert topics(tools, alice) == []
    refused = tools.run("kafka-topics", *alice, "--describe", "--topic", fresh)
    assert refused.code == 1 and "does not exist as expected" in refused.output

    # What a consumer needs.
    consumer = ("--consumer", "--topic", fresh, "--group", fresh)
    added = tools.succeed("kafka-acls", *admin, "--add", "--allow-principal", "User:alice", *consumer)
    listed = tools.succeed("kafka-acls", *admin, "--list", "--principal", "User:alice")
    for operation in ("READ", "DESCRIBE"):
        acl = f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)"
        assert acl in added and acl in listed
    until(20.0, "alice sees the topic", lambda: topics(tools, alice) == [fresh])
    group = ("--group", fresh)
    to_start = ("--reset-offsets", "--to-earliest", "--topic", fresh, "--execute")
    assert "NEW-OFFSET" in tools.succeed("kafka-consumer-groups", *alice, *group, *to_start)
    assert tools.succeed("kafka-consumer-groups", *alice, "--list").split() == [fresh]
    described = tools.succeed("kafka-consumer-groups", *alice, "--describe", *group)
    assert [line.split()[:4] for line in described.splitlines() if line.startswith(fresh)] == [
        [fresh, fresh, "0", "0"],
        [fresh, fresh, "1", "0"],
    ]

    # What others may not do is refused by name.
    refused = tools.run("kafka-consumer-groups", *bob, "--describe", *group)  # its exit code is always 0
    assert "GroupAuthorizationException" in refused.output
    assert tools.succeed("kafka-consumer-groups", *bob, "--list").split() == []
    refused = tools.run("kafka-acls", *alice, "--list")
    assert refused.code == 1 and "ClusterAuthorizationException" in refused.output
    refused = tools.run("kafka-configs", *alice, "--alter", *about, "--delete-config", "SCRAM-SHA-512")
    assert refused.code == 1 and "ClusterAuthorizationException" in refused.output

    # An ACL and a user that are gone.
    tools.succeed("kafka-acls", *admin, "--remove", "--force", "--allow-principal", "User:alice", *consumer)
    until(20.0, "alice does not see the topic", lambda: topics(tools, alice) == [])
    tools.succeed("kafka-configs", *admin, "--alter", *about, "--delete-config", "SCRAM-SHA-512")
    until(20.0, "alice is unknown", lambda: tools.run("kafka-topics", *alice, "--list").code != 0)
    refused = tools.run("kafka-topics", *alice, "--list")
    assert "SaslAuthenticationException" in refused.output
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in refused.output


def topics(tools: JavaTools, user: tuple[str, ...]) -> list[str]:
    """Return the topics that the user may see."""
    return tools.succeed("kafka-topics", *user, "--list").split()


def test_a_tool_learns_at_once_why_it_is_refused(secured: SecuredBroker, tools: JavaTools, tmp_path: Path) -> None:
    login = secured.login("alice", "SCRAM-SHA-512")
    wrong = options(replace(login, password="guess"), tmp_path)
    nameless = secured.login("nobody", "")  # a user with a certificate, which the tool does not present
    file = tmp_path / "certificate.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={nameless.cafile}\n"
        # A tool that is not told why would try again until then.
        "default.api.timeout.ms=600000\n"
    )
    without = ("--bootstrap-server", nameless.bootstrap, "--command-config", str(file))
    for given, reason in (
        (wrong, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        (without, "SslAuthenticationException"),
    ):
        refused = tools.run("kafka-topics", *given, "--list")
        assert refused.code == 1 and reason in refused.output, refused.output
