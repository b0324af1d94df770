"""Findings: each with a group that has it, and a similar group that does not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kohort.group_events import Cause, MemberFacts
from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import HeldOffsets, PartitionChange, RebalanceRecord, RefusedMember, Trigger
from kohort.watch import Commit, EndOffsets, EndPoint, WatchedGroup, WatchedMember
from kohort.watch.findings import KINDS, Finding, LagTrails, MemberTelemetry, findings, hurts, shown

NOW = 1_700_000_000_000
SECOND, MINUTE = 1_000, 60_000
ROOT = Path(__file__).parent.parent.parent


def facts(name: str, host: str = "/10.0.0.1") -> MemberFacts:
    """Member whose client ID is what precedes the digits of its ID."""
    return MemberFacts(name, name.rstrip("0123456789"), host)


def orders(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


@dataclass
class Heartbeat:
    client_software: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Case:
    """A stable group of `members`, and what happened to it."""

    members: Mapping[str, tuple[int, ...]]
    type: str | None = "classic"
    protocol: str | None = "cooperative-sticky"
    records: list[RebalanceRecord] = field(default_factory=list)
    commits: Mapping[int, tuple[int, Millis | None]] = field(default_factory=dict)
    """Offset and age of the commit, by partition."""
    ends: Mapping[int, list[tuple[Millis, int]]] = field(default_factory=dict)
    """Age and end offset, by partition."""
    starts: Mapping[int, int] = field(default_factory=dict)
    lags: Sequence[tuple[Millis, float | None]] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    telemetry: Mapping[str, MemberTelemetry] = field(default_factory=dict)

    def group(self) -> WatchedGroup:
        group = WatchedGroup("g", self.type, 9, 9, self.protocol, "consumer")
        for name, owned in self.members.items():
            topics = frozenset(self.topics.get(name, "orders").split())
            group.members[name] = WatchedMember(facts(name), topics, epoch=9, owned=orders(*owned))
        for number, (offset, age) in self.commits.items():
            group.commits[TopicPartition("orders", number)] = Commit(offset, None if age is None else NOW - age)
        return group

    def _ends(self) -> dict[TopicPartition, EndOffsets]:
        found = {}
        for number, points in self.ends.items():
            table = found[TopicPartition("orders", number)] = EndOffsets()
            for age, end in points:
                table.add(NOW - age, end)
            if number in self.starts:
                table.insert(0, EndPoint(NOW - 3_600_000, self.starts[number]))
        return found

    def findings(self) -> list[Finding]:
        return findings(self.group(), self.records, NOW, self.telemetry, ends=self._ends(), lags=self.lags)

    def hurts(self) -> list[str]:
        return hurts(self.group(), self.records, NOW, self.telemetry, ends=self._ends(), lags=self.lags)

    def codes(self) -> set[str]:
        return {finding.code for finding in self.findings()}


def rebalanced(
    *stays: tuple[Millis, str, str],
    protocol: str | None = "cooperative-sticky",
    cause: Cause = Cause.MEMBER_GONE,
    partitions: tuple[PartitionChange, ...] = (),
    began: Millis | None = None,
) -> list[RebalanceRecord]:
    """Records: (age, members before, members after), separated by spaces; `began` milliseconds before their end."""
    return [
        RebalanceRecord(
            "g",
            number,
            None if began is None else NOW - age - began,
            NOW - age,
            (Trigger(cause.value),),
            protocol,
            before=tuple(map(facts, before.split())),
            after=tuple(map(facts, after.split())),
            gone=tuple(Trigger(cause.value, name) for name in before.split() if name not in after.split()),
            partitions=partitions,
        )
        for number, (age, before, after) in enumerate(stays, 1)
    ]


def waits(age: Millis, end: str | None = None, producer_id: int = 7) -> RebalanceRecord:
    """Members waited from three minutes ago for offsets of partitions 0 and 1."""
    since = NOW - 3 * MINUTE
    held = HeldOffsets(producer_id, "copier", since - SECOND, since, tuple(sorted(orders(0, 1))), end)
    return RebalanceRecord("g", 0, None, NOW - age, held_offsets=held)


def bounce(times: int, away: Millis = 20 * SECOND, last: Millis = 2 * MINUTE) -> list[RebalanceRecord]:
    """Member `a` leaves and comes back under a new ID, every four minutes; `last` is the age of the last return."""
    stays = []
    for n in range(times):
        age = last + (times - 1 - n) * 4 * MINUTE
        stays += [(age + away, f"a{n} z", "z"), (age, "z", f"a{n + 1} z")]
    return rebalanced(*stays)


def restart(names: str, last: Millis = 10 * MINUTE, away: Millis = 20 * SECOND) -> list[RebalanceRecord]:
    """Each member leaves and comes back under a new ID, a minute later the next."""
    here = [f"{name}1" for name in names]
    stays = []
    for n, name in enumerate(names):
        age = last + (len(names) - 1 - n) * MINUTE
        without = [each for each in here if each != f"{name}1"]
        stays.append((age + away, " ".join(here), " ".join(without)))
        here = [*without, f"{name}2"]
        stays.append((age, " ".join(without), " ".join(here)))
    return rebalanced(*stays)


def moves(*pairs: str, stopped: Mapping[str, Millis] | None = None) -> tuple[PartitionChange, ...]:
    """Partition n moves from the first to the second of pair n; `stopped` says when a previous owner stopped."""
    return tuple(
        PartitionChange("orders", n, pair[0], pair[1], (stopped or {}).get(pair[0])) for n, pair in enumerate(pairs)
    )


def eager(number: int, *pairs: str, stopped: Mapping[str, Millis] | None = None) -> list[RebalanceRecord]:
    ages = [10 * MINUTE * (n + 1) for n in range(number)][::-1]
    return [
        RebalanceRecord(
            "g",
            n,
            NOW - age - 5 * SECOND,
            NOW - age,
            (Trigger(Cause.LEADER_REJOINED.value),),
            "range",
            before=(facts("a"), facts("b")),
            after=(facts("a"), facts("b")),
            partitions=moves(*pairs, stopped={owner: NOW - age + at for owner, at in (stopped or {}).items()}),
        )
        for n, age in enumerate(ages, 1)
    ]


TWO = {"a": (0, 1), "b": (2, 3)}
ALIVE = {0: (10, 5 * SECOND), 1: (10, 5 * SECOND), 2: (10, 5 * SECOND), 3: (10, 5 * SECOND)}
IDLE = "org.apache.kafka.consumer.poll.idle.ratio.avg"
REFUSED = RefusedMember("x", "billing", "/10.0.0.9", "INCONSISTENT_GROUP_PROTOCOL", "no assignor in common")
JOINED = Cause.MEMBER_JOINED

CASES: dict[str, tuple[Case, Case]] = {
    "offset-out-of-range": (
        Case(TWO, commits=ALIVE, ends={0: [(0, 500)]}, starts={0: 40}),
        Case(TWO, commits=ALIVE, ends={0: [(0, 500)]}, starts={0: 10}),
    ),
    "offset-beyond-end": (
        Case(TWO, commits=ALIVE, ends={0: [(0, 7)]}),
        Case(TWO, commits=ALIVE, ends={0: [(9 * SECOND, 7)]}),  # the end is older than the commit
    ),
    "stuck-partition": (
        Case(TWO, commits=ALIVE | {0: (10, 8 * MINUTE)}, ends={0: [(9 * MINUTE, 10), (7 * MINUTE, 11), (0, 90)]}),
        # The first record came just now, so nothing waited before.
        Case(TWO, commits=ALIVE | {0: (10, 8 * MINUTE)}, ends={0: [(9 * MINUTE, 10), (MINUTE, 10), (0, 90)]}),
    ),
    "nothing-committed": (
        Case(
            {"a": (0, 1)},
            commits={0: (10, 8 * MINUTE), 1: (10, 9 * MINUTE)},
            ends={0: [(9 * MINUTE, 10), (7 * MINUTE, 11), (0, 90)]},
        ),
        Case({"a": (0, 1)}, commits={0: (10, 8 * MINUTE)}, ends={0: [(9 * MINUTE, 10), (0, 10)]}),
    ),
    "dark-partition": (
        Case({"a": (0,), "b": (2,)}, commits=ALIVE),
        # The rebalance may not be over.
        Case({"a": (0,), "b": (2,)}, commits=ALIVE, records=rebalanced((20 * SECOND, "a", "a b"), cause=JOINED)),
    ),
    "group-emptied": (
        Case({}, commits=ALIVE, ends={0: [(0, 60)]}, records=rebalanced((5 * MINUTE, "a", ""))),
        Case({}, commits=ALIVE, ends={0: [(0, 10)]}, records=rebalanced((5 * MINUTE, "a", ""))),
    ),
    "thrashing": (
        Case(TWO, records=rebalanced(*((n * 30 * SECOND, "a b", "b a") for n in range(6, 0, -1)))),
        Case(TWO, records=rebalanced(*((n * 30 * SECOND, "a b", "b a") for n in range(5, 0, -1)))),
    ),
    "flapping-member": (Case(TWO, records=bounce(3)), Case(TWO, records=bounce(2))),
    "poll-too-slow": (
        Case(TWO, records=rebalanced((MINUTE, "a b", "b"), cause=Cause.POLL_TIMEOUT)),
        Case(TWO, records=rebalanced((MINUTE, "a b", "b"), cause=Cause.SESSION_EXPIRED)),
    ),
    "lag-grows": (
        Case(TWO, lags=[(NOW - 15 * MINUTE, 10.0), (NOW - 8 * MINUTE, 100.0), (NOW, 200.0)]),
        Case(TWO, lags=[(NOW - 15 * MINUTE, 10.0), (NOW - 8 * MINUTE, 300.0), (NOW, 200.0)]),
    ),
    "waits-for-transaction": (
        Case(TWO, records=[waits(2 * MINUTE)]),
        Case(TWO, records=[waits(2 * MINUTE), waits(MINUTE, end="aborted")]),
    ),
    "slow-revoker": (
        Case(
            TWO,
            records=rebalanced(
                (MINUTE, "a b", "a b c"),
                cause=JOINED,
                partitions=moves("ac", "bc", stopped={"a": NOW - MINUTE - SECOND, "b": NOW - MINUTE - 19 * SECOND}),
                began=20 * SECOND,
            ),
        ),
        Case(
            TWO,
            records=rebalanced(
                (MINUTE, "a b", "a b c"),
                cause=JOINED,
                partitions=moves("ac", "bc", stopped={"a": NOW - MINUTE - SECOND, "b": NOW - MINUTE - 2 * SECOND}),
                began=20 * SECOND,
            ),
        ),
    ),
    "member-refused": (
        Case(TWO, records=[RebalanceRecord("g", 0, None, NOW - MINUTE, refused_members=(REFUSED,))]),
        Case(TWO, records=[RebalanceRecord("g", 0, None, NOW - 61 * MINUTE, refused_members=(REFUSED,))]),
    ),
    "needless-moves": (
        Case(TWO, records=rebalanced((MINUTE, "a b", "a b c"), cause=JOINED, partitions=moves("ab", "ba", "ab"))),
        Case(TWO, records=rebalanced((MINUTE, "a b", "a b c"), cause=JOINED, partitions=moves("ac", "bc", "ab"))),
    ),
    "assignors-differ": (
        Case(
            TWO,
            records=[
                RebalanceRecord("g", n, None, NOW - (9 - n) * MINUTE, protocol=name, before=(), after=(facts("a"),))
                for n, name in enumerate(("range", "sticky", "range"))
            ],
        ),
        Case(
            TWO,
            records=[
                RebalanceRecord("g", n, None, NOW - (9 - n) * MINUTE, protocol=name, before=(), after=(facts("a"),))
                for n, name in enumerate(("range", "sticky", "sticky"))
            ],
        ),
    ),
    "static-membership": (
        Case(TWO, records=bounce(1)),
        Case(TWO, records=bounce(1, away=46 * SECOND)),  # away for longer than the session
    ),
    "rolling-restart": (
        Case(TWO, records=restart("abcd")),
        Case(TWO, records=restart("a") + restart("b", last=30 * MINUTE)),  # one by one, hardly a deployment
    ),
    "eager-assignor": (
        Case(TWO, protocol="range", records=eager(2, "ab")),
        Case(TWO, protocol="range", records=eager(2, "ab", "ab", "ba", "ba")),  # everything moved anyway
    ),
    "heartbeats-out-of-step": (
        Case(TWO, protocol="range", records=eager(2, "aa", "bb", stopped={"a": -4_000, "b": -1_500})),
        Case(TWO, protocol="range", records=eager(2, "aa", "bb", stopped={"a": -4_000, "b": -3_900})),
    ),
    "classic-protocol": (
        Case(TWO, records=rebalanced((20 * MINUTE, "a", "a b"), (MINUTE, "a b", "a b c"), cause=JOINED)),
        Case(TWO, records=rebalanced((MINUTE, "a b", "a b c"), cause=JOINED)),
    ),
    "idle-members": (Case({"a": (0,), "b": (1,), "c": ()}), Case({"a": (0,), "b": (1,)})),
    "unbalanced": (Case({"a": (0, 1, 2), "b": (3,)}), Case({"a": (0, 1, 2), "b": (3, 4)})),
    "subscriptions-differ": (Case(TWO, topics={"a": "orders refunds"}), Case(TWO)),
    "clients-differ": (
        Case(TWO, telemetry={"a": Heartbeat("librdkafka 2.5.0"), "b": Heartbeat("librdkafka 2.12.1")}),
        Case(TWO, telemetry={"a": Heartbeat("librdkafka 2.5.0"), "b": Heartbeat(None)}),
    ),
}


@pytest.mark.parametrize("code", KINDS)
def test_a_group_that_has_it(code: str) -> None:
    case, _ = CASES[code]
    [finding] = [each for each in case.findings() if each.code == code]
    assert finding.text.endswith(".")
    assert finding.advice.endswith(".")
    assert re.search(r"\d|changed|librdkafka", finding.text), "a text without figures"
    document = json.loads(json.dumps(finding.to_json()))
    assert list(document) == ["code", "severity", "title", "text", "advice", "member_ids", "doc", "evidence"]
    assert (finding.title in case.hurts()) == KINDS[code].hurts


@pytest.mark.parametrize("code", KINDS)
def test_a_group_that_nearly_has_it(code: str) -> None:
    _, case = CASES[code]
    assert code not in case.codes()
    assert KINDS[code].title not in case.hurts()


def test_partitions_of_a_topic_without_a_name_are_not_called_dark_and_their_owner_not_idle() -> None:
    # Without Describe on a topic the log tells only its ID, and commits tell its name.
    cases = (
        Case({"a": (), "b": ()}, "consumer", "uniform", commits=ALIVE),
        Case({"a": (0, 1, 2, 3), "b": ()}, "consumer", "uniform", commits=ALIVE),
        Case({"a": (0,), "b": (), "c": ()}, "consumer", "uniform"),
    )
    for case in cases:
        group = case.group()
        assert {each.code for each in findings(group, (), NOW)} & {"dark-partition", "idle-members", "unbalanced"}
        group.members["b"].held = frozenset({(UUID(int=7), 0)})
        assert findings(group, (), NOW) == []


def test_each_transaction_that_a_group_waits_for_is_told_until_it_ends() -> None:
    case = Case(TWO, records=[waits(2 * MINUTE), waits(MINUTE, producer_id=8), waits(SECOND, "committed")])
    [finding] = [each for each in case.findings() if each.code == "waits-for-transaction"]
    assert "for 3 min for the offsets of orders-0, orders-1 in the open transaction" in finding.text
    assert "of copier (producer 8)" in finding.text
    assert "kohort transactions fence copier ends it" in finding.advice


def test_a_group_that_commits_again_does_not_wait_for_a_transaction() -> None:
    # A coordinator that failed meanwhile does not know that the group has waited, and does not report the end.
    after, before = {0: (5, SECOND), 1: (5, MINUTE)}, {0: (5, SECOND), 1: (5, 3 * MINUTE)}
    assert "waits-for-transaction" not in Case(TWO, records=[waits(2 * MINUTE)], commits=after).codes()
    assert "waits-for-transaction" in Case(TWO, records=[waits(2 * MINUTE)], commits=before).codes()


def test_a_quiet_group_has_no_findings() -> None:
    assert Case(TWO, commits=ALIVE, ends={0: [(0, 11)]}).findings() == []
    assert Case({}, type=None, commits=ALIVE, ends={0: [(0, 60)]}).findings() == []  # offsets of manual assignments


def test_findings_that_matter_most_come_first() -> None:
    case = Case({"a": (0, 1, 2), "b": (3,)}, commits=ALIVE, ends={0: [(0, 7)]}, records=bounce(3))
    severities = [finding.severity for finding in case.findings()]
    assert len(severities) > 2
    assert severities == sorted(severities, reverse=True)


# Rebalances


def test_a_rolling_restart_is_no_alarm() -> None:
    case = Case(TWO, records=restart("abcdef", last=MINUTE))
    assert case.hurts() == []
    [finding] = [each for each in case.findings() if each.code == "rolling-restart"]
    assert finding.evidence["rebalances"] == finding.evidence["saved"] == 12
    assert "would have saved 12 of them" in finding.text
    assert "may not be over" in finding.text


def test_a_restart_that_needs_further_rebalances_is_no_alarm() -> None:
    here = " ".join(f"{name}2" for name in "abcdef")
    further = rebalanced(*((n * 20 * SECOND, here, here) for n in (3, 2, 1)), cause=Cause.LEADER_REJOINED)
    case = Case(TWO, records=[*restart("abcdef", last=2 * MINUTE), *further])
    assert "rolling-restart" in case.codes()
    assert case.hurts() == []


def test_a_restart_whose_members_crash_again_is_an_alarm() -> None:
    stays = [(n * 20 * SECOND, f"a{n} z", f"a{n + 1} z") for n in range(12, 0, -1)]
    case = Case(TWO, records=rebalanced(*stays))
    assert "rolling-restart" not in case.codes()
    assert "The group does little else than rebalance" in case.hurts()


def test_static_members_are_not_told_to_become_static() -> None:
    static = [
        RebalanceRecord(
            "g", n, None, NOW - age,
            before=(MemberFacts(before, "a", "/h", "a-0"), facts("z")) if before else (facts("z"),),
            after=(MemberFacts(after, "a", "/h", "a-0"), facts("z")) if after else (facts("z"),),
        )
        for n, (age, before, after) in enumerate([(90 * SECOND, "a1", ""), (60 * SECOND, "", "a2")])
    ]  # fmt: skip
    assert "static-membership" not in Case(TWO, records=static).codes()


def test_a_rebalance_with_another_reason_would_have_happened_anyway() -> None:
    records = rebalanced((90 * SECOND, "a1 z", "z"), (60 * SECOND, "z", "a2 z new"))  # a new member, too
    assert "static-membership" not in Case(TWO, records=records).codes()


def test_what_is_over_is_still_a_finding_and_no_longer_hurts() -> None:
    case = Case(TWO, records=bounce(3, last=16 * MINUTE))
    assert "flapping-member" in case.codes()
    assert case.hurts() == []
    old = Case(TWO, records=bounce(3, last=61 * MINUTE))
    assert old.codes() == set()


def test_a_late_poll_marks_the_group_for_a_quarter_of_an_hour() -> None:
    for age, hurts_now in ((14 * MINUTE, True), (16 * MINUTE, False)):
        case = Case(TWO, records=rebalanced((age, "a b", "b"), cause=Cause.POLL_TIMEOUT))
        assert "poll-too-slow" in case.codes()
        assert bool(case.hurts()) == hurts_now


# Members


def test_a_member_that_leaves_at_the_limit_of_its_polls() -> None:
    def stay(length: Millis) -> list[RebalanceRecord]:
        ages = (30 * MINUTE, 30 * MINUTE - length, 20 * MINUTE, 20 * MINUTE - length)
        names = ("z", "a1 z"), ("a1 z", "z"), ("z", "a2 z"), ("a2 z", "z")
        return rebalanced(*((age, before, after) for age, (before, after) in zip(ages, names, strict=True)))

    case = Case(TWO, records=stay(305 * SECOND))
    [finding] = [each for each in case.findings() if each.code == "poll-too-slow"]
    assert "The log of the cluster does not have the reason" in finding.text
    assert finding.member_ids == ("a1", "a2")
    for length in (299, 365):
        assert "poll-too-slow" not in Case(TWO, records=stay(length * SECOND)).codes()


def test_a_member_that_hardly_ever_waits_for_records() -> None:
    for ratio, told in ((0.01, {"poll-too-slow"}), (0.4, set())):
        case = Case(TWO, telemetry={"a": Heartbeat("apache-kafka-java 4.3.1", {IDLE: ratio})})
        assert case.codes() == told


def test_a_member_without_partitions_has_nothing_to_wait_for() -> None:
    said = {name: Heartbeat("apache-kafka-java 4.3.1", {IDLE: 0.01}) for name in "ab"}
    [finding] = [
        each for each in Case({"a": (0, 1), "b": ()}, telemetry=said).findings() if each.code == "poll-too-slow"
    ]
    assert finding.member_ids == ("a",)
    assert finding.text.startswith("1 member processes records for more than 95% of the time")
    [finding] = Case(TWO, telemetry=said).findings()
    assert finding.text.startswith("2 members process records")


def test_settings_have_the_names_of_the_client() -> None:
    late = rebalanced((MINUTE, "a b", "b"), cause=Cause.POLL_TIMEOUT)
    for software, setting in (
        ("apache-kafka-java 4.3.1", "max.poll.interval.ms"),
        ("confluent-kafka-python 2.16.1-rdkafka-2.16.1", "max.poll.interval.ms"),
        ("kafka-python 3.0.12", "max_poll_interval_ms"),
        ("kohort 0.1", "max_poll_interval_ms"),
        (None, "max.poll.interval.ms"),
    ):
        telemetry: Mapping[str, MemberTelemetry] = {name: Heartbeat(software) for name in "ab"}
        [finding] = Case(TWO, records=late, telemetry=telemetry).findings()
        assert setting in finding.advice
        assert ("max.poll.records" in finding.advice) == (software is None or "java" in software)


def test_a_client_without_a_cooperative_assignor_is_not_told_to_use_one() -> None:
    group = Case({"aiokafka-0.14.0": (0, 1), "aiokafka-0.13.0": (2, 3)}, protocol="range", records=eager(2, "ab"))
    [finding] = [each for each in group.findings() if each.code == "eager-assignor"]
    assert "no cooperative assignor" in finding.advice


def test_imbalance_of_range_over_many_topics_is_explained() -> None:
    case = Case({"a": (0, 1, 2), "b": (3,)}, protocol="range")
    group = case.group()
    group.members["a"].owned |= {TopicPartition("refunds", 0)}
    [finding] = findings(group, (), NOW)
    assert "each of 2 topics" in finding.text


# Hostile input


def test_names_cannot_command_a_terminal_and_are_short() -> None:
    assert shown("a\x1b[2Jb\n\u202ec") == "a\\x1b[2Jb\\n\\u202ec"
    assert len(shown("x" * 10_000)) == 80
    records = bounce(3)
    evil = MemberFacts("m", "\x1b]0;owned\x07" + "x" * 500, "\r\nhost")
    for record in records:
        for member in record.members():
            if member.member_id.startswith("a"):
                member.client_id, member.client_host = evil.client_id, evil.client_host
    for finding in Case(TWO, records=records).findings():
        assert (finding.text + finding.advice).isprintable()
        assert len(finding.text) < 1_000


def test_a_large_group_has_short_findings() -> None:
    members = {f"m{n}": (n,) if n < 600 else () for n in range(2_000)}
    commits = dict.fromkeys(range(600), (10, 8 * MINUTE)) | {599: (10, SECOND)}
    ends = {n: [(9 * MINUTE, 10), (7 * MINUTE, 11), (0, 90)] for n in range(600)}
    case = Case(members, commits=commits, ends=ends)
    found = case.findings()
    assert {finding.code for finding in found} == {"stuck-partition", "idle-members"}
    for finding in found:
        assert len(finding.member_ids) <= 50
        assert len(json.dumps(finding.to_json())) < 10_000


def test_a_member_has_no_partition_for_another_reason_than_too_many_members() -> None:
    assert "idle-members" not in Case({"a": (0, 1), "b": ()}).codes()


# Documentation


def test_the_documentation_has_a_section_for_each_code() -> None:
    text = (ROOT / "docs" / "watch-findings.md").read_text()
    sections = re.findall(r"^## (\S+)\n\n\*(\w+)\.\* ([^.]+)\.", text, re.MULTILINE)
    assert sections == [(code, kind.severity.label.capitalize(), kind.title) for code, kind in KINDS.items()]


def test_every_rule_is_tried() -> None:
    assert set(CASES) == set(KINDS)
    for case, near in CASES.values():
        assert case != near


# Batch jobs


def batch(runs: int, last: Millis) -> list[RebalanceRecord]:
    """A job with one member, which runs for a minute once every four minutes; `last` is the age of the last end."""
    records: list[RebalanceRecord] = []
    for n in range(runs):
        end = last + (runs - 1 - n) * 4 * MINUTE
        records += rebalanced((end + MINUTE, "", f"job{n}"), cause=Cause.FIRST_MEMBER)
        records += rebalanced((end, f"job{n}", ""))
    return [
        RebalanceRecord("g", n, None, record.ended_at, record.triggers, before=record.before, after=record.after)
        for n, record in enumerate(records)
    ]


def test_a_batch_job_is_neither_thrashing_nor_flapping() -> None:
    case = Case({}, commits=ALIVE, ends={0: [(0, 60)]}, records=batch(8, MINUTE))
    assert case.codes() == {"group-emptied"}
    assert case.hurts() == []
    assert "as a batch job is" in case.findings()[0].text


def test_a_batch_job_that_is_not_started_any_more_hurts() -> None:
    case = Case({}, commits=ALIVE, ends={0: [(0, 60)]}, records=batch(5, 7 * MINUTE))
    assert case.hurts() == [KINDS["group-emptied"].title]


def test_a_group_that_was_emptied_for_the_second_time_is_no_batch_job_yet() -> None:
    case = Case({}, commits=ALIVE, ends={0: [(0, 60)]}, records=batch(2, MINUTE))
    assert case.hurts() == [KINDS["group-emptied"].title]


def test_the_trail_of_a_lag_has_a_point_every_fifteen_seconds_and_forgets_groups_that_are_gone() -> None:
    trails, group = LagTrails(), Case(TWO, commits=ALIVE, ends={0: [(0, 60)]})
    for second in range(31):
        trails.take([group.group()], group._ends(), NOW + second * SECOND)
    assert [at - NOW for at, _ in trails.of("g")] == [0, 15 * SECOND, 30 * SECOND]
    trails.take([], {}, NOW + MINUTE)
    assert trails.of("g") == ()


def test_a_job_among_other_members_disturbs_them() -> None:
    stays = []
    for n in range(4):
        stays += [((9 - 2 * n) * MINUTE, "z", f"job{n} z"), ((8 - 2 * n) * MINUTE, f"job{n} z", "z")]
    assert "flapping-member" in Case(TWO, records=rebalanced(*stays)).codes()
