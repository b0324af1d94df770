"""Apache Kafka's StandardAuthorizer as the oracle: one JVM answers random questions about random sets of ACLs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from kohort.security import (
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    Acls,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.interop.kafka import jars

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("kafka_tools")]

_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
PRINCIPALS = ("User:alice", "User:bob", "User:", "Group:alice", "User:root")
WRITTEN = (*PRINCIPALS, "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "::1")
HOSTS_OF_ACLS = ("*", "*", "10.0.0.1", "0:0:0:0:0:0:0:1", "10.0.0.0/8")
NAMES = ("a", "ab", "abc", "abd", "b", "a*", "*")
ANY_OPERATION = [operation for operation in Operation if operation is not Operation.ANY]


def some_acl(dice: Random) -> Acl:
    kind = dice.choice([ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER])
    pattern = dice.choice([PatternType.LITERAL, PatternType.PREFIXED])
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else dice.choice(NAMES)
    operation = dice.choice([Operation.ALL, *ANY_OPERATION])
    permission = dice.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY])
    return Acl(
        ResourcePattern(kind, name, pattern), dice.choice(WRITTEN), dice.choice(HOSTS_OF_ACLS), operation, permission
    )


def line(acl: Acl) -> str:
    pattern = acl.pattern
    fields = (pattern.resource_type.name, pattern.pattern_type.name, pattern.name)
    return "\t".join(("acl", *fields, acl.principal, acl.host, acl.operation.name, acl.permission.name))


Question = tuple[str, str, Operation, ResourceType, str | None]


def some_question(dice: Random) -> Question:
    """A name of None asks about any resource of the type."""
    kind = dice.choice([ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER])
    operation = dice.choice(sorted(OPERATIONS[kind]))
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else dice.choice(NAMES)
    of_any = kind is not ResourceType.CLUSTER and dice.random() < 0.3
    return dice.choice(PRINCIPALS), dice.choice(HOSTS), operation, kind, None if of_any else name


def asked(question: Question) -> str:
    principal, host, operation, kind, name = question
    fields = ("any" if name is None else "ask", principal, host, operation.name, kind.name)
    return "\t".join(fields if name is None else (*fields, name))


def answers_of_java(lines: Sequence[str]) -> Iterator[bool]:
    source = Path(__file__).with_name("Authorize.java")
    command = ["java", "-XX:TieredStopAtLevel=1", _QUIET, "-cp", f"{jars()}/*", str(source)]
    ran = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return iter([answer == "ALLOWED" for answer in ran.stdout.split()])


def ours(authorizer: Authorizer, question: Question) -> bool:
    principal, host, operation, kind, name = question
    if name is None:
        return authorizer.allowed_for_any(principal, host, operation, kind)
    return authorizer.allowed(principal, host, operation, kind, name)


def test_decisions_are_those_of_kafkas_authorizer() -> None:
    dice = Random(18)
    sets = []
    lines: list[str] = []
    for _ in range(600):
        acls = sorted({some_acl(dice) for _ in range(dice.choice([0, 1, 2, 3, 5, 8, 20]))})
        is_open = dice.random() < 0.3
        questions = [some_question(dice) for _ in range(40)]
        sets.append((acls, is_open, questions))
        lines += ["next", *(["open"] if is_open else []), *map(line, acls), *map(asked, questions)]
    theirs = answers_of_java(lines)
    told = set()
    for acls, is_open, questions in sets:
        authorizer = Authorizer(Acls(acls), super_users=frozenset({"User:root"}), allow_if_no_acl=is_open)
        for question in questions:
            expected = next(theirs)
            told.add(expected)
            assert ours(authorizer, question) is expected, (question, is_open, "\n".join(map(line, acls)))
    assert next(theirs, None) is None
    assert told == {True, False}
