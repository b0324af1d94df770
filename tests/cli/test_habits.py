"""Options that people know from kcat and from Kafka's scripts: they work, or the error says what does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort import ConfigError
from kohort.cli.client_options import LIBRDKAFKA_NAMES
from kohort.cli.record_json import NewRecord, UnreadableLine
from kohort.cli.record_lines import HeaderSeparators, LineFormat
from kohort.cli.script_properties import Printed, read_parsed, read_printed
from kohort.compat.confluent.option_names import OF_CONSUMER, OF_PRODUCER, SAME
from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker
from tests.interop.kohort import running_kohort


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        ("-P -t orders", "use kohort produce."),
        ("-C -t orders", "use kohort consume."),
        ("-L", "use kohort topic describe NAME, or kohort topic list."),
        ("-Q -t orders:0:0", "use kohort topic describe NAME --time TIME."),
        ("topic --list", "use kohort topic list."),
        ("topic --alter --topic orders", "use kohort topic partitions or kohort topic config set."),
        ("topic create --topic orders", "give the name alone, as in kohort topic create NAME."),
        ("group describe --group billing", "give the name alone, as in kohort group describe NAME."),
        ("group --reset-offsets", "use kohort group reset-offsets."),
        ("consume --whitelist orders", "use --include."),
        ("produce --broker-list 127.0.0.1:9092", "use --bootstrap-server."),
    ],
)
def test_an_option_of_another_tool_says_what_to_use(run: Run, arguments: str, instead: str) -> None:
    told = run(*arguments.split())
    assert (told.code, told.out) == (2, "")
    assert f" Instead, {instead} (kohort " in told.err and len(told.err.splitlines()) == 1


def test_an_unknown_option_has_no_hint(run: Run) -> None:
    assert run("consume", "orders", "-C").err == "kohort: No such option: -C (kohort consume --help)\n"


def test_properties_of_the_console_consumer_choose_what_is_printed() -> None:
    assert read_printed([]) == Printed(None, None, None, None)
    given = ["print.key=true", "print.offset=TRUE", "print.headers=false", "print.value=true", "key.separator= = "]
    assert read_printed(given) == Printed("offset,key", " = ", None, None)
    assert read_printed(["line.separator=;", "null.literal=NIL"]) == Printed(None, None, ";", "NIL")


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("print.nonsense=true", "--property has 'print.nonsense', but takes print.timestamp, "),
        ("print.key=yes", "--property print.key takes true or false, not 'yes'"),
        ("print.value=false", "use --format"),
        ("print.key", "--property takes NAME=VALUE, not 'print.key'"),
    ],
)
def test_an_unknown_property_is_an_error(pair: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_printed([pair])
    assert says in str(raised.value)


def test_properties_of_the_console_producer_divide_a_line() -> None:
    assert read_parsed([]) == read_parsed(["parse.key=false"])
    parsed = read_parsed(["parse.key=true", "parse.headers=true", "headers.separator=;", "null.marker=NIL"])
    assert (parsed.separator, parsed.null) == (r"\t", "NIL")
    assert parsed.headers == HeaderSeparators(between=b";")


HEADERS = LineFormat(
    separator=b"\t", header_separators=HeaderSeparators(), null_marker=b"NIL", headers=(("all", b"1"),)
)


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b"a:1,b:2:3\tkey\tvalue", NewRecord(b"value", b"key", (("a", b"1"), ("b", b"2:3"), ("all", b"1")))),
        (b"a:NIL\tkey\tNIL", NewRecord(None, b"key", (("a", None), ("all", b"1")))),
        (b"\tkey\tvalue", NewRecord(b"value", b"key", (("all", b"1"),))),
        (b"NIL\tkey\tvalue", NewRecord(b"value", b"key", (("all", b"1"),))),
    ],
)
def test_a_line_can_begin_with_headers(line: bytes, record: NewRecord) -> None:
    assert HEADERS.record(line) == record


@pytest.mark.parametrize(("line", "says"), [(b"value", "has no"), (b"a\tkey\tvalue", "has a header without ':'")])
def test_a_line_without_its_headers_is_unreadable(line: bytes, says: str) -> None:
    with pytest.raises(UnreadableLine, match=says):
        HEADERS.record(line)


def test_the_names_of_librdkafka_mean_what_the_adapter_says() -> None:
    adapter = {**SAME, **OF_CONSUMER, **OF_PRODUCER}
    assert {name: adapter[name] for name in LIBRDKAFKA_NAMES} == LIBRDKAFKA_NAMES


def test_a_topic_is_written_and_read_with_the_options_of_kafkas_scripts(
    run: Run, any_broker: Broker, name: str
) -> None:
    bootstrap = any_broker.bootstrap
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    assert run("topic", "create", name, "--if-not-exists", bootstrap=bootstrap).out == f"{name} exists\n"
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    options = ("--producer-property", "queue.buffering.max.ms=1", "-X", "compression.codec=gzip")
    succeeded(run("produce", "--topic", name, *keyed, *options, bootstrap=bootstrap, stdin="a:1\nb:2\n"))
    read = ("consume", "--topic", name, "--from-beginning")
    shown = ("--property", "print.key=true", "--property", "print.offset=true")
    assert run(*read, *shown, "--timeout-ms", "500", bootstrap=bootstrap).lines == ["Offset:0\ta\t1", "Offset:1\tb\t2"]
    assert run(*read, "--group", name, "--timeout-ms", "500", bootstrap=bootstrap).lines == ["1", "2"]


def test_options_of_the_client_choose_where_to_start_and_the_group(run: Run, any_broker: Broker, name: str) -> None:
    bootstrap = any_broker.bootstrap
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    succeeded(run("produce", name, bootstrap=bootstrap, stdin="1\n2\n"))
    earliest = ("-X", "auto.offset.reset=earliest", "-e")
    assert run("consume", name, *earliest, bootstrap=bootstrap).lines == ["1", "2"]
    assert run("consume", name, *earliest, "-c", "1", "-X", f"group.id={name}", bootstrap=bootstrap).lines == ["1"]
    assert run("consume", name, "-G", name, "-e", bootstrap=bootstrap).lines == ["2"]


def test_a_file_of_an_application_does_not_make_the_command_its_member(
    run: Run, any_broker: Broker, name: str, tmp_path: Path
) -> None:
    bootstrap = any_broker.bootstrap
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    succeeded(run("produce", name, bootstrap=bootstrap, stdin="1\n"))
    file = tmp_path / "application.properties"
    file.write_text(f"group.id={name}\n")
    read = run("consume", name, "--from-beginning", "-e", "--command-config", str(file), bootstrap=bootstrap)
    assert (read.lines, read.err) == (
        ["1"],
        f"group.id={name} of --command-config has no effect: give --group to join the group\n",
    )
    assert name not in run("group", "list", bootstrap=bootstrap).out


def test_reading_nothing_says_where_reading_starts(run: Run, any_broker: Broker, name: str) -> None:
    bootstrap = any_broker.bootstrap
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=bootstrap))
    succeeded(run("produce", name, bootstrap=bootstrap, stdin="1\n"))
    told = run("consume", name, "-e", bootstrap=bootstrap)
    assert (told.code, told.out) == (0, "")
    assert told.err == "read no record: reading starts at the end; --from-beginning reads all\n"
    assert run("consume", name, "-e", "-q", bootstrap=bootstrap).err == ""
    assert run("consume", name, "-o", "end", "-e", bootstrap=bootstrap).err == ""


def test_the_time_limit_of_a_group_begins_when_it_has_partitions(run: Run) -> None:
    with running_kohort(group_initial_rebalance_delay_ms="1500") as broker:
        succeeded(run("topic", "create", "t", "--partitions", "1", bootstrap=broker.bootstrap))
        succeeded(run("produce", "t", bootstrap=broker.bootstrap, stdin="1\n"))
        read = run("consume", "t", "-G", "g", "--from-beginning", "--timeout-ms", "500", bootstrap=broker.bootstrap)
    assert read.lines == ["1"]
