"""librdkafka's options: translated, refused, or ignored with one warning."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kohort.client import ConsumerOptions, ProducerOptions
from kohort.compat.confluent import KafkaError, KafkaException
from kohort.compat.confluent.configuration import Configuration, read_configuration
from kohort.compat.confluent.option_names import NO_EFFECT, OF_ADAPTER, OF_CONSUMER, OF_PRODUCER, REFUSED, SAME

CONSUMER = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}


def consumer(**options: Any) -> Configuration:
    return read_configuration(({**CONSUMER, **{n.replace("_", "."): v for n, v in options.items()}},), {}, "consumer")


def producer(**options: Any) -> Configuration:
    given = {"bootstrap.servers": "127.0.0.1:1", **{n.replace("_", "."): v for n, v in options.items()}}
    return read_configuration((given,), {}, "producer")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("smallest", "earliest"),
        ("beginning", "earliest"),
        ("earliest", "earliest"),
        ("largest", "latest"),
        ("end", "latest"),
        ("error", "none"),
    ],
)
def test_each_name_of_a_start_position_is_understood(given: str, read: str) -> None:
    assert consumer(auto_offset_reset=given).kohort["auto_offset_reset"] == read


def test_the_defaults_are_those_of_librdkafka() -> None:
    options = ConsumerOptions.read(consumer().kohort)
    assert options.partition_assignment_strategy == ["range", "roundrobin"]
    assert (options.isolation_level, options.auto_offset_reset) == ("read_committed", "latest")
    assert not options.allow_auto_create_topics and options.enable_auto_commit
    sending = ProducerOptions.read(producer().kohort)
    assert sending.partitioner == "consistent_random"
    assert (sending.delivery_timeout_ms, sending.max_block_ms) == (300_000, 300_000)
    assert (sending.max_request_size, sending.batch_size) == (1_000_000, 1_000_000)


def test_values_are_converted() -> None:
    sending = producer(
        queue_buffering_max_ms="0.5", message_timeout_ms=0, queue_buffering_max_kbytes=64, request_required_acks=1
    )
    read = ProducerOptions.read(sending.kohort)
    assert (read.linger_ms, read.delivery_timeout_ms, read.buffer_memory) == (1, 2**31 - 1, 65_536)
    assert not read.acks_all
    servers = read_configuration(({"bootstrap.servers": "PLAINTEXT://one, two:9093"},), {}, "admin").kohort
    assert servers["bootstrap_servers"] == "one:9092,two:9093"


def test_options_may_be_in_a_dictionary_keywords_or_the_defaults_of_topics() -> None:
    given = {**CONSUMER, "default.topic.config": {"auto.offset.reset": "smallest"}}
    read = read_configuration((given,), {"session_timeout_ms": 6000, "on_commit": print}, "consumer")
    assert read.kohort["auto_offset_reset"] == "earliest"
    assert (read.kohort["session_timeout_ms"], read.on_commit) == (6000, print)
    with pytest.raises(TypeError):
        read_configuration(("127.0.0.1:1",), {}, "consumer")


def test_the_adapter_commits_where_offsets_are_stored_by_the_application() -> None:
    read = consumer(enable_auto_offset_store="false", auto_commit_interval_ms=1000)
    assert (read.store_offsets, read.auto_commit_s, read.kohort["enable_auto_commit"]) == (False, 1.0, False)
    assert consumer(enable_auto_commit=False).auto_commit_s is None
    assert consumer(auto_commit_interval_ms=0).kohort["enable_auto_commit"] is False


def test_options_without_an_effect_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kohort.compat.confluent"):
        consumer(debug="all", socket_keepalive_enable=True, linger_ms=5)
    [record] = caplog.records
    assert "have no effect" in record.getMessage()
    assert record.getMessage().endswith("debug, linger.ms, socket.keepalive.enable")


@pytest.mark.parametrize("name", sorted(NO_EFFECT))
def test_options_that_tune_librdkafka_are_accepted(name: str) -> None:
    assert read_configuration(({**CONSUMER, name: 1},), {}, "consumer").kohort == consumer().kohort


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_options_that_would_change_what_a_program_does_are_refused(name: str) -> None:
    with pytest.raises(KafkaException) as refused:
        read_configuration(({**CONSUMER, name: "x"},), {}, "consumer")
    assert refused.value.args[0].code() == KafkaError._NOT_IMPLEMENTED
    for harmless in REFUSED[name]:
        read_configuration(({**CONSUMER, name: harmless},), {}, "consumer")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"no.such.option": 1}, "No such configuration property"),
        ({"auto.offset.reset": "middle"}, "auto.offset.reset"),
        ({"enable.auto.commit": "perhaps"}, "enable.auto.commit"),
        ({"statistics.interval.ms": "often"}, "statistics.interval.ms"),
    ],
)
def test_unknown_options_and_invalid_values_are_errors(options: dict[str, Any], text: str) -> None:
    with pytest.raises(KafkaException, match=text) as refused:
        read_configuration(({**CONSUMER, **options},), {}, "consumer")
    assert refused.value.args[0].code() == KafkaError._INVALID_ARG


def test_a_consumer_without_a_group_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"group\.id"):
        read_configuration(({"bootstrap.servers": "127.0.0.1:1"},), {}, "consumer")


def test_the_library_knows_each_option_that_the_adapter_knows() -> None:
    from confluent_kafka import Consumer, KafkaException

    values = {"ssl.engine.location": "x", "plugin.library.paths": "", "debug": "", "topic.blacklist": ""}
    callbacks = {"ssl.certificate.verify_cb", "throttle_cb"}
    unknown = []
    for name in sorted({*SAME, *OF_CONSUMER, *OF_PRODUCER, *OF_ADAPTER, *NO_EFFECT, *REFUSED} - callbacks):
        try:
            Consumer({"group.id": "g", name: values.get(name, "1")}).close()
        except KafkaException as problem:
            if "No such configuration property" in str(problem):
                unknown.append(name)
        except (TypeError, ValueError):
            continue  # it knows the option, and wants another value
    assert not unknown


def test_the_admin_client_of_a_consumer_has_only_options_of_its_own() -> None:
    read = read_configuration(({**CONSUMER, "client.id": "c", "security.protocol": "plaintext"},), {}, "consumer")
    assert read.for_admin() == {
        "bootstrap_servers": "127.0.0.1:1",
        "client_id": "c",
        "security.protocol": "plaintext",
        "allow_auto_create_topics": False,
    }
