"""Events of a webhook: when they begin and end, what the documents say, and which settings are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.errors import ConfigError
from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder import PartitionChange, RebalanceRecord, RefusedMember, Trigger
from kohort.watch import Live, SourceKind
from kohort.watch.changes import Committed
from kohort.watch.findings import KINDS, LagTrails, Severity
from kohort.watch.webhooks import (
    EVENTS,
    usual_events,
    webhook_settings,
)
from kohort.watch.webhooks.alarms import CLEAR_MS, MOST_ALARMS, Alarms, Notice
from kohort.watch.webhooks.events import Condition, of_group, of_watcher
from kohort.watch.webhooks.payload import document
from tests.watch.webhooks.groups import MINUTE, NOW, ORDERS, SECOND, rebalance, watched

DOCUMENT = Path(__file__).parent.parent.parent.parent / "docs" / "watch-webhooks.md"


def condition(text: str = "It is so.", group: str | None = "g", since: Millis = NOW) -> Condition:
    return Condition("thrashing", group, since, Severity.WARNING, "The group thrashes", text, "Look.")


# Begin and end


def test_a_condition_is_reported_once_however_often_it_changes() -> None:
    alarms = Alarms({})
    [begin] = alarms.step([condition()], NOW)
    assert (begin.began_at, begin.ended_at) == (NOW, None)
    assert alarms.step([condition("It is worse.", since=NOW + 5)], NOW + 5) == []
    assert alarms.step([], NOW + 6) == []
    [end] = alarms.step([], NOW + 5 + CLEAR_MS)
    # It ended at the first look without it: one that is seen once has not lasted for 0 s.
    assert end == Notice(condition("It is worse.", since=NOW + 5), NOW, NOW + 6)
    assert alarms.step([], NOW + 10 * CLEAR_MS) == []


def test_a_condition_that_comes_and_goes_is_one_event() -> None:
    alarms = Alarms({})
    assert len(alarms.step([condition()], NOW)) == 1
    for n in range(1, 10):
        held = [condition()] if n % 2 == 0 else []
        assert alarms.step(held, NOW + n * (CLEAR_MS // 2)) == []
    [end] = alarms.step([], NOW + 10 * (CLEAR_MS // 2))
    assert end.ended_at == NOW + 9 * (CLEAR_MS // 2)  # not the end of an earlier part


def test_a_condition_that_must_hold_is_reported_after_that_time() -> None:
    alarms = Alarms({"thrashing": 60 * SECOND})
    assert alarms.step([condition()], NOW) == []
    [begin] = alarms.step([condition()], NOW + 60 * SECOND)
    assert begin.began_at == NOW
    short = Alarms({"thrashing": 60 * SECOND})
    assert short.step([condition()], NOW) == []
    assert short.step([], NOW + 5 * SECOND) == []  # never reported, so it has no end
    assert short.step([condition(since=NOW + 61 * SECOND)], NOW + 61 * SECOND) == []


def test_groups_are_told_apart_and_bounded() -> None:
    alarms = Alarms({})
    found = [condition(group=f"g{n}") for n in range(MOST_ALARMS + 5)]
    assert len(alarms.step(found, NOW)) == MOST_ALARMS
    assert alarms.left_out == 5


def test_conditions_of_groups_do_not_end_while_the_watcher_is_blind() -> None:
    alarms = Alarms({})
    assert len(alarms.step([condition()], NOW)) == 1
    alarms.hold(NOW + 2 * CLEAR_MS)
    assert alarms.step([], NOW + 2 * CLEAR_MS) == []
    [over] = alarms.step([], NOW + 3 * CLEAR_MS)
    assert over.ended_at == NOW + 3 * CLEAR_MS


def test_an_absence_before_the_watcher_was_blind_is_not_the_end() -> None:
    alarms = Alarms({})
    assert len(alarms.step([condition()], NOW)) == 1
    assert alarms.step([], NOW + SECOND) == []
    alarms.hold(NOW + 10 * SECOND)
    assert alarms.step([], NOW + 10 * SECOND) == []
    assert alarms.step([], NOW + 20 * SECOND) == []
    [over] = alarms.step([], NOW + 10 * SECOND + CLEAR_MS)
    assert over.ended_at == NOW + 20 * SECOND


def test_that_the_watcher_is_blind_does_not_hold_by_itself() -> None:
    alarms = Alarms({})
    blind = condition(group=None)
    assert len(alarms.step([blind], NOW)) == 1
    alarms.hold(NOW + CLEAR_MS)
    [over] = alarms.step([], NOW + CLEAR_MS)
    assert over.ended_at == NOW + CLEAR_MS


# Conditions


def conditions(live: Live, **events: int) -> list[Condition]:
    chosen = {name.replace("_", "-"): seconds for name, seconds in events.items()}
    return list(of_group(live, live.groups["g"], LagTrails(), chosen, NOW))


def test_a_rebalance_that_took_long_or_left_a_partition_dark() -> None:
    [found] = conditions(watched(rebalance(MINUTE, "ab", "a", 31 * SECOND)), rebalance=30)
    assert found.since == NOW - MINUTE - 31 * SECOND
    assert found.text == "The rebalance to generation 7 took 31 s. Cause: member left. 0 partitions moved."
    assert conditions(watched(rebalance(MINUTE, "ab", "a", 29 * SECOND)), rebalance=30) == []
    dark = PartitionChange("orders", 0, "b", "a", NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - MINUTE)
    [found] = conditions(watched(rebalance(MINUTE, "ab", "a", partitions=(dark,))), rebalance=30)
    assert "generation 7 took 1.0 s and kept a partition dark for 2 min. " in found.text
    assert "1 partition moved." in found.text


def test_a_rebalance_at_the_limit_or_one_that_empties_the_group_is_none() -> None:
    assert conditions(watched(rebalance(MINUTE, "ab", "a", 30 * SECOND)), rebalance=30) == []
    assert conditions(watched(rebalance(MINUTE, "ab", "", 31 * SECOND)), rebalance=30) == []


def test_a_rebalance_whose_start_is_unknown_began_with_its_end() -> None:
    dark = PartitionChange("orders", 0, "b", "a", NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - MINUTE)
    [found] = conditions(watched(rebalance(MINUTE, "ab", "a", started_at=None, partitions=(dark,))), rebalance=30)
    assert found.since == NOW - MINUTE
    assert found.text.startswith("The rebalance to generation 7 kept a partition dark for 2 min. ")


def test_a_rebalance_of_long_ago_or_of_an_empty_group_is_none() -> None:
    assert conditions(watched(rebalance(6 * MINUTE, "ab", "a", 31 * SECOND)), rebalance=30) == []
    first = (Trigger(Cause.FIRST_MEMBER.value),)
    assert conditions(watched(rebalance(MINUTE, "", "a", 31 * SECOND, triggers=first)), rebalance=30) == []


def test_a_member_that_does_not_come_back() -> None:
    gone = rebalance(6 * MINUTE, "abc", "ab")
    [found] = conditions(watched(gone), member_missing=300)
    assert found.since == NOW - 6 * MINUTE
    assert "2 members instead of 3" in found.text
    assert "The first that went is c" in found.text
    assert conditions(watched(gone), member_missing=600) == []
    assert conditions(watched(gone, here="abx"), member_missing=300) == []  # another one took its place
    assert conditions(watched(gone, here=""), member_missing=300) == []  # an empty group is another event
    removed = (Trigger(Cause.REMOVED_BY_ADMIN.value, "c"),)
    assert conditions(watched(replace(gone, gone=removed)), member_missing=300) == []


def test_a_member_that_went_again_is_missing_since_the_last_time() -> None:
    went, back = rebalance(50 * MINUTE, "abc", "ab"), rebalance(45 * MINUTE, "ab", "abc")
    again = rebalance(6 * MINUTE, "abc", "ab")
    [found] = conditions(watched(went, back, again), member_missing=300)
    assert found.since == NOW - 6 * MINUTE
    assert conditions(watched(rebalance(61 * MINUTE, "abc", "ab")), member_missing=300) == []


def test_a_member_that_came_back_is_not_missing_if_the_group_is_then_made_smaller() -> None:
    went, back = rebalance(50 * MINUTE, "abc", "ab"), rebalance(45 * MINUTE, "ab", "abc")
    removed = rebalance(40 * MINUTE, "abc", "ab", gone=(Trigger(Cause.REMOVED_BY_ADMIN.value, "c"),))
    assert conditions(watched(went, back, removed), member_missing=300) == []


def test_members_that_are_refused_hide_no_missing_one() -> None:
    # The journal has records that describe no rebalance, and they change no member.
    gone = rebalance(6 * MINUTE, "abc", "ab")
    refused = RebalanceRecord("g", 0, None, NOW, refused_members=(RefusedMember("x", "x", "/10.0.0.1", "", ""),))
    assert conditions(watched(gone, refused), member_missing=300) == conditions(watched(gone), member_missing=300)


def test_lag() -> None:
    live = watched()
    live.apply([Committed("g", NOW - 400 * SECOND, ORDERS, 5)], NOW)
    live.sampled({ORDERS: 5}, NOW - 350 * SECOND)
    live.sampled({ORDERS: 9}, NOW - 349 * SECOND)
    assert [found.event for found in conditions(live, lag=300)] == ["lag"]
    assert conditions(live, lag=300)[0].title == "The lag is above 300 s"  # as --webhook-on says it
    assert conditions(live, lag=400) == []
    at_the_limit = watched()
    at_the_limit.apply([Committed("g", NOW - 400 * SECOND, ORDERS, 5)], NOW)
    at_the_limit.sampled({ORDERS: 5}, NOW - 301 * SECOND)
    at_the_limit.sampled({ORDERS: 6}, NOW - 299 * SECOND)  # one record, dated to the middle
    assert conditions(at_the_limit, lag=300) == []
    assert len(conditions(at_the_limit, lag=299)) == 1


def test_findings_are_events() -> None:
    live = watched(*(rebalance(n * 20 * SECOND, "ab", "ba") for n in range(9, 0, -1)))
    [found] = conditions(live, thrashing=0)
    assert (found.event, found.title) == ("thrashing", KINDS["thrashing"].title)
    assert found.advice
    assert conditions(live, flapping_member=0) == []


def test_a_watcher_that_sees_nothing() -> None:
    live = Live()
    live.source(SourceKind.LOG, "failed", NOW, "No broker answers.")
    assert list(of_watcher(live, {"blind": 60}, NOW + 59 * SECOND)) == []
    [found] = of_watcher(live, {"blind": 60}, NOW + 60 * SECOND)
    assert (found.since, found.severity) == (NOW, Severity.CRITICAL)
    assert found.text.endswith("No broker answers.")
    live.source(SourceKind.LOG, "following", NOW)
    assert list(of_watcher(live, {"blind": 60}, NOW + 99 * MINUTE)) == []


@pytest.mark.parametrize(
    "states",
    [
        {SourceKind.LOG: "forbidden", SourceKind.ADMIN: "failed"},
        {SourceKind.ADMIN: "off", SourceKind.LOG: "failed"},
        {SourceKind.LOG: "failed", SourceKind.JOURNAL: "following", SourceKind.TELEMETRY: "following"},
    ],
)
def test_a_watcher_is_blind_although_another_source_works_or_is_off(states: dict[SourceKind, str]) -> None:
    live = Live()
    for kind, state in states.items():
        live.source(kind, state, NOW)
    [found] = of_watcher(live, {"blind": 60}, NOW + 60 * SECOND)
    assert found.since == NOW


def test_a_watcher_that_fails_by_turns_for_different_reasons_is_blind() -> None:
    live = Live()
    for number in range(6):
        live.source(SourceKind.LOG, "failed", NOW + number * 20 * SECOND, f"Reason {number % 2}.")
    [found] = of_watcher(live, {"blind": 60}, NOW + 100 * SECOND)
    assert found.since == NOW
    assert found.text.endswith("Reason 1.")


def test_a_watcher_is_blind_since_its_last_source_failed() -> None:
    live = Live()
    live.source(SourceKind.LOG, "forbidden", NOW)
    live.source(SourceKind.ADMIN, "failed", NOW + 30 * SECOND)
    assert list(of_watcher(live, {"blind": 60}, NOW + 89 * SECOND)) == []
    [found] = of_watcher(live, {"blind": 60}, NOW + 90 * SECOND)
    assert found.since == NOW + 30 * SECOND


def test_a_cluster_whose_groups_are_polled_is_seen() -> None:
    live = Live()
    live.source(SourceKind.LOG, "forbidden", NOW)
    live.source(SourceKind.ADMIN, "following", NOW)
    assert list(of_watcher(live, {"blind": 60}, NOW + 99 * MINUTE)) == []


# Documents


def test_a_document_is_an_alert_with_begin_and_end() -> None:
    begin = document(Notice(condition(), NOW, None), "prod", "http://127.0.0.1:9464")
    end = document(Notice(condition(), NOW, NOW + 90 * SECOND), "prod", "http://127.0.0.1:9464")
    assert (begin["status"], end["status"]) == ("firing", "resolved")
    [fired], [resolved] = begin["alerts"], end["alerts"]
    assert (fired["startsAt"], fired["endsAt"]) == ("2023-11-14T22:13:20.000Z", "0001-01-01T00:00:00Z")
    assert resolved["endsAt"] == "2023-11-14T22:14:50.000Z"
    assert fired["fingerprint"] == resolved["fingerprint"]
    assert fired["labels"] == {"alertname": "thrashing", "severity": "warning", "cluster": "prod", "group": "g"}
    assert begin["text"] == "WARNING: The group thrashes (group g on prod). It is so. Look."
    assert end["text"] == "Over after 90 s: The group thrashes (group g on prod)"
    assert json.loads(json.dumps(begin)) == begin


@pytest.mark.parametrize(("at", "shown"), [(1 << 62, "9999-12-31T23:59:59.000Z"), (-1, "1970-01-01T00:00:00.000Z")])
def test_a_time_that_a_stranger_wrote_into_the_log_ends_nothing(at: Millis, shown: str) -> None:
    [alert] = document(Notice(condition(), at, None), "prod")["alerts"]
    assert alert["startsAt"] == shown


def test_two_groups_have_different_fingerprints() -> None:
    documents = [document(Notice(condition(group=name), NOW, None), "prod") for name in ("a", "b")]
    documents.append(document(Notice(condition(group="a"), NOW, None), "test"))  # the same group of another cluster
    assert len({each["alerts"][0]["fingerprint"] for each in documents}) == 3


def test_a_document_about_the_watcher_names_no_group() -> None:
    told = document(Notice(condition(group=None), NOW, None), "prod")
    assert "group" not in told["commonLabels"] | told["groupLabels"]
    assert told["text"] == "WARNING: The group thrashes (prod). It is so. Look."


def test_a_name_cannot_mention_people_or_make_a_link() -> None:
    evil = condition(group="<!channel> @everyone\n<http://127.0.0.1|click> & \x1b[2J" + "x" * 5_000)
    for ended_at in (None, NOW + SECOND):
        text = document(Notice(evil, NOW, ended_at), "prod")["text"]
        assert "<" not in text and ">" not in text
        assert "&lt;http" in text and "click&gt; &amp; " in text
        assert "@everyone" not in text
        assert "\n" not in text
        assert "\x1b" not in text
        assert len(text) < 1_000


# Settings


def test_a_url_and_the_events() -> None:
    settings = webhook_settings("https://hooks.example.com/T0/B0", "thrashing, lag=300,dark-partition=5")
    assert settings.events == {"thrashing": 0, "lag": 300, "dark-partition": 5}
    assert settings.place == "hooks.example.com"
    assert "T0" not in repr(settings)
    assert webhook_settings("https://hooks.example.com/T0/B0").events == usual_events()


def test_a_file_with_headers_and_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "hook.json"
    content = {
        "url": "http://127.0.0.1:1/h",
        "headers": {"Authorization": "Bearer x"},
        "secret": "y",
        "text_only": True,
    }
    path.write_text(json.dumps(content))
    settings = webhook_settings(f"@{path}")
    assert settings.headers["Authorization"].reveal() == "Bearer x"
    assert settings.secret is not None
    assert settings.secret.reveal() == "y"
    assert settings.text_only


@pytest.mark.parametrize(
    ("given", "events", "message"),
    [
        ("ftp://s3cret", None, "must be a URL with https or http"),
        ("https://", None, "must be a URL"),
        ("https://127.0.0.1:x/s3cret", None, "must be a URL"),
        ("https://127.0.0.1/s3cret\r\nX: y", None, "must be a URL"),
        ("https://127.0.0.1:s3cret@127.0.0.1/", None, "has a user name or password"),
        ("@/nowhere", None, "cannot be read: No such file"),
        ("https://127.0.0.1/s3cret", "thrash", "no event 'thrash'; the events are rebalance, member-missing, lag"),
        ("https://127.0.0.1/s3cret", "lag", "lag needs a number of seconds, such as lag=300"),
        ("https://127.0.0.1/s3cret", "lag=5m", "takes seconds as a number"),
        ("https://127.0.0.1/s3cret", " , ", "must name an event"),
    ],
)
def test_settings_that_are_refused(given: str, events: str | None, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        webhook_settings(given, events)
    assert message in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("s3cret", "is not JSON"),
        ('["s3cret"]', "must be a JSON object with a string `url`"),
        ('{"url": "https://127.0.0.1/s3cret", "header": {}}', "Unknown key `header`"),
        ('{"url": "https://127.0.0.1/s3cret", "headers": {"a\\nb": "s3cret"}}', "must be an object of header names"),
        (
            '{"url": "https://127.0.0.1/s3cret", "headers": {"A": "s3cret\\r\\nB: c"}}',
            "must be an object of header names",
        ),
        ('{"url": "https://127.0.0.1/s3cret", "headers": {"Host": "s3cret"}}', "has `Host`, which the watcher sets"),
        (
            '{"url": "https://127.0.0.1/s3cret", "headers": {"A": "s3cret", "Webhook-Id": "s3cret"}}',
            "has `Webhook-Id`, which the watcher sets",
        ),
        (
            '{"url": "https://127.0.0.1/s3cret", "headers": {"user-agent": ""}}',
            "has `user-agent`, which the watcher sets",
        ),
        ('{"url": "https://127.0.0.1/s3cret", "secret": 5}', "must be strings"),
        ('{"url": "s3cret"}', "must be a URL"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "hook.json"
    path.write_text(content)
    with pytest.raises(ConfigError) as raised:
        webhook_settings(f"@{path}")
    assert message in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_the_document_names_every_event() -> None:
    text = DOCUMENT.read_text()
    for name, (seconds, _) in EVENTS.items():
        assert f"| `{name}` | {'off' if seconds is None else seconds} |" in text
    for code, kind in KINDS.items():
        assert (f"[`{code}`](watch-findings.md#{code})" in text) == kind.hurts
