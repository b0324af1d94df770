"""Metrics of a member from its phases and requests, at times that the test gives."""

from __future__ import annotations

from math import isnan

import pytest

from kohort.client.membership import GroupMetrics
from kohort.client.metrics import Report, Sampling
from kohort.member import CallbackKind, Phase
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest

NOW = 5_000.0


class Member:
    """A member whose phases follow each other."""

    def __init__(self) -> None:
        self.metrics = GroupMetrics(Sampling())
        self._phase = Phase.UNSUBSCRIBED

    def enter(self, **phases: float) -> None:
        """Enter phases at these seconds after NOW."""
        for name, at in phases.items():
            before, self._phase = self._phase, Phase[name]
            self.metrics.entered(self._phase, before, NOW + at)

    def read(self, after: float) -> dict[str, float]:
        report = Report("c", NOW + after)
        self.metrics.report(report, assigned=3, classic=True)
        return {name.name: float(value) for name, value in report.values.items()}


def test_a_rebalance_lasts_until_the_member_is_stable() -> None:
    member = Member()
    member.enter(PREPARING=1.0, JOINING=2.0, SYNCING=3.0, STABLE=3.5)
    found = member.read(10.0)
    assert (found["rebalance-latency-avg"], found["rebalance-latency-total"]) == (2_500, 2_500)
    assert (found["rebalance-total"], found["failed-rebalance-total"]) == (1, 0)
    assert found["last-rebalance-seconds-ago"] == 6
    assert found["rebalance-rate-per-hour"] == pytest.approx(1, rel=0.01)
    assert found["assigned-partitions"] == 3


def test_an_attempt_without_a_result_is_a_failed_rebalance_and_its_time_counts() -> None:
    member = Member()
    member.enter(PREPARING=0.0, JOINING=0.5, SYNCING=1.0)
    member.enter(PREPARING=2.0, JOINING=2.5)
    member.enter(SYNCING=3.0, STABLE=4.0)
    found = member.read(4.0)
    assert (found["failed-rebalance-total"], found["rebalance-total"], found["rebalance-latency-max"]) == (1, 1, 4_000)


@pytest.mark.parametrize("phase", ["STALE", "LEAVING", "UNSUBSCRIBED", "FATAL"])
def test_a_member_that_leaves_ends_its_rebalance_without_a_time(phase: str) -> None:
    member = Member()
    member.enter(PREPARING=0.0, JOINING=1.0, **{phase: 2.0})
    member.enter(PREPARING=100.0, JOINING=100.5, SYNCING=101.0, STABLE=102.0)
    assert member.read(102.0)["rebalance-latency-total"] == 2_000


def test_a_reconciliation_of_a_consumer_group_is_a_rebalance() -> None:
    member = Member()
    member.enter(JOINING=0.0, RECONCILING=1.0, ACKNOWLEDGING=1.5, STABLE=2.0)
    member.enter(RECONCILING=10.0)
    member.enter(ACKNOWLEDGING=10.5, STABLE=11.0)
    found = member.read(11.0)
    assert (found["rebalance-total"], found["rebalance-latency-total"]) == (2, 3_000)


def test_requests_to_the_coordinator_have_their_own_times() -> None:
    member = Member()
    metrics = member.metrics
    metrics.sent(HeartbeatRequest(), NOW)
    metrics.answered(HeartbeatRequest(), 0.25, NOW)
    metrics.sent(JoinGroupRequest(), NOW)
    metrics.answered(JoinGroupRequest(), 0.5, NOW)
    metrics.answered(SyncGroupRequest(), 0.125, NOW)
    metrics.called_back(CallbackKind.REVOKE, 2.0, NOW)
    found = member.read(7.5)
    assert (found["heartbeat-total"], found["last-heartbeat-seconds-ago"]) == (1, 7)
    assert (found["heartbeat-response-time-max"], found["join-time-avg"], found["sync-time-max"]) == (250, 500, 125)
    assert (found["join-total"], found["sync-total"], found["partition-revoked-latency-max"]) == (1, 1, 2_000)
    assert isnan(found["partition-assigned-latency-avg"])


def test_what_never_happened_was_minus_one_seconds_ago() -> None:
    found = Member().read(0.0)
    assert found["last-heartbeat-seconds-ago"] == found["last-rebalance-seconds-ago"] == -1
