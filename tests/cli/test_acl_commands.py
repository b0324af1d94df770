"""`kohort acl` against a broker with an authorizer; with --broker both against Apache Kafka too."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence

import pytest

from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker
from tests.interop.kafka import run_tool
from tests.interop.kohort import KohortBroker, kohort
from tests.interop.process import until

ALICE, BOB = "User:alice", "User:bob"
HEADER = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]


def rows(lines: Sequence[str]) -> list[list[str]]:
    assert lines[0].split() == HEADER
    return [line.split() for line in lines[1:]]


@pytest.fixture
def acls(run: Run, any_authorized: Broker) -> Callable[..., list[list[str]]]:
    """List ACLs: their fields without the names of the header."""

    def listed(*arguments: str) -> list[list[str]]:
        told = succeeded(run("acl", "list", "--json", *arguments, bootstrap=any_authorized.bootstrap))
        return sorted(list(one.values()) for one in json.loads(told.out))

    return listed


def test_acls_are_added_listed_and_removed(
    run: Run, any_authorized: Broker, acls: Callable[..., list[list[str]]], name: str
) -> None:
    at = any_authorized.bootstrap
    read = ["topic", name, "literal", ALICE, "*", "read", "allow"]
    configs = ["topic", name, "literal", ALICE, "*", "describe-configs", "allow"]
    denied = ["topic", name[:-1], "prefixed", BOB, "10.0.0.1", "all", "deny"]
    arguments = ("--allow-principal", ALICE, "--operation", "Read", "--operation", "DescribeConfigs", "--topic", name)
    assert rows(succeeded(run("acl", "add", *arguments, bootstrap=at)).lines) == [read, configs]
    deny = ("--deny-principal", BOB, "--deny-host", "10.0.0.1", "--topic", name[:-1])
    succeeded(run("acl", "add", *deny, "--resource-pattern-type", "prefixed", bootstrap=at))
    # Apache Kafka answers before its brokers know a change.
    until(20, "added", lambda: denied in acls())
    assert acls("--topic", name) == [configs, read]
    assert acls("--topic", name, "--resource-pattern-type", "match") == sorted([read, configs, denied])
    assert acls("--topic", name, "--resource-pattern-type", "match", "--principal", BOB) == [denied]
    removed = run("acl", "remove", "--force", *arguments[:4], "--topic", name, bootstrap=at)
    assert rows(succeeded(removed).lines) == [read]
    until(20, "removed", lambda: acls("--topic", name) == [configs])
    removed = run(
        "acl", "remove", "--force", "--topic", name, "--resource-pattern-type", "match", "--json", bootstrap=at
    )
    assert sorted(list(one.values()) for one in json.loads(succeeded(removed).out)) == sorted([configs, denied])
    until(20, "all removed", lambda: acls("--topic", name, "--resource-pattern-type", "match") == [])
    assert run("acl", "list", "--topic", name, bootstrap=at).lines == ["There are no such ACLs."]
    again = run("acl", "remove", "--topic", name, "--force", bootstrap=at)
    assert (again.code, again.out) == (1, "")
    assert "There are no such ACLs; see kohort acl list." in again.err


ROLES = {
    "a producer": ("--producer", "--topic", "{}"),
    "with transactions": ("--producer", "--topic", "{}", "--transactional-id", "{}"),
    "idempotent": ("--producer", "--idempotent", "--topic", "{}"),
    "a consumer": ("--consumer", "--topic", "{}", "--group", "{}", "--resource-pattern-type", "prefixed"),
    "both": ("--producer", "--consumer", "--topic", "{}", "--group", "{}", "--allow-host", "10.0.0.1"),
    "everything": ("--topic", "{}", "--group", "{}", "--transactional-id", "{}", "--cluster"),
    "some": ("--operation", "Describe", "--operation", "DescribeConfigs", "--topic", "{}", "--cluster"),
}


@pytest.mark.usefixtures("kafka_tools")
@pytest.mark.parametrize("options", ROLES.values(), ids=ROLES)
def test_the_options_mean_what_they_mean_to_kafka_acls(
    run: Run, authorized_kohort: KohortBroker, name: str, options: Sequence[str]
) -> None:
    at = authorized_kohort.bootstrap
    filled = [option.format(name) for option in options]
    ours, theirs = f"User:{name}-ours", f"User:{name}-theirs"
    succeeded(run("acl", "add", "--allow-principal", ours, *filled, bootstrap=at))
    tool = ("org.apache.kafka.tools.AclCommand", "--bootstrap-server", at)
    run_tool(*tool, "--add", "--allow-principal", theirs, *filled)

    def listed(principal: str) -> list[list[str]]:
        told = succeeded(run("acl", "list", "--principal", principal, "--json", bootstrap=at))
        return [[value for key, value in one.items() if key != "principal"] for one in json.loads(told.out)]

    assert listed(ours) == listed(theirs) != []
    run_tool(*tool, "--remove", "--force", "--allow-principal", ours, *filled)
    succeeded(run("acl", "remove", "--force", "--allow-principal", theirs, *filled, bootstrap=at))
    assert listed(ours) == listed(theirs) == []


WRONG = {
    "Name a principal by --allow-principal or --deny-principal.": ("add", "--topic", "t"),
    "Name a resource by --topic, --group, --transactional-id or --cluster.": ("add", "--allow-principal", ALICE),
    "A principal has the form TYPE:NAME, such as User:alice, not 'alice'.": (
        *("add", "--allow-principal", "alice", "--topic", "t"),
    ),
    "Unknown operation 'reed'. The operations: all, read, write,": (
        *("add", "--allow-principal", ALICE, "--topic", "t", "--operation", "reed"),
    ),
    "A group has no operation write. Its operations: all, read, delete,": (
        *("add", "--allow-principal", ALICE, "--group", "g", "--operation", "write"),
    ),
    "An ACL is added with --resource-pattern-type literal or prefixed.": (
        *("add", "--allow-principal", ALICE, "--topic", "t", "--resource-pattern-type", "match"),
    ),
    "The name of a resource cannot be empty; use * for all.": ("add", "--allow-principal", ALICE, "--topic", ""),
    "--allow-host needs --allow-principal.": ("remove", "--topic", "t", "--allow-host", "10.0.0.1"),
    "--deny-host needs --deny-principal.": (
        *("add", "--allow-principal", ALICE, "--topic", "t", "--deny-host", "10.0.0.1"),
    ),
    "With --operation, name a principal by": ("remove", "--topic", "t", "--operation", "read"),
    "--producer needs --allow-principal.": ("remove", "--topic", "t", "--producer"),
    "--producer needs --topic.": ("add", "--allow-principal", ALICE, "--producer"),
    "--consumer needs --topic and --group.": ("add", "--allow-principal", ALICE, "--topic", "t", "--consumer"),
    "--idempotent is only for --producer.": ("add", "--allow-principal", ALICE, "--topic", "t", "--idempotent"),
    "--producer and --consumer cannot be combined with --operation or --deny-...": (
        *("add", "--allow-principal", ALICE, "--topic", "t", "--producer", "--operation", "read"),
    ),
    "--transactional-id cannot be combined with --consumer.": (
        *("add", "--allow-principal", ALICE, "--topic", "t", "--group", "g", "--consumer", "--transactional-id", "x"),
    ),
    "--cluster cannot be combined with --producer.": (
        *("add", "--allow-principal", ALICE, "--topic", "t", "--producer", "--cluster"),
    ),
    "--group cannot be combined with --producer, unless --consumer is given, too.": (
        *("add", "--allow-principal", ALICE, "--topic", "t", "--producer", "--group", "g"),
    ),
}


@pytest.mark.parametrize(("sentence", "arguments"), WRONG.items(), ids=WRONG)
def test_options_that_contradict_each_other_are_refused(run: Run, sentence: str, arguments: Sequence[str]) -> None:
    told = run("acl", *arguments)
    assert (told.code, told.out) == (2, "")
    assert sentence in told.err


def test_without_a_terminal_removal_needs_force(run: Run, authorized_kohort: KohortBroker, name: str) -> None:
    at = authorized_kohort.bootstrap
    succeeded(run("acl", "add", "--allow-principal", ALICE, "--topic", name, bootstrap=at))
    told = run("acl", "remove", "--topic", name, bootstrap=at)
    assert (told.code, told.out) == (2, "")
    assert "use --force" in told.err
    assert len(rows(run("acl", "list", "--topic", name, bootstrap=at).lines)) == 1


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("n", 1, 1)])
def test_at_a_terminal_removal_is_confirmed(
    run: Run, authorized_kohort: KohortBroker, name: str, answer: str, code: int, left: int
) -> None:
    at = authorized_kohort.bootstrap
    succeeded(run("acl", "add", "--allow-principal", ALICE, "--topic", name, bootstrap=at))
    main, terminal = os.openpty()
    command = kohort("acl", "remove", "--topic", name, "--bootstrap", at)
    asked = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    shown = b""
    while b"Remove these ACLs? [y/N]: " not in shown:
        shown += os.read(main, 1000)
    assert name.encode() in shown
    os.write(main, f"{answer}\n".encode())
    assert asked.wait(30) == code
    os.close(main)
    told = json.loads(succeeded(run("acl", "list", "--topic", name, "--json", bootstrap=at)).out)
    assert len(told) == left


def test_without_an_authorizer_the_error_says_so(run: Run, kohort_broker: KohortBroker) -> None:
    told = run("acl", "list", bootstrap=kohort_broker.bootstrap)
    assert (told.code, told.out) == (2, "")
    assert "No Authorizer is configured" in told.err
