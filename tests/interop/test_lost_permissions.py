"""A member of our client loses an ACL while it reads, and gets it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kohort import KafkaError, blocking
from kohort.errors import ErrorCode
from tests.interop.clients import Confluent
from tests.interop.mixed.login import Login
from tests.interop.process import until
from tests.interop.secured import SecuredBroker

pytestmark = pytest.mark.interop

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"heartbeat_interval_ms": 200, "session_timeout_ms": 6_000},
    "consumer": {"group_protocol": "consumer"},
}


@contextmanager
def member(login: Login, topic: str, protocol: str) -> Iterator[blocking.Consumer]:
    options: dict[str, Any] = {**login.python(), **PROTOCOLS[protocol], "auto_offset_reset": "earliest"}
    with blocking.Consumer(
        topic, group_id=topic, bootstrap_servers=login.bootstrap, metadata_max_age_ms=1_000, **options
    ) as consumer:
        yield consumer


def read(consumer: blocking.Consumer, count: int) -> list[str]:
    """Read that many records, and commit them."""
    found: list[str] = []

    def complete() -> bool:
        found.extend(values(consumer))
        return len(found) >= count

    until(20.0, f"{count} records", complete)
    consumer.commit()
    return found


def values(consumer: blocking.Consumer) -> list[str]:
    return [bytes(record.value or b"").decode() for record in consumer.poll(timeout=0.5)]


def refusal(consumer: blocking.Consumer) -> KafkaError:
    """Return the error that a member gets when it may not go on."""
    with pytest.raises(KafkaError) as refused:
        until(20.0, "an error", lambda: values(consumer) and False)
    return refused.value


@pytest.fixture
def alice(secured: SecuredBroker, fresh: str) -> Login:
    """A user who may read a topic as a member of a group, both of that name."""
    Confluent().create_topic(secured.bootstrap, fresh, 1)
    secured.allow("alice", "READ", topic=fresh)
    secured.allow("alice", "READ", group=fresh)
    return secured.login("alice", "SCRAM-SHA-512")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_may_not_read_its_group_ends_and_the_next_goes_on(
    secured: SecuredBroker, alice: Login, fresh: str, protocol: str
) -> None:
    Confluent().produce(secured.bootstrap, fresh, ["1", "2"], "none")
    with member(alice, fresh, protocol) as consumer:
        assert read(consumer, 2) == ["1", "2"]
        secured.no_longer_allow("alice", "READ", group=fresh)
        problem = refusal(consumer)
    assert (problem.code, problem.retriable) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, False)
    assert fresh in str(problem)

    secured.allow("alice", "READ", group=fresh)
    Confluent().produce(secured.bootstrap, fresh, ["3"], "none")
    with member(alice, fresh, protocol) as consumer:
        assert read(consumer, 1) == ["3"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_may_not_read_its_topic_goes_on_when_it_may_again(
    secured: SecuredBroker, alice: Login, fresh: str, protocol: str
) -> None:
    Confluent().produce(secured.bootstrap, fresh, ["1", "2"], "none")
    with member(alice, fresh, protocol) as consumer:
        assert read(consumer, 2) == ["1", "2"]
        secured.no_longer_allow("alice", "READ", topic=fresh)
        problem = refusal(consumer)
        assert (problem.code, problem.retriable) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False)
        assert fresh in str(problem)

        Confluent().produce(secured.bootstrap, fresh, ["3"], "none")
        secured.allow("alice", "READ", topic=fresh)
        again: list[str] = []

        def reads_again() -> bool:
            try:
                again.extend(values(consumer))
            except KafkaError as refused:  # until the ACL is in effect
                assert refused.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return again == ["3"]

        until(20.0, "the member reads on", reads_again)
