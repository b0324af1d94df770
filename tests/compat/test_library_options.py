"""Options of the libraries: which are Kohort's, which have no effect, and which are refused."""

from __future__ import annotations

import warnings

import pytest

from kohort import ConfigError
from kohort.compat import LibraryOptions, assignors, milliseconds, servers
from kohort.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kohort.compat.aiokafka import options as aiokafka
from kohort.compat.kafka_python import KafkaProducer
from kohort.compat.kafka_python import options as kafka_python


def test_options_without_an_effect_cause_one_warning() -> None:
    with pytest.warns(UserWarning) as warned:
        kafka_python.CONSUMER.read({"api_version": (2, 5), "selector": object(), "group_id": "g"})
    (warning,) = warned
    assert str(warning.message) == "api_version, selector have no effect in Kohort's client."


async def test_the_warning_names_the_line_of_the_program() -> None:
    nowhere = {"bootstrap_servers": "127.0.0.1:1", "connections_max_idle_ms": 1}
    with pytest.warns(UserWarning) as warned:
        KafkaProducer(**nowhere).close()
        await AIOKafkaProducer(**nowhere).stop()
        await AIOKafkaConsumer(**nowhere).stop()
    assert [warning.filename for warning in warned] == [__file__] * 3


def test_a_default_that_is_given_causes_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kafka_python.CONSUMER.read({"api_version": None, "metrics_enabled": True, "connections_max_idle_ms": 540_000})


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="no option group: did you mean group_id"):
        kafka_python.CONSUMER.read({"group": "g"})
    with pytest.raises(ConfigError, match="no option xyzxyz: aiokafka has none of that name"):
        aiokafka.PRODUCER.read({"xyzxyz": 1})


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (kafka_python.CONSUMER, "proxy_url"),
        (aiokafka.CONSUMER, "sasl_kerberos_domain_name"),
    ],
)
def test_options_that_would_lose_or_expose_data_are_refused(options: LibraryOptions, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not supported: "):
        options.read({name: "x"})


def test_the_librarys_defaults_are_passed_on() -> None:
    read = kafka_python.PRODUCER.read({})
    assert (read["linger_ms"], read["acks"], read["bootstrap_servers"]) == (0, -1, ["localhost:9092"])
    assert "enable_idempotence" not in read and "compression_type" not in read
    assert kafka_python.CONSUMER.read({})["partition_assignment_strategy"] == ["range", "roundrobin"]
    read = aiokafka.read_producer({"max_batch_size": 7})
    assert (read["acks"], read["enable_idempotence"], read["batch_size"]) == (1, False, 7)
    assert aiokafka.read_producer({"enable_idempotence": True})["acks"] == "all"
    assert aiokafka.read(aiokafka.CONSUMER, {"security_protocol": "SASL_SSL"})["sasl_mechanism"] == "PLAIN"


def test_a_server_without_a_port_has_the_usual_one() -> None:
    assert servers("localhost") == ["localhost:9092"]
    assert servers(" a:1, b ") == ["a:1", "b:9092"]
    assert servers(["[::1]:5", "[::1]"]) == ["[::1]:5", "[::1]:9092"]


def test_assignors_are_names_or_classes_with_names() -> None:
    class RoundRobinPartitionAssignor:
        name = "roundrobin"

    assert assignors([RoundRobinPartitionAssignor, "range"]) == ["roundrobin", "range"]
    with pytest.raises(ConfigError, match="must name some of: range, roundrobin"):
        assignors([object()])


def test_a_duration_may_be_infinite() -> None:
    assert (milliseconds(float("inf")), milliseconds(0), milliseconds(1.5)) == (None, 1, 1)
