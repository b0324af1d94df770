"""What the storm reads from the brokers at the end of a run."""

from __future__ import annotations

from kohort.group_events import MemberFacts
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger
from tests.chaos.holdings import removals


def test_members_that_were_removed_as_their_connections_closed_are_read_from_the_journal() -> None:
    names = ("lost", "idle", "left")
    rebalance = RebalanceRecord(
        "g",
        7,
        started_at=1_000,
        ended_at=2_000,
        before=tuple(MemberFacts(f"{name}-id", name, "127.0.0.1") for name in names),
        gone=(
            Trigger("connection lost", "lost-id"),
            Trigger("connection lost", "idle-id"),
            Trigger("member left", "left-id"),
        ),
        partitions=(
            PartitionChange("t", 0, "left-id", "new-id", revoked_at=900),
            PartitionChange("t", 1, "lost-id", "new-id", revoked_at=800),
        ),
    )
    assert list(removals(rebalance)) == [("lost-id", "lost", 800), ("idle-id", "idle", 2_000)]
