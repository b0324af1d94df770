"""The page from plain findings: what it says first, and that names of groups are text, not markup."""

from __future__ import annotations

import re

import pytest

from kohort.analytics.findings import Findings, Row, without_gaps
from kohort.analytics.report import day, duration, headline, left_out, page, partition_time, span

HOUR = 3_600_000
AT = 1_767_225_600_000


def _group(group_id: str, excess_ms: int, rebalances: int = 3) -> Row:
    return {
        "group_id": group_id,
        "group_type": "classic",
        "assignor": "range",
        "members": 2,
        "rebalances": rebalances,
        "moved": 4,
        "needless": 1,
        "stopped": 9,
        "excess_ms": excess_ms,
        "longest_dark_ms": 60_000,
        "missing": 0,
    }


def _findings(*groups: Row) -> Findings:
    cause = {"cause": "member joined", "times": 3}
    return Findings(
        whole={"begin_at": AT, "end_at": AT + HOUR, "commits": 1_000, "groups": len(groups), "partitions": 8},
        groups=list(groups),
        causes={row["group_id"]: [{**cause, "excess_ms": row["excess_ms"]}] for row in groups},
        flapping=[],
        thrashing=[],
        savings={},
        worst_lag={},
        rate=[(AT, 1.0), (AT + HOUR, 2.0)],
        times=[(row["group_id"], AT, row["rebalances"]) for row in groups],
        lags=[],
    )


def test_the_first_sentence_names_the_total_and_the_groups() -> None:
    found = _findings(_group("orders", 9 * HOUR), _group("clicks", HOUR))
    assert headline(found) == (
        "Rebalances kept partitions waiting for 10.0 partition-hours; orders, one of 2 groups, accounts for 90%"
    )
    assert (
        span(found) == "2026-01-01 00:00 to 2026-01-01 01:00 UTC: 2 groups, 8 partitions, 1,000 commits, 6 rebalances."
    )


def test_a_short_wait_is_no_headline_of_zero() -> None:
    assert headline(_findings(_group("orders", 800))) == (
        "Rebalances of orders kept its partitions waiting for 800 partition-milliseconds"
    )
    html = page(_findings(_group("clicks", 90_000), _group("orders", 800)))
    assert "waiting for 1.5 partition-minutes; clicks, one of 2 groups, accounts for 99%" in html
    assert "<td>800 ms</td>" in html


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (999, "999 partition-milliseconds"),
        (1_500, "1.5 partition-seconds"),
        (90_000, "1.5 partition-minutes"),
        (36_000 * HOUR, "36,000.0 partition-hours"),
    ],
)
def test_the_sum_of_waiting_times_has_a_suitable_unit(ms: int, said: str) -> None:
    assert partition_time(ms) == said


def test_every_column_of_the_groups_is_explained() -> None:
    html = page(_findings(_group("orders", HOUR)))
    heads = re.findall(r"<th>(.*?)</th>", html)
    explained = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    assert len(heads) == 10
    assert list(explained) == heads


def test_a_group_that_only_the_journal_knows_is_on_the_page() -> None:
    found = _findings(_group("orders", HOUR))
    found.groups.append({**_group("clicks", 0), "group_type": None, "assignor": None, "longest_dark_ms": None})
    found.recorded = {"clicks": [{"cause": "session expired", "times": 3}]}
    assert "A recorder saw: 3 times session expired." in page(found)


def test_a_quiet_cluster_gets_a_page_too() -> None:
    assert "no partition waited longer" in headline(_findings(_group("orders", 0)))
    nothing = _findings()
    nothing.whole = {"begin_at": None, "end_at": None, "commits": None, "groups": 0, "partitions": 0}
    assert "0 rebalances" in page(nothing)


def test_names_are_text_whatever_they_hold() -> None:
    html = page(_findings(_group("<script>alert(1)</script>", HOUR)))
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_the_journal_adds_causes_to_what_the_log_shows() -> None:
    found = _findings(_group("orders", HOUR))
    found.recorded = {"orders": [{"cause": "session expired", "times": 2}, {"cause": "poll timeout", "times": 1}]}
    assert "A recorder saw: 2 times session expired, once poll timeout." in page(found)
    found.recorded = {"orders": [{"cause": "member joined", "times": 3}]}
    assert "A recorder saw" not in page(found)


def test_unreadable_records_are_reported_before_the_figures() -> None:
    found = _findings(_group("orders", HOUR))
    assert not left_out(found)
    found.unreadable = [{"topic": "__consumer_offsets", "records": 1_200, "shard": 7, "position": 12}]
    (sentence,) = left_out(found)
    assert sentence.startswith(
        "1,200 records of __consumer_offsets, damaged or of a newer version, could not be read, the first at offset 12"
    )
    html = page(found)
    assert html.index(sentence) < html.index("Groups with the most waiting time")


@pytest.mark.parametrize(
    ("ms", "said"), [(None, "-"), (5, "5 ms"), (1_500, "1.5 s"), (90_000, "1.5 min"), (2 * HOUR, "2.0 h")]
)
def test_times_are_printed_in_suitable_units(ms: int | None, said: str) -> None:
    assert duration(ms) == said


def test_an_unknown_time_is_a_dash() -> None:
    assert day(None) == "-"


def test_a_time_without_commits_has_the_rate_zero() -> None:
    rows = [{"at": AT, "per_second": 2.0}, {"at": AT + 3 * HOUR, "per_second": 1.0}]
    assert without_gaps(rows, HOUR) == [(AT, 2.0), (AT + HOUR, 0.0), (AT + 2 * HOUR, 0.0), (AT + 3 * HOUR, 1.0)]
    assert without_gaps([], HOUR) == []
