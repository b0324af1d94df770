from __future__ import annotations

import json
import time

import pytest

from kohort import testing
from kohort.blocking import Admin
from kohort.cli.watch import _row, read_age
from kohort.errors import ConfigError, ErrorCode
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord, RefusedMember
from kohort.testing import Workspace
from kohort.watch import Live
from kohort.watch.changes import GenerationWritten
from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker
from tests.interop.kohort import KohortBroker


def consumed(run: Run, at: str, name: str, *options: str) -> None:
    succeeded(run("topic", "create", name, "--partitions", "2", bootstrap=at))
    succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
    succeeded(run("consume", name, "--group", name, "--from-beginning", "--max", "2", *options, bootstrap=at))
    succeeded(run("produce", name, bootstrap=at, stdin="3\n4\n5\n"))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_snapshot_has_the_group_its_lag_and_its_rebalances(
    run: Run, any_broker: Broker, name: str, protocol: str
) -> None:
    at = any_broker.bootstrap
    consumed(run, at, name, "-X", f"group.protocol={protocol}")
    told = succeeded(run("watch", "--once", "--json", bootstrap=at))
    document = json.loads(told.out)
    [group] = [group for group in document["groups"] if group["group"] == name]
    assert (group["type"], group["state"], group["members"]) == (protocol, "Empty", [])
    assert group["lag"] == 3
    assert 0 <= group["lag_seconds"] < 600
    assert {partition["topic"] for partition in group["partitions"]} == {name}
    assert {partition["method"] for partition in group["partitions"]} <= {"timestamps", "caught up", "interpolated"}
    came, went = group["rebalances"]
    assert [member["client_id"] for member in came["after"]] == ["kohort-cli"]
    # The log cannot tell a leave from an expiry; the journal of a Kohort broker can.
    assert (went["cause"] in ("member left", "member left or expired"), went["after"]) == (True, [])
    assert document["log"]["unreadable"] == 0


def test_a_line_for_each_group(run: Run, kohort_broker: KohortBroker, name: str) -> None:
    at = kohort_broker.bootstrap
    consumed(run, at, name)
    header, *lines = succeeded(run("watch", "--once", "--history", "10m", bootstrap=at)).lines
    assert header.split()[:4] == ["group", "type", "state", "members"]
    [line] = [line for line in lines if line.startswith(f"{name} ")]
    assert line.split()[1:4] == ["classic", "Empty", "0"]
    assert line.endswith("member left")


def test_without_a_history_there_are_no_rebalances(run: Run, kohort_broker: KohortBroker, name: str) -> None:
    consumed(run, kohort_broker.bootstrap, name)
    told = succeeded(run("watch", "--once", "--history", "0", "--json", bootstrap=kohort_broker.bootstrap))
    document = json.loads(told.out)
    [group] = [group for group in document["groups"] if group["group"] == name]
    assert (document["history_from"], group["rebalances"], group["lag"]) == (None, [], 3)


def test_a_history_may_be_longer_than_the_time_since_1970(run: Run, kohort_broker: KohortBroker, name: str) -> None:
    consumed(run, kohort_broker.bootstrap, name)
    told = succeeded(run("watch", "--once", "--history", "999999d", bootstrap=kohort_broker.bootstrap))
    assert any(line.startswith(f"{name} ") for line in told.lines)


def test_it_says_what_it_cannot_do(run: Run) -> None:
    for arguments, sentence in (
        (
            ("--json",),
            "kohort: --json prints one snapshot: add --once. The page has the same figures at /api/groups.\n",
        ),
        (
            ("--metrics-names", "burrow"),
            "kohort: --metrics-names takes one of kafka-lag-exporter, kafka-exporter, kminion, not 'burrow'.\n",
        ),
        (
            ("--metrics-include", "("),
            "kohort: --metrics-include takes a regular expression, not '(': missing ), unterminated subpattern at"
            " position 0.\n",
        ),
        (
            ("--command-config", "/nonexistent"),
            "kohort: --command-config /nonexistent cannot be read: No such file or directory.\n",
        ),
        (("--once", "--history", "1w"), "kohort: --history takes an age such as 30m, 6h or 2d, not '1w'.\n"),
    ):
        told = run("watch", *arguments)
        assert (told.code, told.out, told.err) == (2, "", sentence)


def test_a_cluster_that_hides_its_log_shows_the_rest(run: Run, kohort: Workspace) -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    kohort.fault(keys="Metadata", topic="__consumer_offsets", count=-1, error=denied)
    consumed(run, kohort.bootstrap_servers, "hidden")
    told = succeeded(run("watch", "--once", bootstrap=kohort.bootstrap_servers))
    assert any(line.startswith("hidden ") for line in told.lines)
    [said] = [line for line in told.err.splitlines() if "__consumer_offsets" in line]
    assert "need the ACLs Read and Describe on the topic __consumer_offsets, which are denied" in said
    told = succeeded(run("watch", "--once", "--history", "0", bootstrap=kohort.bootstrap_servers))
    assert told.err == ""


def test_a_snapshot_says_what_a_user_without_permissions_does_not_see(run: Run) -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with testing.Broker() as broker:
        at = broker.bootstrap_servers
        log = broker.fault(keys="Metadata", topic="__consumer_offsets", count=-1, error=denied)
        told = succeeded(run("watch", "--once", bootstrap=at))
        assert told.lines == ["no groups"]
        assert "others need the ACL Describe on the group" in told.err
        log.remove()
        consumed(run, at, "known")
        with Admin(bootstrap_servers=at) as admin:
            while JOURNAL_TOPIC not in admin.describe_topics():
                time.sleep(0.05)  # a broker tells nobody that it has made it
        broker.fault(keys="Fetch", topic=JOURNAL_TOPIC, count=-1, error=denied)
        told = succeeded(run("watch", "--once", bootstrap=at))
    assert any(line.startswith("known ") for line in told.lines)
    assert told.err.startswith("kohort: The journal of rebalances is not read, so causes and times are only those")
    assert len(told.err.splitlines()) == 1


def test_a_line_counts_rebalances_and_not_refused_members() -> None:
    live = Live(history_from=0)
    live.apply([GenerationWritten("g", 1_000, 1, "consumer", None, None, ())], 1_000)
    before = _row(live.snapshot(2_000), live.groups["g"])
    refused = RebalanceRecord("g", 0, None, 1_500, refused_members=(RefusedMember("x", "x", "", "", ""),))
    live.groups["g"].rebalances.append(refused)
    assert _row(live.snapshot(2_000), live.groups["g"]) == before


def test_ages() -> None:
    assert [read_age("--history", text) for text in ("0", "90s", "30m", "6h", "2d")] == [
        0,
        90_000,
        1_800_000,
        21_600_000,
        172_800_000,
    ]
    for text in ("-1h", "00", "10"):
        with pytest.raises(ConfigError, match=f"not '{text}'"):
            read_age("--history", text)
