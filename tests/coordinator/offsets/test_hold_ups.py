"""Members that wait long for offsets in an open transaction are reported, once, and so is the end of their wait."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator import Effects
from kohort.coordinator.hold_ups import HOLD_UP_MS
from kohort.group_events import GroupEvent, HoldUpEnd, OffsetsHeldUp
from kohort.model import TopicPartition
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.offsets.test_transactional_commits import ONE, OTHER, UNSTABLE, TransactionalShell

BOTH = (TopicPartition("orders", 0), TopicPartition("orders", 1))


class WatchedShell(TransactionalShell):
    """A shell that keeps events."""

    def __post_init__(self) -> None:
        self.events: list[GroupEvent] = []
        super().__post_init__()

    def apply(self, effects: Effects) -> Effects:
        self.events += effects.events
        return super().apply(effects)

    def ask_for(self, milliseconds: int, *, stable: bool = True) -> list[GroupEvent]:
        """Ask for offsets as a member does that waits; return the events."""
        self.events.clear()
        for _ in range(milliseconds // 500):
            self.positions(stable=stable)
            self.now += 500
        self.positions(stable=stable)
        return list(self.events)


def waiting() -> WatchedShell:
    """Return a shard whose member has waited so long that it was reported."""
    shell = WatchedShell()
    shell.commit(ONE, 30, 40, transactional_id="copier-1")
    assert len(shell.ask_for(HOLD_UP_MS)) == 1
    return shell


def test_a_long_wait_is_reported_once_with_all_that_an_operator_needs() -> None:
    shell = WatchedShell()
    shell.commit(ONE, 30, transactional_id="copier-1")
    shell.now += 1_000
    shell.commit(ONE, 30, 40, transactional_id="copier-1")
    pending_since, waiting_since = shell.now, shell.now + 60_000
    shell.now = waiting_since
    assert shell.ask_for(HOLD_UP_MS - 500) == [], "nobody waited before the first request"
    [report] = shell.ask_for(500)
    assert report == OffsetsHeldUp("g", ONE, "copier-1", BOTH, pending_since, waiting_since)
    assert shell.ask_for(10 * HOLD_UP_MS) == []


@pytest.mark.parametrize(("commit", "how"), [(True, HoldUpEnd.COMMITTED), (False, HoldUpEnd.ABORTED)])
def test_the_end_of_a_reported_wait_is_reported(commit: bool, how: HoldUpEnd) -> None:
    shell = waiting()
    [end] = shell.end(ONE, commit=commit)
    assert isinstance(end, OffsetsHeldUp)
    assert (end.end, end.transactional_id, end.partitions) == (how, "copier-1", BOTH)
    shell.commit(ONE, 31)
    assert shell.ask_for(HOLD_UP_MS - 500) == [], "the wait for the next transaction begins anew"


def test_a_short_wait_and_clients_that_do_not_wait_are_not_reported() -> None:
    shell = WatchedShell()
    shell.commit(ONE, 30)
    assert shell.ask_for(2 * HOLD_UP_MS, stable=False) == []
    assert shell.ask_for(HOLD_UP_MS - 1_000) == []
    assert shell.end(ONE, commit=True) == []


def test_each_transaction_that_a_group_waits_for_is_reported() -> None:
    shell = WatchedShell()
    shell.commit(ONE, 30, transactional_id="copier-1")
    assert shell.ask_for(2_000) == []
    shell.commit(OTHER, 50, transactional_id="copier-2")
    reports: list[Any] = shell.ask_for(2 * HOLD_UP_MS)
    assert [(report.transactional_id, report.waiting_since - shell.now) for report in reports] == [
        ("copier-1", -2 * HOLD_UP_MS - 2_000),
        ("copier-2", -2 * HOLD_UP_MS),
    ]
    assert len(shell.end(OTHER, commit=True)) == 1
    assert shell.positions() == [UNSTABLE, -1]
    assert len(shell.end(ONE, commit=True)) == 1


def test_after_a_failover_the_wait_is_reported_again_by_the_id_of_the_producer() -> None:
    shell = waiting()
    shell.fail_over()
    reports: list[Any] = shell.ask_for(HOLD_UP_MS)
    assert [(report.transactional_id, report.producer_id, report.partitions) for report in reports] == [
        (None, ONE, BOTH)
    ]


@pytest.mark.parametrize("how", ["group", "offsets", "topic"])
def test_a_wait_ends_with_the_deletion_of_all_its_offsets(how: str) -> None:
    shell = waiting()

    def delete(*indexes: int) -> None:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        topic = OffsetDeleteRequestTopic(name="orders", partitions=partitions)
        shell.handle(OffsetDeleteRequest(group_id="g", topics=[topic]), "delete", 0)

    shell.events.clear()
    if how == "group":
        shell.handle(DeleteGroupsRequest(groups_names=["g"]), "delete", 2)
    elif how == "topic":
        shell.apply(shell.shard.topics_deleted(["orders"], shell.now))
    else:
        delete(0)
        assert shell.events == [], "the other partition is still pending"
        delete(1)
    [end] = shell.events
    assert isinstance(end, OffsetsHeldUp)
    assert end.end is HoldUpEnd.DELETED
    assert shell.end(ONE, commit=True) == []
