"""All rules, and the findings that they make of a group. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from kohort.model import Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.findings import membership, progress, rebalancing, transactions
from kohort.watch.findings.clients import MemberTelemetry
from kohort.watch.findings.facts import Facts, LagSeries
from kohort.watch.findings.finding import KINDS, Finding
from kohort.watch.group import WatchedGroup
from kohort.watch.lag import EndOffsets

Rule = Callable[[Facts], Iterator[Finding]]

HURTING: tuple[Rule, ...] = (
    progress.offsets_out_of_range,
    progress.stuck_partition,
    progress.dark_partition,
    transactions.waits_for_transaction,
    progress.group_emptied,
    progress.lag_grows,
    rebalancing.thrashing,
    rebalancing.slow_revoker,
    membership.flapping_member,
    membership.poll_too_slow,
)
"""Rules whose findings may mark a group as one that hurts."""
ADVISING: tuple[Rule, ...] = (
    rebalancing.member_refused,
    rebalancing.needless,
    rebalancing.assignors_differ,
    rebalancing.static_membership,
    rebalancing.rolling_restart,
    rebalancing.eager_assignor,
    rebalancing.heartbeats_out_of_step,
    rebalancing.classic_protocol,
    membership.idle_members,
    membership.unbalanced,
    membership.subscriptions_differ,
    membership.clients_differ,
)
_ORDER = {code: position for position, code in enumerate(KINDS)}


def findings(
    group: WatchedGroup,
    records: Iterable[RebalanceRecord],
    now: Millis,
    telemetry: Mapping[str, MemberTelemetry] | None = None,
    *,
    ends: Mapping[TopicPartition, EndOffsets] | None = None,
    lags: LagSeries = (),
) -> list[Finding]:
    """Return the findings about a group, the ones that matter most first.

    - `records`: Records of its rebalances; only those of the last hour count.
    - `telemetry`: What clients reported, by member ID.
    - `ends`: End offsets. Without them, nothing is said about progress.
    - `lags`: Lag of the group in seconds over the last 20 minutes or more.
    """
    return _found((*HURTING, *ADVISING), Facts(group, records, now, ends or {}, lags, telemetry or {}))


def hurts(
    group: WatchedGroup,
    records: Iterable[RebalanceRecord],
    now: Millis,
    telemetry: Mapping[str, MemberTelemetry] | None = None,
    *,
    ends: Mapping[TopicPartition, EndOffsets] | None = None,
    lags: LagSeries = (),
) -> list[str]:
    """Return why a group hurts now, each as a short sentence without a full stop; empty if it does not."""
    found = hurting(group, records, now, telemetry, ends=ends, lags=lags)
    return list(dict.fromkeys(finding.title for finding in found))


def hurting(
    group: WatchedGroup,
    records: Iterable[RebalanceRecord],
    now: Millis,
    telemetry: Mapping[str, MemberTelemetry] | None = None,
    *,
    ends: Mapping[TopicPartition, EndOffsets] | None = None,
    lags: LagSeries = (),
) -> list[Finding]:
    """Return the findings that mark a group as one that hurts now. Cheaper than `findings`."""
    found = _found(HURTING, Facts(group, records, now, ends or {}, lags, telemetry or {}))
    return [finding for finding in found if finding.hurts]


def _found(rules: Iterable[Rule], facts: Facts) -> list[Finding]:
    found = [finding for rule in rules for finding in rule(facts)]
    return sorted(found, key=lambda finding: _ORDER[finding.code])
