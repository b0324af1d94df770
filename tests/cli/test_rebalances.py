from __future__ import annotations

from pathlib import Path

import pytest

from kohort.log import FileStore, Topic
from kohort.model import UUID
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord
from kohort.testing import Broker
from kohort.wire.batches import Record, encode_batch
from tests.cli.conftest import Run, succeeded
from tests.interop.kohort import KohortBroker


@pytest.fixture
def group(run: Run, kohort_broker: KohortBroker, name: str) -> str:
    """A group that had one member, once."""
    at = kohort_broker.bootstrap
    succeeded(run("topic", "create", name, "--partitions", "2", bootstrap=at))
    succeeded(run("produce", name, bootstrap=at, stdin="1\n2\n"))
    assert run("consume", name, "--group", name, "--from-beginning", "--max", "2", bootstrap=at).code == 0
    return name


def test_the_journal_names_members_that_joined_and_left(run: Run, kohort_broker: KohortBroker, group: str) -> None:
    told = run("rebalances", group, "--json", bootstrap=kohort_broker.bootstrap)
    came, went = (RebalanceRecord.from_json(line) for line in told.lines)
    assert (came.group_id, came.generation, came.cause, came.protocol) == (group, 1, "first member", "range")
    assert [member.client_id for member in came.came] == ["kohort-cli"]
    assert [str(change) for change in came.partitions] == [f"{group}-0", f"{group}-1"]
    assert [member.client_id for member in went.went] == ["kohort-cli"]
    assert (went.cause, went.after) == ("member left", ())


def test_a_line_each_and_a_sentence_over_all(run: Run, kohort_broker: KohortBroker, group: str) -> None:
    header, first, second, total = run("rebalances", group, bootstrap=kohort_broker.bootstrap).lines
    assert header.split()[:4] == ["time", "gen", "took", "why"]
    assert "first member: kohort-cli" in first and "1 (+1)" in first
    assert "member left: kohort-cli" in second and "0 (−1)" in second
    assert total.startswith("2 rebalances, 0 partitions moved")
    [_, only, _] = run("rebalances", group, "--last", "1", bootstrap=kohort_broker.bootstrap).lines
    assert only.split() == second.split()


def test_partitions_stand_under_their_rebalance(run: Run, kohort_broker: KohortBroker, group: str) -> None:
    told = run("rebalances", group, "--partitions", "--last", "2", bootstrap=kohort_broker.bootstrap)
    assert f"{group} generation 1: first member: kohort-cli" in told.lines[0]
    assert [line.split()[0] for line in told.lines[1:4]] == ["partition", f"{group}-0", f"{group}-1"]


def test_a_group_can_be_drawn(run: Run, kohort_broker: KohortBroker, group: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "group.png"
    drawn = run("rebalances", group, "--picture", str(picture), bootstrap=kohort_broker.bootstrap)
    assert (drawn.code, drawn.out) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_journal_is_one_of_the_clusters_own_topics(run: Run, kohort_broker: KohortBroker, group: str) -> None:
    at = kohort_broker.bootstrap
    assert run("rebalances", group, bootstrap=at).lines, "there is a journal"
    assert not any(JOURNAL_TOPIC in line for line in succeeded(run("topic", "list", bootstrap=at)).lines)
    assert any(JOURNAL_TOPIC in line for line in succeeded(run("topic", "list", "--internal", bootstrap=at)).lines)
    refused = run("produce", JOURNAL_TOPIC, bootstrap=at, stdin="garbage\n")
    assert refused.code != 0 and "INVALID_TOPIC_EXCEPTION" in refused.err
    refused = run("topic", "delete", JOURNAL_TOPIC, bootstrap=at)
    assert refused.code != 0 and "internal topic" in refused.err


def test_records_that_are_not_rebalances_are_skipped(run: Run, tmp_path: Path) -> None:
    # Only brokers write to the journal now; any client could before, and can where Apache Kafka holds it.
    store = FileStore(tmp_path)
    store.create_topic(Topic(UUID(int=1), JOURNAL_TOPIC, 1))
    log = store.partition(UUID(int=1), 0)
    log.append(encode_batch([Record(0, 0, b"g", b"garbage", ())]), log.leader_epoch)
    store.close()
    with Broker(data=tmp_path) as broker:
        told = run("rebalances", "--json", bootstrap=broker.bootstrap_servers)
    assert told.lines == []
    assert f"1 records of {JOURNAL_TOPIC} cannot be read" in told.err


def test_a_broker_without_a_journal_says_so(run: Run) -> None:
    with Broker() as broker:
        at = broker.bootstrap_servers
        told = run("rebalances", bootstrap=at)
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith(f"kohort: {at} has no journal of rebalances")
    assert "use kohort analyse" in told.err and "kohort group explain GROUP" in told.err


def test_a_mistyped_group_is_not_an_empty_answer(run: Run, kohort_broker: KohortBroker, group: str) -> None:
    told = run("rebalances", f"{group}x", bootstrap=kohort_broker.bootstrap)
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith(f"kohort: There is no group {group}x; did you mean ") and group in told.err
    for command in ("describe", "explain"):
        asked = run("group", command, f"{group}x", bootstrap=kohort_broker.bootstrap)
        assert (asked.code, asked.out) == (1, "")
        assert asked.err.startswith(f"kohort: There is no group {group}x; did you mean ") and group in asked.err


def test_a_picture_is_of_one_group(run: Run) -> None:
    told = run("rebalances", "--picture", "x.png")
    assert told.code == 2 and told.err.startswith("kohort: --picture draws one group")


def test_a_file_of_a_gateway_is_read_without_a_cluster(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    records = [RebalanceRecord(group, 1, None, 1_000) for group in ("orders", "payments")]
    journal.write_bytes(b"".join(record.to_json() + b"\n" for record in records) + b"half a li")
    shown = run("rebalances", "payments", "--file", str(journal), "--json")
    assert [RebalanceRecord.from_json(line) for line in shown.lines] == records[1:]
    assert f"1 records of {journal} cannot be read" in shown.err
    assert run("rebalances", "others", "--file", str(journal)).code == 1
