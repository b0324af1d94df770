"""A group that changes its protocol: Kafka deletes it and writes it anew, in one batch (KIP-848)."""

from __future__ import annotations

import pytest

from tests.watch.log import ORDERS, Log


@pytest.fixture
def log() -> Log:
    log = Log()
    log.watcher.name_topics({ORDERS: "orders"})
    return log


def test_the_members_of_a_classic_group_go_on_in_the_consumer_protocol(log: Log) -> None:
    log.generation(1_000, 4, a=(0, 1), b=(2,))
    log.classic_deleted(5_000)
    for name in "ab":
        log.member(5_000, name)
    log.epoch(5_000, 4)
    log.target(5_000, 4)
    log.current(5_000, "a", (4, 4), (0, 1))
    assert log.current(5_000, "b", (4, 4), (2,)) == []
    log.member(5_000, "c")
    log.epoch(5_000, 5)
    log.target(5_000, 5)
    log.current(5_000, "c", (0, 5), (), waits=True)
    log.current(6_000, "a", (4, 4), (0,), revoking=(1,))
    log.current(7_000, "a", (4, 5), (0,))
    log.current(7_000, "b", (4, 5), (2,))
    [record] = log.current(8_000, "c", (5, 5), (1,))
    assert [(trigger.cause, trigger.member_id) for trigger in record.triggers] == [("member joined", "c")]
    assert [(change.partition, change.previous_owner, change.owner) for change in record.partitions] == [(1, "a", "c")]
    assert [member.member_id for member in record.came] == ["c"]


def test_the_members_of_a_consumer_group_go_on_in_the_classic_protocol(log: Log) -> None:
    for name, share in (("a", (0, 1)), ("b", (2,)), ("c", (3,))):
        log.member(1_000, name)
        log.epoch(1_000, ord(name) - 96)
        log.target(1_000, ord(name) - 96)
        log.current(1_000, name, (0, ord(name) - 96), share)
    for name in "ab":
        log.current(2_000, name, (2, 3), (0, 1) if name == "a" else (2,))
    for name in "abc":
        log.member_deleted(5_000, name)
    log.consumer_deleted(5_000)
    assert log.generation(5_000, 3, a=(0, 1), b=(2,)) == []
    [record] = log.generation(5_200, 4, a=(0, 1), b=(2, 3))
    assert [(trigger.cause, trigger.member_id) for trigger in record.triggers] == [("member left or expired", "c")]
    assert [member.member_id for member in record.went] == ["c"]
    assert {change.partition: change.previous_owner for change in record.partitions} == {0: "a", 1: "a", 2: "b", 3: "c"}


def test_a_static_member_that_returns_with_the_classic_protocol_takes_over(log: Log) -> None:
    log.member(1_000, "a")
    log.epoch(1_000, 1)
    log.target(1_000, 1)
    log.current(1_000, "a", (0, 1), (0, 1))
    log.member_deleted(5_000, "a")
    log.consumer_deleted(5_000)
    [record] = log.generation(5_000, 1, b=(0, 1))
    assert record.cause == "static member returned"
    assert [(change.previous_owner, change.owner) for change in record.partitions] == [("a", "b"), ("a", "b")]


def test_a_group_that_was_deleted_begins_anew(log: Log) -> None:
    log.generation(1_000, 4, a=(0, 1))
    log.generation(2_000, 5)
    log.classic_deleted(5_000)
    log.member(9_000, "a")
    log.epoch(9_000, 1)
    log.target(9_000, 1)
    [record] = log.current(9_000, "a", (0, 1), (0, 1))
    assert record.cause == "first member"
    assert [change.previous_owner for change in record.partitions] == [None, None]
    assert list(log.group.rebalances) == [record], "nothing is left of the group before"
