"""`kohort produce`: every part of a record, from lines, files and JSON, with kcat's short options."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kohort import ConsumerRecord, TopicPartition
from kohort.blocking import Consumer
from tests.cli.conftest import Run, succeeded
from tests.cli.kcat import kcat
from tests.cli.test_record_json import CONTENT, NAMES
from tests.interop.broker import Broker


@pytest.fixture
def bootstrap(any_broker: Broker) -> str:
    return any_broker.bootstrap


@pytest.fixture
def topic(run: Run, bootstrap: str, name: str) -> str:
    succeeded(run("topic", "create", name, "--partitions", "2", bootstrap=bootstrap))
    return name


def stored(bootstrap: str, topic: str, partitions: Sequence[int] = (0, 1)) -> list[ConsumerRecord]:
    """All records of the topic, read by the client."""
    read = [TopicPartition(topic, number) for number in partitions]
    found: list[ConsumerRecord] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(read)
        ends = consumer.end_offsets(read)
        while any(consumer.position(one) < ends[one] for one in read):
            found += consumer.poll()
    return found


def test_every_part_of_a_record_has_an_option(run: Run, bootstrap: str, topic: str) -> None:
    options = ("-K", r"\t", "-H", "trace=1", "-H", "trace=2", "-H", "empty=", "-H", "null", "-p", "1", "-Z")
    wrote = run(
        "produce", "-t", topic, *options, "--timestamp", "1700000000000", bootstrap=bootstrap, stdin="a\t1\n\t\n"
    )
    assert (wrote.code, wrote.out) == (0, "") and wrote.err.startswith(f"wrote 2 records to {topic} in ")
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("null", None)]
    assert [(r.partition, r.timestamp, r.key, r.value, list(r.headers)) for r in stored(bootstrap, topic)] == [
        (1, 1700000000000, b"a", b"1", headers),
        (1, 1700000000000, None, None, headers),
    ]


def test_a_time_is_read_as_utc(run: Run, bootstrap: str, topic: str) -> None:
    succeeded(run("produce", topic, "--timestamp", "2023-11-14T22:13:20", "-q", bootstrap=bootstrap, stdin="a\n"))
    assert [record.timestamp for record in stored(bootstrap, topic)] == [1700000000000]


def test_a_file_is_a_record_or_its_lines_are(run: Run, bootstrap: str, topic: str, tmp_path: Path) -> None:
    whole, lines = tmp_path / "whole", tmp_path / "lines"
    whole.write_bytes(b"\xff\n\0\r\n" * 50_000)
    lines.write_bytes(b"a;b;;c")
    succeeded(run("produce", topic, str(whole), "-p", "0", bootstrap=bootstrap))
    succeeded(
        run("produce", "-t", topic, "-l", str(lines), "-", "-D", ";", "-p", "1", bootstrap=bootstrap, stdin="x\n;y")
    )
    assert [record.value for record in stored(bootstrap, topic, [0])] == [whole.read_bytes()]
    assert [record.value for record in stored(bootstrap, topic, [1])] == [b"a", b"b", b"", b"c", b"x\n", b"y"]


def test_it_stops_after_as_many_records_as_wanted(run: Run, bootstrap: str, topic: str) -> None:
    wrote = run("produce", topic, "-c", "2", "-k", "same", bootstrap=bootstrap, stdin="1\n2\n3\n4\n")
    assert wrote.err.startswith("wrote 2 records")
    assert [(record.key, record.value) for record in stored(bootstrap, topic)] == [(b"same", b"1"), (b"same", b"2")]


@pytest.mark.parametrize(
    ("arguments", "stdin", "says"),
    [
        (("--json",), '{"value": "1"}\n{"vaule": "2"}\n', "Line 2 has the field 'vaule'"),
        (("--json",), "hello\n", "Line 1 is not JSON"),
        (("--json",), '{"value": "1", "partition": 7}\n', "Line 1 cannot be written: UNKNOWN_TOPIC_OR_PARTITION"),
        ((), "small\n" + "x" * 1_100_000, "Line 2 cannot be written: MESSAGE_TOO_LARGE"),
        (("-D", ""), "", "--delimiter takes at least one character"),
        (("--timestamp", "soon"), "", "--timestamp takes a time such as"),
        (("no/such/file",), "", "no/such/file cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_names_its_place(
    run: Run, bootstrap: str, topic: str, arguments: tuple[str, ...], stdin: str, says: str
) -> None:
    ended = run("produce", topic, *arguments, bootstrap=bootstrap, stdin=stdin)
    assert ended.code == 2 and ended.err.startswith("kohort: ") and says in ended.err
    assert len(ended.err.splitlines()) == 1
    if "the lines before it are written" in ended.err:
        assert len(stored(bootstrap, topic)) == stdin.count("\n") - stdin.endswith("\n")


@pytest.mark.parametrize("option", ["-b", "--bootstrap-server", "--bootstrap"])
def test_the_address_has_the_names_of_other_tools(run: Run, bootstrap: str, topic: str, option: str) -> None:
    assert topic in run("topic", "list", option, bootstrap).out
    assert run("produce", topic, option, bootstrap, stdin="a\n").code == 0


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "partition": st.integers(0, 1),
            "timestamp": st.integers(0, 1_700_000_000_000),  # brokers refuse times in the future
            "key": CONTENT,
            "value": CONTENT,
            "headers": st.lists(st.tuples(NAMES, CONTENT), max_size=3),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(
    max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=ROWS)
def test_json_that_is_consumed_is_produced_again_to_the_byte(
    run: Run, bootstrap: str, rows: list[dict[str, object]]
) -> None:
    def based(data: object) -> object:
        return {"base64": b64encode(data).decode()} if isinstance(data, bytes) else data

    unique = uuid4().hex
    topics = [f"json-{unique}-{which}" for which in "ab"]
    succeeded(run("topic", "create", *topics, "--partitions", "2", bootstrap=bootstrap))
    lines = "".join(
        json.dumps(
            row
            | {"key": based(row["key"]), "value": based(row["value"])}
            | {"headers": [(name, based(content)) for name, content in row["headers"]]}  # type: ignore[attr-defined]
        )
        + "\n"
        for row in rows
    )
    succeeded(run("produce", topics[0], "--json", bootstrap=bootstrap, stdin=lines))
    consume = ("--json", "--from-beginning", "--max", str(len(rows)))
    printed = run("consume", topics[0], *consume, bootstrap=bootstrap).out
    succeeded(run("produce", topics[1], "--json", bootstrap=bootstrap, stdin=printed))

    first, second = (
        sorted((r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in stored(bootstrap, topic))
        for topic in topics
    )
    assert first == second
    written = [(r["partition"], r["timestamp"], r["key"], r["value"], r["headers"]) for r in rows]
    for partition in (0, 1):
        assert [row[0:1] + row[2:] for row in first if row[0] == partition] == [
            row for row in written if row[0] == partition
        ]


@pytest.mark.parametrize(
    ("options", "stdin"),
    [
        ((), b"a\nb\xff\nc"),
        (("-K", ":"), b"a:1\n:2\nb:\n:\na:b:c\n"),
        (("-K", ":", "-Z"), b"a:1\n:2\nb:\n:\n"),
        (("-K", ":", "-k", "same"), b"a:1\nb\n"),
        (("-Z", "-K", ":", "-k", "k", "-H", "a=1", "-H", "a=2", "-H", "b="), b":\nx\n"),
        (("-D", ";", "-K", r"\t"), b"a\t1;b\t2;c\t3"),
        (("-c", "2"), b"1\n2\n3\n"),
        (("-z", "gzip"), b"1\n2\n3\n"),
    ],
)
def test_it_writes_what_kcat_writes(
    run: Run, bootstrap: str, topic: str, tmp_path: Path, options: tuple[str, ...], stdin: bytes
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(stdin)
    kcat("-P", "-b", bootstrap, "-t", topic, "-p", "0", *options, stdin=stdin)
    succeeded(run("produce", "-b", bootstrap, "-t", topic, "-p", "1", *options, "-l", str(lines)))
    theirs, ours = (
        [(record.key, record.value, list(record.headers)) for record in stored(bootstrap, topic, [number])]
        for number in (0, 1)
    )
    assert ours == theirs


def test_the_number_of_records_counts_all_parts_of_a_large_input(run: Run, any_broker: Broker, name: str) -> None:
    bootstrap = any_broker.bootstrap
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    # The input is read in parts of 256 KiB, each of them with fewer lines than are wanted.
    wrote = run("produce", name, "-c", "700", bootstrap=bootstrap, stdin=("x" * 1023 + "\n") * 1000)
    assert wrote.err.startswith(f"wrote 700 records to {name}")
