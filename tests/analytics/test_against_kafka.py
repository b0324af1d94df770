"""The same records as Apache Kafka's own tools print them, and as the history has them; from files and from brokers."""

from __future__ import annotations

import json
import re
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.analytics.decoding import Decoder
from kohort.analytics.schema import Kind
from kohort.analytics.source import OFFSETS_TOPIC, cluster_tasks, read_segment
from tests.analytics.generate.history import Scale, write
from tests.analytics.lives import live_twice
from tests.interop.broker import Broker
from tests.interop.kafka import run_tool

Row = dict[str, Any]
_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? key: (\{.*\}) payload: (\{.*\}|<DELETE>)$")
_FORMATTERS = "org.apache.kafka.tools.consumer."


def _by_kafka(segment: Path) -> Iterator[tuple[int, int, int, Row, Row | None]]:
    """Offset, time, type, key and value of each record."""
    printed = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--print-data-log", "--files", str(segment)),
    )
    for line in printed.splitlines():
        if found := _RECORD.match(line):
            key = json.loads(found[3])
            value = None if found[4] == "<DELETE>" else json.loads(found[4])["data"]
            yield int(found[1]), int(found[2]), int(key["type"]), key["data"], value


def _uuid(text: str) -> str:
    return str(uuid.UUID(bytes=urlsafe_b64decode(text + "==")))


def _held(topics: list[Row]) -> list[str]:
    return [f"{_uuid(topic['topicId'])}-{n}" for topic in topics for n in topic["partitions"]]


def _expected(position: int, at: int, kind: int, key: Row, value: Row | None) -> Row | None:
    """Return the expected row of the history for a group record, from the output of Kafka's tool."""
    row: Row = {
        "position": position,
        "at": at,
        "group_id": key.get("group", key.get("groupId")),
        "alive": value is not None,
    }
    match kind:
        case 2:
            assert value is not None
            members = [
                {
                    "member_id": member["memberId"],
                    "instance_id": member["groupInstanceId"],
                    "client_id": member["clientId"],
                    "client_host": member["clientHost"],
                    "subscribed": member["subscription"]["topics"],
                    "assigned": [
                        f"{topic['topic']}-{n}"
                        for topic in member["assignment"]["assignedPartitions"]
                        for n in topic["partitions"]
                    ],
                }
                for member in value["members"]
            ]
            generation = {"epoch": value["generation"], "protocol": value["protocol"], "leader_id": value["leader"]}
            return row | generation | {"kind": Kind.GENERATION, "protocol_type": "consumer", "members": members}
        case 3:
            return row | {"kind": Kind.EPOCH, "epoch": value and value["epoch"]}
        case 5:
            row |= {"kind": Kind.MEMBER, "member_id": key["memberId"]}
            asked = {} if value is None else {"client_id": value["clientId"], "client_host": value["clientHost"]}
            return row | asked | ({} if value is None else {"subscribed": value["subscribedTopicNames"]})
        case 8:
            held = [] if value is None else _held(value["assignedPartitions"] + value["partitionsPendingRevocation"])
            row |= {"kind": Kind.CURRENT, "member_id": key["memberId"], "assigned": held}
            return row | {"epoch": value and value["memberEpoch"]}
        case _:
            return None


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made")
    write(made, Scale(commits=2_000, groups=6, days=1, window_ms=3_600_000, shards=1), lambda line: None)
    return made / f"{OFFSETS_TOPIC}-0" / f"{0:020d}.log"


@pytest.mark.java
@pytest.mark.usefixtures("kafka_tools")
def test_records_about_groups_match_kafkas_dump_of_the_log(segment: Path) -> None:
    rows = [row for batch in Decoder(1).decode(read_segment(segment)) for row in batch.to_pylist()]
    found = {(row["position"], row["kind"]): row for row in rows if row["kind"] not in (Kind.COMMITS, Kind.TOPIC)}
    expected = [row for record in _by_kafka(segment) if (row := _expected(*record)) is not None]
    assert {row["kind"] for row in expected} == {Kind.GENERATION, Kind.EPOCH, Kind.MEMBER, Kind.CURRENT}
    assert len(found) == len(expected)
    for row in expected:
        mine = found[row["position"], row["kind"]]
        assert {name: mine[name] for name in row} == row


@pytest.mark.java
@pytest.mark.usefixtures("kafka_tools")
def test_commits_match_kafkas_dump_of_the_log(segment: Path) -> None:
    # A run of one commit each: nothing is summed up that could hide a difference.
    rows = [row for batch in Decoder(1, rows_at_once=1).decode(read_segment(segment)) for row in batch.to_pylist()]
    commits = [
        (row["group_id"], row["topic"], row["partition"], row["last_offset"], row["at"])
        for row in rows
        if row["kind"] == Kind.COMMITS
        for _ in range(row["commits"])
    ]
    printed = [(key, value) for _, _, kind, key, value in _by_kafka(segment) if kind == 1 and value is not None]
    assert sum(row["commits"] for row in rows if row["kind"] == Kind.COMMITS) == len(printed) > 1_900
    expected = {
        (key["group"], key["topic"], key["partition"], value["offset"], value["commitTimestamp"])
        for key, value in printed
    }
    assert set(commits) <= expected
    ids = {(row["topic"], row["topic_id"]) for row in rows if row["kind"] == Kind.TOPIC}
    assert ids == {(key["topic"], _uuid(value["topicId"])) for key, value in printed}


def _printed(bootstrap: str, formatter: str, shard: int, records: int) -> list[Row]:
    """What the console consumer prints of so many records of a shard through one of Kafka's formatters.

    Of a shard, because it would otherwise be a member of a group, and write records itself.
    """
    out = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", OFFSETS_TOPIC, "--partition", str(shard)),
        *("--offset", "earliest", "--max-messages", str(records), "--timeout-ms", "50000"),
        *("--formatter", _FORMATTERS + formatter),
    )
    # They follow each other without line ends.
    found, at, decoder = [], 0, json.JSONDecoder()
    while (begin := out.find("{", at)) >= 0:
        row, at = decoder.raw_decode(out, begin)
        found.append(row)
    return found


@pytest.mark.interop
def test_a_shard_that_one_group_fills_is_many_tasks(any_broker: Broker) -> None:
    lived = live_twice(any_broker.bootstrap, "classic")
    given = {"kafka.bootstrap.servers": any_broker.bootstrap}
    (whole,) = _commits_by_task(given, lived.group)
    # Tasks are shared out by size, and other tests have groups on this broker, too.
    size = sum(batch.num_rows for task in cluster_tasks(given) for batch in task())
    parts = _commits_by_task(given | {"minpartitions": str(6 * max(size // whole, 7))}, lived.group)
    assert len(parts) >= 4
    assert sum(parts) == whole


def _commits_by_task(given: dict[str, str], group: str) -> list[int]:
    """Of each task that has commits of the group, how many."""
    found = []
    for task in cluster_tasks(given):
        rows = [row for batch in Decoder(1).decode(task()) for row in batch.to_pylist()]
        found.append(sum(row["commits"] for row in rows if row["group_id"] == group and row["kind"] == Kind.COMMITS))
    return [commits for commits in found if commits]


@pytest.mark.interop
@pytest.mark.usefixtures("kafka_tools")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_brokers_own_topic_reads_as_kafkas_formatters_read_it(any_broker: Broker, protocol: str) -> None:
    bootstrap = any_broker.bootstrap
    lived = live_twice(bootstrap, protocol)
    topic, group = lived.topic, lived.group

    tasks = cluster_tasks({"kafka.bootstrap.servers": bootstrap})
    rows = [row for task in tasks for batch in Decoder(1).decode(task()) for row in batch.to_pylist()]
    mine = [row for row in rows if row["group_id"] == group]
    (shard,) = {row["shard"] for row in mine}
    place = shard, sum(batch["partition"].to_pylist().count(shard) for task in tasks for batch in task())

    commits = [
        row for row in _printed(bootstrap, "OffsetsMessageFormatter", *place) if row["key"]["data"]["group"] == group
    ]
    assert sum(row["commits"] for row in mine if row["kind"] == Kind.COMMITS) == len(commits) >= 4
    last = {
        (row["key"]["data"]["topic"], row["key"]["data"]["partition"]): row["value"]["data"]["offset"]
        for row in commits
    }
    runs = sorted((row for row in mine if row["kind"] == Kind.COMMITS), key=lambda row: row["position"])
    assert {(row["topic"], row["partition"]): row["last_offset"] for row in runs} == last

    if protocol == "classic":
        printed = _printed(bootstrap, "GroupMetadataMessageFormatter", *place)
        generations = [row["value"]["data"] for row in printed if row["key"]["data"].get("group") == group]
        found = sorted((row for row in mine if row["kind"] == Kind.GENERATION), key=lambda row: row["position"])
        assert [row["epoch"] for row in found] == [generation["generation"] for generation in generations]
        assert [[member["member_id"] for member in row["members"]] for row in found] == [
            [member["memberId"] for member in generation["members"]] for generation in generations
        ]
    else:
        alive = [row["alive"] for row in mine if row["kind"] == Kind.MEMBER]
        assert (alive.count(True) >= 2, alive.count(False) >= 2) == (True, True)
        topic_ids = {row["topic_id"] for row in rows if row["kind"] == Kind.TOPIC and row["topic"] == topic}
        held = {held[:36] for row in mine if row["kind"] == Kind.CURRENT for held in row["assigned"]}
        assert held == topic_ids
