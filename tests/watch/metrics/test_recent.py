"""Figures over the last hour."""

import pytest

from kohort.group_events import Cause, MemberFacts
from kohort.recorder import PartitionChange, RebalanceRecord, Trigger
from kohort.watch.metrics.recent import WINDOW_MS, Recent

MINUTE = 60_000


def member(number: int, host: str = "/h") -> MemberFacts:
    return MemberFacts(f"{host}-{number}", f"client-{number}", host)


def record(generation: int, at: int, before: list[MemberFacts], after: list[MemberFacts]) -> RebalanceRecord:
    return RebalanceRecord("g", generation, None, at, protocol="range", before=tuple(before), after=tuple(after))


def test_a_group_without_rebalances_never_changes() -> None:
    assert Recent.of([], 5) == Recent()
    assert Recent.of([record(1, 10, [], [member(1)])], 10 + WINDOW_MS).changes_at is None


def test_a_member_that_went_is_missing_until_it_comes_back_or_is_replaced() -> None:
    one, two = member(1), member(2)
    went = record(2, MINUTE, [one, two], [one])
    assert Recent.of([went], 2 * MINUTE).missing == 1
    back = record(3, 3 * MINUTE, [one], [one, MemberFacts("new id", two.client_id, two.client_host)])
    assert Recent.of([went, back], 4 * MINUTE).missing == 0
    other = record(3, 3 * MINUTE, [one], [one, member(3)])
    assert Recent.of([went, other], 4 * MINUTE).missing == 0


@pytest.mark.parametrize(
    ("cause", "missing"),
    [(Cause.MEMBER_LEFT, 0), (Cause.REMOVED_BY_ADMIN, 0), (Cause.SESSION_EXPIRED, 1), (Cause.POLL_TIMEOUT, 1)],
)
def test_a_member_that_left_on_purpose_is_not_missing(cause: Cause, missing: int) -> None:
    one, two = member(1), member(2)
    gone = (Trigger(cause.value, two.member_id),)
    left = RebalanceRecord("g", 2, None, MINUTE, before=(one, two), after=(one,), gone=gone)
    assert Recent.of([left], 2 * MINUTE).missing == missing


def test_figures_change_when_the_oldest_rebalance_leaves_the_window() -> None:
    one, two = member(1), member(2)
    went = record(2, MINUTE, [one, two], [one])
    same = record(3, 40 * MINUTE, [one], [one])
    recent = Recent.of([went, same], 50 * MINUTE)
    assert (recent.missing, recent.changes_at) == (1, MINUTE + WINDOW_MS)
    assert Recent.of([went, same], MINUTE + WINDOW_MS).missing == 0


def test_a_member_that_comes_back_three_times_flaps_and_its_group_thrashes() -> None:
    one = member(1)
    records = []
    for turn in range(4):
        new = MemberFacts(f"id {turn}", "client-2", "/h")
        records += [
            record(2 * turn + 1, (2 * turn + 1) * MINUTE, [one], [one, new]),
            record(2 * turn + 2, (2 * turn + 2) * MINUTE, [one, new], [one]),
        ]
    recent = Recent.of(records, 9 * MINUTE)
    assert (recent.flapping, recent.thrashing) == (1, True)
    assert recent.changes_at == 13 * MINUTE
    assert not Recent.of(records, 13 * MINUTE).thrashing
    assert Recent.of(records, 13 * MINUTE).flapping == 1


def test_the_slowest_revocation_is_that_of_a_member_that_stayed() -> None:
    one, two = member(1), member(2)
    changes = (
        PartitionChange("orders", 0, one.member_id, two.member_id, 1_400, 2_000),
        PartitionChange("orders", 1, two.member_id, one.member_id, 1_700, 2_000),
        PartitionChange("orders", 2, "gone", one.member_id, 1_900, 2_000),
    )
    slow = RebalanceRecord("g", 2, 1_000, 2_000, before=(one, two), after=(one, two), partitions=changes)
    recent = Recent.of([slow], 3_000)
    assert (recent.slowest_revocation_ms, recent.slowest_client_id) == (700, "client-2")
