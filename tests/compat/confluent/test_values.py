"""Errors, partitions and messages: as the library's, compared with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from kohort import ConsumerRecord, ErrorCode, TimestampType
from kohort.compat import confluent
from kohort.compat.confluent import admin
from kohort.compat.confluent.values import ConsumedMessage

ROOT = Path(__file__).parent.parent.parent.parent


def names(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") or name[1:2].isupper()}


def test_the_adapter_does_without_the_library() -> None:
    text = (
        "import sys, kohort.compat.confluent.admin; print([name for name in sys.modules if 'confluent_kafka' in name])"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_errors_have_the_numbers_of_the_library() -> None:
    numbers = {name for name in names(confluent_kafka.KafkaError) if name.isupper()}
    assert len(numbers) > 180
    for name in numbers:
        number = getattr(confluent_kafka.KafkaError, name)
        assert getattr(confluent.KafkaError, name) == number
        assert confluent.KafkaError(number).name() == confluent_kafka.KafkaError(number).name()


@pytest.mark.parametrize("code", list(ErrorCode))
def test_each_error_of_the_protocol_keeps_its_number_and_has_a_text(code: ErrorCode) -> None:
    error = confluent.KafkaError(code)
    assert error.code() == code.value and error.str() and error == code.value
    assert bool(error) == bool(confluent_kafka.KafkaError(code.value))


def test_an_error_looks_like_the_librarys() -> None:
    ours, theirs = (
        library.KafkaError(-191, "why", fatal=True, retriable=True) for library in (confluent, confluent_kafka)
    )
    assert (repr(ours), str(ours), ours.name(), ours.str()) == (repr(theirs), str(theirs), theirs.name(), theirs.str())
    assert (ours.fatal(), ours.retriable()) == (theirs.fatal(), theirs.retriable())
    assert ours == confluent.KafkaError._PARTITION_EOF and hash(ours) == hash(confluent.KafkaError(-191))
    assert confluent.KafkaError(3) < confluent.KafkaError(4) <= 4 and confluent.KafkaError(4) > 3 >= ours
    assert ours != "text"


def test_a_partition_looks_like_the_librarys() -> None:
    for arguments in (("t",), ("t", 1), ("t", 1, 5), ("t", 1, 5, "note", 3)):
        ours, theirs = confluent.TopicPartition(*arguments), confluent_kafka.TopicPartition(*arguments)
        for name in ("topic", "partition", "offset", "metadata", "leader_epoch", "error"):
            assert getattr(ours, name) == getattr(theirs, name), (name, arguments)
        assert repr(ours) == repr(theirs)
    one, same, other = (confluent.TopicPartition("t", 1, offset) for offset in (1, 2, 3))
    assert one == same and hash(one) == hash(other) and one != confluent.TopicPartition("u", 1)
    assert sorted([confluent.TopicPartition("b", 0), confluent.TopicPartition("a", 1)])[0].topic == "a"


def test_a_message_has_the_librarys_methods() -> None:
    error = confluent.KafkaError(3)
    for library, problem in ((confluent, error), (confluent_kafka, None)):
        message: Any = library.Message(topic="t", partition=1, offset=2, key=b"k", value=b"value")
        assert (message.topic(), message.partition(), message.offset(), message.key()) == ("t", 1, 2, b"k")
        assert (message.headers(), message.timestamp(), message.latency(), len(message)) == (None, (0, 0), None, 5)
        message.set_value({"a": 1})
        message.set_key("key")
        message.set_headers([("h", b"v")])
        message.set_topic("u")
        message.set_error(problem)
        assert (message.value(), message.key(), message.headers(), message.topic()) == (
            {"a": 1},
            "key",
            [("h", b"v")],
            "u",
        )
        assert message.error() == problem


def test_a_consumed_message_can_be_changed() -> None:
    headers = [("h", b"1")]
    record = ConsumerRecord("t", 1, 2, 3, b"k", b"value", headers, TimestampType.LOG_APPEND_TIME, 4)

    def fields(message: confluent.Message) -> list[object]:
        place = [message.topic(), message.partition(), message.offset(), message.timestamp(), message.leader_epoch()]
        return [*place, message.key(), message.value(), message.headers(), message.latency(), message.error()]

    consumed = ConsumedMessage(record)
    assert fields(consumed) == ["t", 1, 2, (2, 3), 4, b"k", b"value", headers, None, None]
    assert len(consumed) == 5
    assert ConsumedMessage(record._replace(headers=())).headers() is None
    assert len(ConsumedMessage(record._replace(value=None))) == 0
    for name, number in (("topic", 0), ("key", 5), ("value", 6), ("headers", 7), ("error", 9)):
        message: confluent.Message = ConsumedMessage(record)
        expected = fields(message)
        new = expected[number] = confluent.KafkaError(3) if name == "error" else [("new", b"")]
        getattr(message, f"set_{name}")(new)
        assert isinstance(message, confluent.Message)
        assert fields(message) == expected


LEFT_OUT: dict[str, set[str]] = {
    "Consumer": set(),
    "Producer": set(),
    "Message": {"delivery_count", "deserialized_key", "deserialized_value"},
    "TopicPartition": set(),
    "KafkaError": set(),
    "AdminClient": {
        "alter_configs",
        "alter_user_scram_credentials",
        "create_acls",
        "delete_acls",
        "describe_acls",
        "describe_topics",
        "describe_user_scram_credentials",
        "elect_leaders",
        "set_sasl_credentials",
    },
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_the_document_says_which_methods_are_left_out(name: str) -> None:
    ours, theirs = (admin, confluent_kafka.admin) if name == "AdminClient" else (confluent, confluent_kafka)
    assert names(getattr(theirs, name)) - names(getattr(ours, name)) == LEFT_OUT[name]
    document = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    assert not [method for method in LEFT_OUT[name] if f"`{method}`" not in document]


def test_enumerations_have_the_librarys_values() -> None:
    for ours, theirs, name in (
        (confluent, confluent_kafka, "ConsumerGroupState"),
        (confluent, confluent_kafka, "ConsumerGroupType"),
        (admin, confluent_kafka.admin, "ConfigSource"),
        (admin, confluent_kafka.admin, "AlterConfigOpType"),
        (admin, confluent_kafka.admin, "ResourceType"),
        (confluent, confluent_kafka, "IsolationLevel"),
    ):
        known = {member.name: member.value for member in getattr(theirs, name)}
        assert known.items() <= {member.name: member.value for member in getattr(ours, name)}.items()
    for name in ("OFFSET_BEGINNING", "OFFSET_END", "OFFSET_STORED", "OFFSET_INVALID", "TIMESTAMP_CREATE_TIME"):
        assert getattr(confluent, name) == getattr(confluent_kafka, name)
