"""Names, parameters and defaults are those of the installed aiokafka."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.errors
import aiokafka.structs
import pytest

from kohort import compat
from kohort.compat import aiokafka as adapter
from kohort.compat.aiokafka import errors, options, structs

CHOSEN_HERE = {"client_id", "partitioner", "acks", "sasl_mechanism", "partition_assignment_strategy"}
"""Options whose defaults are objects of the library, or depend on other options."""
LEFT_OUT = {
    "AIOKafkaConsumer": {"last_poll_timestamp", "last_stable_offset"},
    "AIOKafkaProducer": {"create_batch", "send_batch"},
    "AIOKafkaAdminClient": {
        *("alter_configs", "describe_configs", "describe_consumer_groups", "find_coordinator", "delete_records"),
    },
    "ConsumerRebalanceListener": set(),
}
PARAMETERS_LEFT_OUT = {"broker_ids"}


def parameters(face: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(face).parameters.values()]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (aiokafka.AIOKafkaConsumer, options.CONSUMER),
        (aiokafka.AIOKafkaProducer, options.PRODUCER),
        (aiokafka.admin.AIOKafkaAdminClient, options.ADMIN),
    ],
)
def test_every_option_is_known_with_its_default(theirs: Any, ours: compat.LibraryOptions) -> None:
    given = {name: default for name, kind, default in parameters(theirs) if kind is inspect.Parameter.KEYWORD_ONLY}
    assert given.keys() == ours.defaults.keys()
    for name in given.keys() - CHOSEN_HERE:
        assert ours.defaults[name] == given[name], name


@pytest.mark.parametrize("name", LEFT_OUT)
def test_methods_have_the_librarys_parameters(name: str) -> None:
    ours, theirs = getattr(adapter, name), getattr(aiokafka, name, None) or getattr(aiokafka.admin, name)
    one, other = ({name for name in vars(kind) if not name.startswith("_")} for kind in (ours, theirs))
    assert other - one == LEFT_OUT[name]
    assert one <= other
    for method in one:
        expected = [given for given in parameters(getattr(theirs, method)) if given[0] not in PARAMETERS_LEFT_OUT]
        assert parameters(getattr(ours, method)) == expected, method
        kinds = [inspect.iscoroutinefunction(getattr(kind, method)) for kind in (ours, theirs)]
        assert kinds[0] == kinds[1], method


@pytest.mark.parametrize("name", ["TopicPartition", "OffsetAndMetadata", "OffsetAndTimestamp", "RecordMetadata"])
def test_values_have_the_librarys_fields(name: str) -> None:
    assert getattr(structs, name)._fields == getattr(aiokafka.structs, name)._fields


def test_records_have_the_librarys_fields() -> None:
    ours, theirs = (dataclasses.fields(module.ConsumerRecord) for module in (structs, aiokafka.structs))
    assert [field.name for field in ours] == [field.name for field in theirs]


def test_error_classes_have_the_librarys_names_and_codes() -> None:
    assert aiokafka.errors.kafka_errors.keys() == errors.kafka_errors.keys()
    for code, kind in errors.kafka_errors.items():
        assert (kind.__name__, kind.errno) == (aiokafka.errors.kafka_errors[code].__name__, code)
        assert getattr(errors, kind.__name__) is kind
    assert errors.for_code(9999) is errors.UnknownError
    assert issubclass(errors.KafkaError, RuntimeError)
    assert not issubclass(errors.ConsumerStoppedError, errors.KafkaError)
