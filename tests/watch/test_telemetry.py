"""What clients report about themselves, and the members that they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.group_events import MemberFacts
from kohort.telemetry import ClientTelemetry
from kohort.watch import telemetry as reports
from kohort.watch.group import GroupFound, WatchedMember
from kohort.watch.live import GroupsChanged, Live, LiveEvent
from kohort.watch.telemetry import SHOWN, ClientReports, figures

IDLE = "org.apache.kafka.consumer.poll.idle.ratio.avg"
TOTAL = "org.apache.kafka.consumer.coordinator.rebalance.latency.total"
JAVA = ClientTelemetry(
    client_instance_id="one",
    client_id="app-1",
    client_host="/127.0.0.1",
    software="apache-kafka-java",
    version="4.3.1",
    at=1_000_000,
    interval_ms=30_000,
    group_id="billing",
    member_id="m-1",
    metrics={IDLE: 0.25},
)
NOW = 1_000_001


def member(number: int, client_id: str, instance_id: str | None = None) -> WatchedMember:
    return WatchedMember(MemberFacts(f"m-{number}", client_id, "/127.0.0.1", instance_id), frozenset({"orders"}))


def live(*members: WatchedMember) -> Live:
    made = Live()
    found = GroupFound("billing", "classic", "Stable", 1, None, "range", "consumer", members, {})
    made.found(found, NOW)
    return made


def test_a_member_has_what_its_client_reported() -> None:
    watched = live(member(1, "app-1"), member(2, "app-2"))
    events: list[LiveEvent] = []
    watched.subscribe(lambda event, _at: events.append(event))
    watched.client_reported(JAVA, NOW)
    assert watched.telemetry == {"m-1": JAVA}
    assert events == [GroupsChanged(frozenset({"billing"}))]
    assert (JAVA.client_software, JAVA.values) == ("apache-kafka-java 4.3.1", {IDLE: 0.25})


def test_a_newer_report_replaces_the_last_one_also_under_another_member_id() -> None:
    watched = live(member(1, "app-1"), member(2, "app-1"))
    watched.client_reported(JAVA, NOW)
    joined_again = replace(JAVA, member_id="m-2", metrics={IDLE: 0.5})
    watched.client_reported(joined_again, NOW)
    assert watched.telemetry == {"m-2": joined_again}


@pytest.mark.parametrize(
    "telemetry",
    [
        replace(JAVA, client_id="another"),  # only the broker knows a client's ID: it cannot pretend to be m-1
        replace(JAVA, member_id="m-9"),
        replace(JAVA, group_id="unknown"),
        replace(JAVA, group_id=None),
        replace(JAVA, at=0),  # expired
    ],
)
def test_a_client_that_is_no_member_is_not_shown(telemetry: ClientTelemetry) -> None:
    watched = live(member(1, "app-1"))
    watched.client_reported(telemetry, NOW)
    assert watched.telemetry == {}


def test_librdkafka_does_not_say_which_member_it_is() -> None:
    unnamed = replace(JAVA, member_id=None)
    alone = live(member(1, "app-1"), member(2, "app-2"))
    alone.client_reported(unnamed, NOW)
    assert alone.telemetry == {"m-1": unnamed}
    several = live(member(1, "app-1"), member(2, "app-1"))
    several.client_reported(unnamed, NOW)
    assert several.telemetry == {}, "either could be meant"
    elsewhere = replace(unnamed, client_host="/127.0.0.2")
    alone.client_reported(replace(elsewhere, client_instance_id="two"), NOW)
    assert alone.telemetry == {"m-1": unnamed}, "a client on another host is none of the members"
    static = live(member(1, "app-1", "a"), member(2, "app-1", "b"))
    static.client_reported(replace(unnamed, instance_id="b"), NOW)
    assert list(static.telemetry) == ["m-2"]


def test_increments_are_added_up() -> None:
    watched = live(member(1, "app-1"))
    for value in (5.0, 7.0):
        watched.client_reported(replace(JAVA, metrics={IDLE: 0.5}, increments={TOTAL: value}), NOW)
    assert watched.telemetry["m-1"].metrics == {IDLE: 0.5, TOTAL: 12.0}


def test_the_last_push_of_a_client_ends_its_report() -> None:
    watched = live(member(1, "app-1"))
    watched.client_reported(JAVA, NOW)
    watched.client_reported(replace(JAVA, terminating=True), NOW)
    assert watched.telemetry == {}


def test_a_report_expires_after_two_missed_pushes() -> None:
    watched = live(member(1, "app-1"))
    watched.client_reported(JAVA, NOW)
    watched.expire_reports(JAVA.expires_at - 1)
    assert list(watched.telemetry) == ["m-1"]
    watched.expire_reports(JAVA.expires_at)
    assert watched.telemetry == {}


def test_reports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MOST_CLIENTS", 2)
    watched = live(*(member(number, f"app-{number}") for number in range(4)))
    found = ClientReports()
    for number in (0, 1, 0, 2):
        report = replace(JAVA, client_instance_id=str(number), client_id=f"app-{number}", member_id=f"m-{number}")
        assert found.report(report, watched.groups) == "billing"
    assert sorted(found.members) == ["m-0", "m-2"], "the one that was silent for longest is forgotten"


def test_figures_are_those_of_the_member_in_the_order_of_the_page() -> None:
    pushed = {"org.apache.kafka.consumer.request.total": 1.0, **dict.fromkeys(reversed(SHOWN), 2.0)}
    assert list(figures(replace(JAVA, metrics=pushed))) == list(SHOWN)
