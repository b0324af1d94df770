"""`kohort consume`: which records it reads and how it prints them, with kcat's short options."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from kohort import ConfigError, ConsumerRecord, TopicPartition, blocking, testing
from kohort.cli.read_range import FromOffset, FromTime, LastRecords, Start, read_offsets
from kohort.cli.record_format import keys_format, string_format
from tests.cli.conftest import Run, succeeded
from tests.cli.kcat import kcat
from tests.interop.broker import Broker
from tests.interop.kohort import kohort


@pytest.fixture
def bootstrap(any_broker: Broker) -> str:
    return any_broker.bootstrap


HEADERS = [["h", "1"], ["h", "2"], ["n", None]]


@pytest.fixture
def topic(run: Run, bootstrap: str, name: str) -> str:
    """Two partitions: five records at the times 1000 to 5000 in the first, one at 2500 in the second."""
    succeeded(run("topic", "create", name, "--partitions", "2", bootstrap=bootstrap))
    lines = [
        {"partition": 0, "timestamp": 1000, "key": "a", "value": "one", "headers": HEADERS},
        {"partition": 0, "timestamp": 2000, "key": None, "value": "two"},
        {"partition": 0, "timestamp": 3000, "key": "a", "value": None},
        {"partition": 0, "timestamp": 4000, "key": "b", "value": {"base64": "/w=="}},
        {"partition": 0, "timestamp": 5000, "key": "b", "value": ""},
        {"partition": 1, "timestamp": 2500, "key": "c", "value": "other"},
    ]  # fmt: skip
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    succeeded(run("produce", name, "--json", bootstrap=bootstrap, stdin=stdin))
    return name


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ("-o beginning -e", ["0 0", "0 1", "0 2", "0 3", "0 4", "1 0"]),
        ("--from-beginning -e -p 1", ["1 0"]),
        ("-o beginning -c 2 -p 0", ["0 0", "0 1"]),
        ("-o end -e", []),
        ("-e -q", []),
        ("-o 3 -p 0 -e", ["0 3", "0 4"]),
        ("-o -2 -e", ["0 3", "0 4", "1 0"]),
        ("--last 1 -e", ["0 4", "1 0"]),
        ("--last 0 -e", []),
        ("-o s@2500 -e", ["0 2", "0 3", "0 4", "1 0"]),
        ("--from-time 1970-01-01T00:00:04 -e", ["0 3", "0 4"]),
        ("-o beginning -o e@2500", ["0 0", "0 1"]),
        ("-o s@2000 --until-time 4000", ["0 1", "0 2", "1 0"]),
        ("-o beginning --until-time 9999999999999", ["0 0", "0 1", "0 2", "0 3", "0 4", "1 0"]),
    ],
)
def test_a_part_of_the_topic_is_read(run: Run, bootstrap: str, topic: str, options: str, offsets: list[str]) -> None:
    read = run("consume", "-b", bootstrap, "-t", topic, *options.split(), "-f", r"%p %o\n")
    assert (read.code, sorted(read.lines), read.err) == (0, offsets, "")


def test_an_offset_outside_of_the_partition_is_said(run: Run, bootstrap: str, topic: str) -> None:
    read = run("consume", topic, "-p", "0", "-o", "7", "-e", bootstrap=bootstrap)
    assert (read.code, read.out) == (0, "")
    assert read.err == f"kohort: {topic}-0 has the offsets 0 to 5, not 7; reading starts at 5\n"


@pytest.mark.parametrize(
    ("options", "out"),
    [
        ("", "one\ntwo\n\n"),
        ("-Z", "one\ntwo\nNULL\n"),
        ("--null-marker -", "one\ntwo\n-\n"),
        ("-K :", "a:one\n:two\na:\n"),
        ("-D ;", "one;two;;"),
        (
            "--show timestamp,headers,key",
            "CreateTime:1000\th:1,h:2,n:null\ta\tone\n"
            "CreateTime:2000\tNO_HEADERS\tnull\ttwo\n"
            "CreateTime:3000\tNO_HEADERS\ta\tnull\n",
        ),
        ("--show offset -Z", "Offset:0\tone\nOffset:1\ttwo\nOffset:2\tNULL\n"),
    ],
)
def test_what_surrounds_a_value_is_shown(run: Run, bootstrap: str, topic: str, options: str, out: str) -> None:
    read = run("consume", topic, *options.split(), "-p", "0", "-o", "0", "-c", "3", bootstrap=bootstrap)
    assert (read.code, read.out) == (0, out)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("-o soon", "--offset takes beginning, end, an offset such as 7, -5 for the last 5, s@ and e@"),
        ("-o 1 -o 2", "--offset 1 and 2 contradict each other"),
        ("-o 1 --last 2", "--offset and --last contradict each other"),
        ("-o e@1 --until-time 1", "--offset e@ and --until-time contradict each other"),
        ("--from-time soon", "--from-time takes a time such as"),
        ("-o stored", "--offset stored needs --group"),
        ("-G g -o 5", "set them with kohort group reset-offsets, or leave out --group"),
        ("-G g -p 0", "--partition and --group contradict each other"),
        ("-p 2", "has the partitions 0 to 1, not 2"),
        ("-f %z", "--format has '%z', but takes %s, %S, "),
        ("--show colour", "--show takes timestamp, partition, offset, headers, key, not 'colour'"),
        ("--json -f %s", "--json and --format contradict each other"),
    ],
)
def test_a_mistake_is_a_sentence(run: Run, bootstrap: str, topic: str, options: str, says: str) -> None:
    ended = run("consume", topic, *options.split(), bootstrap=bootstrap)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("kohort: ") and says in ended.err and len(ended.err.splitlines()) == 1


def test_a_group_reads_to_the_end(run: Run, bootstrap: str, topic: str) -> None:
    consume = ("consume", topic, "-G", topic, "-e", "-f", "%o ", "-o", "beginning")
    assert sorted(run(*consume, bootstrap=bootstrap).out.split()) == ["0", "0", "1", "2", "3", "4"]
    again = run(*consume, bootstrap=bootstrap)
    assert (again.code, again.out) == (0, "")


def test_ctrl_c_says_how_much_was_read(run: Run, bootstrap: str, topic: str) -> None:
    command = kohort("consume", topic, "--from-beginning", "-p", "0", "--bootstrap", bootstrap)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(5)] == [b"one\n", b"two\n", b"\n", b"\xff\n", b"\n"]
        consumer.send_signal(signal.SIGINT)
        _, err = consumer.communicate(timeout=30)
    assert consumer.returncode == 0 and err.startswith(b"read 5 records in ")


@pytest.mark.parametrize(
    "options",
    [
        ("-f", r"T=%t p=%p o=%o k=%k K=%K s=%s S=%S T=%T h=%h R=%R x=\x41 \101 %% \\ \q|\n"),
        ("-Z", "-f", r"%k %s\t%h\n"),
        ("-K", ":"),
        ("-Z", "-K", r"\t"),
        ("-D", r"\x1f"),
        ("-c", "2"),
        ("-o", "-2", "-f", r"%o\n"),
        ("-o", "s@2500", "-f", r"%o\n"),
        ("-o", "beginning", "-o", "e@2500", "-f", r"%o\n"),
    ],
    ids=" ".join,
)
def test_it_prints_what_kcat_prints(run: Run, bootstrap: str, topic: str, options: tuple[str, ...]) -> None:
    # kcat reads from the beginning where ours reads from the end, and -Z of kcat says NULL for empty values, too.
    same = ("-b", bootstrap, "-t", topic, "-p", "0", "-e", "-q", *options)
    start = () if "-o" in options else ("-o", "beginning")
    ours = subprocess.run(kohort("consume", *same, *start), capture_output=True, timeout=60, check=True).stdout
    theirs = kcat("-C", *same)
    if "-Z" in options:
        ours = ours.replace(b"b \t\n", b"b NULL\t\n").replace(b"b\t\n", b"b\tNULL\n")
    assert ours == theirs


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ([], (None, None)),
        (["earliest"], ("beginning", None)),
        (["latest"], ("end", None)),
        (["0"], (FromOffset(0), None)),
        (["-3"], (LastRecords(3), None)),
        (["s@5", "e@7"], (FromTime(5), 7)),
        (["e@7"], (None, 7)),
    ],
)
def test_offsets_are_read_as_by_kcat(given: list[str], read: tuple[Start | None, int | None]) -> None:
    assert read_offsets(given) == read


def test_a_format_string_has_tokens_and_escapes() -> None:
    record = ConsumerRecord("t", 1, 2, 3, b"k", None, [("h", b"x"), ("h", None)])
    assert string_format(r"%t/%p/%o/%T/%k/%K/%s/%S/%h/%%/\x41\t\65\n", b"-")([record]) == (
        b"t/1/2/3/k/1/-/-1/h=x,h=NULL/%/A\tA\n"
    )
    assert string_format("%R", b"")([record]) == b"\xff\xff\xff\xff"
    with pytest.raises(ConfigError, match="'%'"):
        string_format("50%", b"")


def test_a_new_group_says_once_why_it_waits(run: Run) -> None:
    with testing.Broker(topics={"t": 1}, settings={"group.initial.rebalance.delay.ms": "2000"}) as broker:
        broker.topic("t").produce("one")
        consume = ("consume", "t", "--from-beginning", "-e", "-G")
        first = run(*consume, "g", bootstrap=broker.bootstrap_servers)
        assert (first.code, first.out, len(first.err.splitlines())) == (0, "one\n", 1)
        assert first.err.startswith("group g: waiting for other members to join.")
        assert "group.initial.rebalance.delay.ms=0" in first.err
        quiet = run(*consume, "other", "-q", bootstrap=broker.bootstrap_servers)
        assert (quiet.code, quiet.err) == (0, "")


def test_the_last_records_are_those_that_retention_left(run: Run, bootstrap: str, topic: str) -> None:
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 3})
    read = run("consume", topic, "--last", "9", "-e", "-f", r"%p %o\n", bootstrap=bootstrap)
    assert (sorted(read.lines), read.err) == (["0 3", "0 4", "1 0"], "")


def test_an_empty_key_is_not_null() -> None:
    records = [
        ConsumerRecord("t", 0, n, 0, key, value, []) for n, (key, value) in enumerate([(b"", b""), (None, None)])
    ]
    assert keys_format(b":", b";", b"NIL")(records) == b":;NIL:NIL;"
