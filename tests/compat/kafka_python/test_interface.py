"""Names, parameters and defaults are those of the installed kafka-python."""

from __future__ import annotations

import inspect
from typing import Any

import kafka
import kafka.admin
import kafka.consumer.fetcher
import kafka.errors
import kafka.future
import kafka.producer.future
import kafka.serializer
import kafka.structs
import pytest

from kohort import compat
from kohort.compat import kafka_python
from kohort.compat.kafka_python import errors, futures, options, producer, structs

CHOSEN_HERE = {"client_id", "partitioner", "enable_idempotence", "partition_assignment_strategy", "socket_options"}
"""Options whose defaults are objects or names of the library; None for a producer's idempotence is its default."""
LEFT_OUT = {
    "KafkaConsumer": {"bootstrap", "bootstrap_connected", "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735"},
    "KafkaProducer": {
        *("bootstrap_connected", "max_usable_produce_magic", "DEPRECATED_CONFIGS"),
    },
}
PARAMETERS_LEFT_OUT = {"update_offsets", "null_logger", "group_coordinator_id", "include_authorized_operations"}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kafka.KafkaConsumer, options.CONSUMER),
        (kafka.KafkaProducer, options.PRODUCER),
        (kafka.KafkaAdminClient, options.ADMIN),
    ],
)
def test_every_option_is_known_with_its_default(theirs: Any, ours: compat.LibraryOptions) -> None:
    for name, default in theirs.DEFAULT_CONFIG.items():
        assert name in ours.defaults, name
        if name not in CHOSEN_HERE and not callable(default):
            assert ours.defaults[name] == default, name


def public(kind: Any) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", ["KafkaConsumer", "KafkaProducer", "KafkaAdminClient", "ConsumerRebalanceListener"])
def test_methods_have_the_librarys_parameters(name: str) -> None:
    ours, theirs = getattr(kafka_python, name), getattr(kafka, name)
    if name in LEFT_OUT:
        assert public(theirs) - public(ours) == LEFT_OUT[name]
    for method in public(ours) - {"DEFAULT_CONFIG"}:
        same_parameters(getattr(ours, method), getattr(theirs, method))


def same_parameters(ours: Any, theirs: Any) -> None:
    one, other = (
        [(p.name, p.kind, p.default) for p in inspect.signature(face).parameters.values()] for face in (ours, theirs)
    )
    assert one == [parameter for parameter in other if parameter[0] not in PARAMETERS_LEFT_OUT], ours


def test_futures_have_the_librarys_methods() -> None:
    needed = {"get", "add_callback", "add_errback", "add_both", "succeeded", "failed", "is_done", "value", "exception"}
    assert needed <= public(kafka.producer.future.FutureRecordMetadata) & public(producer.FutureRecordMetadata)
    assert needed <= public(futures.Future())
    for name in ("add_both", "add_callback", "add_errback"):
        same_parameters(getattr(producer.FutureRecordMetadata, name), getattr(kafka.future.Future, name))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (structs.ConsumerRecord, kafka.consumer.fetcher.ConsumerRecord),
        (structs.RecordMetadata, kafka.producer.future.RecordMetadata),
        (structs.TopicPartition, kafka.structs.TopicPartition),
        (structs.OffsetAndMetadata, kafka.structs.OffsetAndMetadata),
        (structs.OffsetAndTimestamp, kafka.structs.OffsetAndTimestamp),
        (structs.ConsumerGroupMetadata, kafka.structs.ConsumerGroupMetadata),
    ],
)
def test_values_have_the_librarys_fields(ours: Any, theirs: Any) -> None:
    assert ours._fields == theirs._fields


def test_partitions_are_printed_as_the_library_does() -> None:
    ours, theirs = structs.TopicPartition("t", 1), kafka.TopicPartition("t", 1)
    assert (ours, str(ours), repr(ours), hash(ours)) == (theirs, str(theirs), repr(theirs), hash(theirs))


def test_error_classes_have_the_librarys_names_and_codes() -> None:
    assert kafka.errors.kafka_errors.keys() - {None} == errors.kafka_errors.keys()
    for code, kind in errors.kafka_errors.items():
        theirs = kafka.errors.kafka_errors[code]
        assert (kind.__name__, kind.errno, kind.retriable, kind.invalid_metadata) == (
            theirs.__name__,
            theirs.errno,
            theirs.retriable or code in (7, 13),
            theirs.invalid_metadata or code == 13,
        )
        assert getattr(errors, kind.__name__) is kind
        named = {base.__name__ for base in theirs.__mro__ if issubclass(base, kafka.errors.KafkaError)}
        assert named <= {base.__name__ for base in kind.__mro__} | {"RetriableError"}
    assert errors.for_code(3) is errors.UnknownTopicOrPartitionError
    assert errors.for_code(9999) is errors.UnknownError


def test_serializers_do_as_those_of_the_library() -> None:
    for name, value in (("DefaultSerializer", "text"), ("JsonSerializer", {"a": [1]})):
        ours, theirs = getattr(kafka_python, name)(), getattr(kafka.serializer, name)()
        data = ours.serialize("t", [], value)
        assert data == theirs.serialize("t", [], value)
        assert ours.deserialize("t", [], data) == theirs.deserialize("t", [], data) == value
        assert ours.serialize("t", [], None) is ours.deserialize("t", [], None) is None
