"""Every command that talks to a cluster, against ours; with --broker both against Apache Kafka too."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Protocol

import pytest

from tests.cli.conftest import Run, succeeded
from tests.interop.kohort import kohort


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...


@pytest.fixture
def bootstrap(any_broker: Broker) -> str:
    return any_broker.bootstrap


def test_a_topic_is_created_listed_described_and_deleted(run: Run, bootstrap: str, name: str) -> None:
    made = run("topic", "create", name, "--partitions", "3", "--config", "retention.ms=60000", bootstrap=bootstrap)
    assert (made.code, made.out) == (0, f"created {name}\n")

    listed = run("topic", "list", "--json", bootstrap=bootstrap)
    assert {"name": name, "partitions": 3} in json.loads(listed.out)
    assert any(line.split() == [name, "3"] for line in run("topic", "list", bootstrap=bootstrap).lines)

    [described] = json.loads(run("topic", "describe", name, "--json", bootstrap=bootstrap).out)
    assert described["name"] == name
    assert [
        (partition["partition"], partition["start"], partition["end"]) for partition in described["partitions"]
    ] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert all(
        partition["isr"] == partition["replicas"] == [partition["leader"]] for partition in described["partitions"]
    )
    told = run("topic", "describe", name, bootstrap=bootstrap).lines
    assert told[0].startswith(f"{name}: 3 partitions, 0 records")
    assert told[1].split() == ["partition", "leader", "replicas", "isr", "start", "end"]

    assert run("topic", "delete", name, bootstrap=bootstrap).out == f"deleted {name}\n"
    gone = run("topic", "describe", name, bootstrap=bootstrap)
    assert (gone.code, gone.out) == (2, "")
    assert gone.err.startswith("kohort: UNKNOWN_TOPIC_OR_PARTITION") and len(gone.err.splitlines()) == 1


def test_an_existing_topic_is_an_error_unless_it_may_exist(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, bootstrap=bootstrap))
    again = run("topic", "create", name, bootstrap=bootstrap)
    assert again.code == 2 and again.err.startswith("kohort: TOPIC_ALREADY_EXISTS")
    assert run("topic", "create", name, "--if-missing", bootstrap=bootstrap).out == f"{name} exists\n"


def test_lines_go_in_and_come_out(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    wrote = run("produce", name, "--key-separator", ":", bootstrap=bootstrap, stdin="a:1\nb:zwei:2\r\nc:ohne Ende")
    assert (wrote.code, wrote.out) == (0, "") and f"wrote 3 records to {name}" in wrote.err

    read = run("consume", name, "--from-beginning", "--max", "3", "--key-separator", "=", bootstrap=bootstrap)
    assert (read.code, read.lines) == (0, ["a=1", "b=zwei:2", "c=ohne Ende"])
    [first] = run("consume", name, "--from-beginning", "--max", "1", "--json", bootstrap=bootstrap).lines
    told = json.loads(first)
    assert isinstance(told.pop("timestamp"), int)
    assert told == {"topic": name, "partition": 0, "offset": 0, "key": "a", "value": "1", "headers": []}


def test_compressed_records_come_out_as_they_went_in(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, bootstrap=bootstrap))
    succeeded(run("produce", name, "--compression", "zstd", bootstrap=bootstrap, stdin="same\n" * 100))
    assert run("consume", name, "--from-beginning", "--max", "100", bootstrap=bootstrap).out == "same\n" * 100


def test_a_line_without_the_separator_ends_it_and_is_named(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, bootstrap=bootstrap))
    ended = run("produce", name, "--key-separator", ":", bootstrap=bootstrap, stdin="a:1\nb\n")
    assert ended.code == 2 and ended.err.startswith("kohort: Line 2 has no ':' between key and value")


def test_a_group_continues_at_its_offsets(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    succeeded(run("produce", name, bootstrap=bootstrap, stdin="1\n2\n3\n4\n5\n"))
    consume = ("consume", name, "--group", name, "--from-beginning", "--max", "2")
    assert run(*consume, bootstrap=bootstrap).lines == ["1", "2"]
    assert run(*consume, bootstrap=bootstrap).lines == ["3", "4"]

    listed = json.loads(run("group", "list", "--json", bootstrap=bootstrap).out)
    assert {"group": name, "state": "Empty", "protocol_type": "consumer", "type": "classic"} in [
        {**row, "type": (row["type"] or "classic").lower()} for row in listed
    ]
    described = json.loads(run("group", "describe", name, "--json", bootstrap=bootstrap).out)
    assert (described["state"], described["members"], described["lag"]) == ("Empty", [], 1)
    assert described["offsets"] == [{"topic": name, "partition": 0, "committed": 4, "end": 5, "lag": 1, "metadata": ""}]
    state, header, row = run("group", "describe", name, bootstrap=bootstrap).lines
    assert state.startswith(f"{name}: Empty, 0 members, ") and state.endswith("lag 1")
    assert header.split() == ["partition", "committed", "end", "lag", "member"]
    assert row.split() == [f"{name}-0", "4", "5", "1", "-"]


def test_a_consumer_group_continues_at_its_offsets(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    succeeded(run("produce", name, bootstrap=bootstrap, stdin="1\n2\n3\n4\n"))
    consume = ("consume", name, "--group", name, "--protocol", "consumer", "--from-beginning", "--max", "2")
    assert run(*consume, bootstrap=bootstrap).lines == ["1", "2"]
    assert run(*consume, bootstrap=bootstrap).lines == ["3", "4"]
    listed = json.loads(run("group", "list", "--json", bootstrap=bootstrap).out)
    assert [(row["state"], row["type"].lower()) for row in listed if row["group"] == name] == [("Empty", "consumer")]


def test_a_group_that_does_not_exist_is_a_no(run: Run, bootstrap: str) -> None:
    asked = run("group", "describe", "no-such-group", bootstrap=bootstrap)
    assert (asked.code, asked.out) == (1, "")
    assert asked.err == "kohort: There is no group no-such-group; see kohort group list.\n"


def test_a_topic_that_does_not_exist_is_not_consumed(run: Run, bootstrap: str) -> None:
    asked = run("consume", "no-such-topic", "--from-beginning", bootstrap=bootstrap)
    assert asked.code == 2 and asked.err.startswith("kohort: UNKNOWN_TOPIC_OR_PARTITION: no-such-topic")


def test_ctrl_c_commits_what_was_printed_and_leaves(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    succeeded(run("produce", name, bootstrap=bootstrap, stdin="1\n2\n3\n"))
    command = kohort("consume", name, "--group", name, "--from-beginning", "--bootstrap", bootstrap)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(3)] == ["1\n", "2\n", "3\n"]
        consumer.send_signal(signal.SIGINT)
        out, err = consumer.communicate(timeout=30)
    assert (consumer.returncode, out) == (0, "") and "read 3 records in " in err
    described = json.loads(run("group", "describe", name, "--json", bootstrap=bootstrap).out)
    assert (described["state"], described["lag"]) == ("Empty", 0)


def test_a_group_of_the_consumer_protocol_is_joined(run: Run, bootstrap: str, name: str) -> None:
    succeeded(run("topic", "create", name, bootstrap=bootstrap))
    succeeded(run("produce", name, stdin="x\n", bootstrap=bootstrap))
    consume = ("consume", name, "--group", name, "--protocol", "consumer", "--from-beginning", "--max", "1")
    assert run(*consume, bootstrap=bootstrap).lines == ["x"]
    described = json.loads(run("group", "describe", name, "--json", bootstrap=bootstrap).out)
    assert (described["state"], described["lag"]) == ("Empty", 0)


def test_topics_by_pattern_are_consumed_alone_and_in_a_group(run: Run, bootstrap: str, name: str) -> None:
    for topic in (f"{name}-a", f"{name}-b"):
        succeeded(run("topic", "create", topic, bootstrap=bootstrap))
        succeeded(run("produce", topic, stdin="x\n", bootstrap=bootstrap))
    consume = ("consume", "--pattern", f"{name}-[ab]", "--from-beginning", "--max", "2", "--json")
    for more in ((), ("--group", name)):
        told = run(*consume, *more, bootstrap=bootstrap)
        assert sorted(json.loads(line)["topic"] for line in told.lines) == [f"{name}-a", f"{name}-b"]


def test_topics_and_pattern_exclude_each_other(run: Run) -> None:
    assert "name at least one topic" in run("consume").err
    assert "not both" in run("consume", "orders", "--pattern", "o.*").err
    assert "not a regular expression" in run("consume", "--pattern", "(").err
