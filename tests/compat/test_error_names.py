"""An error under a library's name is an error of Kohort, too, and keeps what it carries."""

from __future__ import annotations

import pytest

import kohort
from kohort import ErrorCode, KafkaError, KohortError, TopicPartition
from kohort.client import CommitFailedError, ConfigError, DeliveryFailedError
from kohort.compat.aiokafka import errors as aiokafka
from kohort.compat.kafka_python import errors as kafka_python
from kohort.compat.kafka_python.errors import NAMES


def test_an_error_code_has_the_librarys_class_and_ours() -> None:
    error = NAMES.named(KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "t: a topic of that name exists"))
    assert isinstance(error, kafka_python.TopicAlreadyExistsError) and isinstance(error, kohort.KafkaError)
    assert (error.code, error.errno, error.retriable) == (ErrorCode.TOPIC_ALREADY_EXISTS, 36, False)
    assert error.sentence == "t: a topic of that name exists"
    assert str(error) == ("[Error 36] TopicAlreadyExistsError: TOPIC_ALREADY_EXISTS: t: a topic of that name exists")


def test_an_error_keeps_its_attributes_its_cause_and_its_place() -> None:
    cause = OSError("disk")
    with pytest.raises(kafka_python.CommitFailedError) as raised, NAMES.naming():
        raise CommitFailedError({TopicPartition("t", 1): ErrorCode.ILLEGAL_GENERATION}) from cause
    assert isinstance(raised.value, CommitFailedError)
    assert raised.value.errors == {TopicPartition("t", 1): ErrorCode.ILLEGAL_GENERATION}
    assert raised.value.__cause__ is cause
    assert raised.traceback[-1].name == test_an_error_keeps_its_attributes_its_cause_and_its_place.__name__


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ConfigError("no"), "KafkaConfigurationError"),
        (KohortError("not now"), "IllegalStateError"),
        (kohort.ClosedError("closed"), "IllegalStateError"),
        (kohort.NoOffsetError("none"), "NoOffsetForPartitionError"),
        (kohort.SerializationError("no"), "KafkaError"),
        (DeliveryFailedError([("t", 1, KafkaError(ErrorCode.MESSAGE_TOO_LARGE))]), "MessageSizeTooLargeError"),
        (KafkaError(ErrorCode.REBOOTSTRAP_REQUIRED), "UnknownError"),
    ],
)
def test_each_error_has_a_name_in_both_libraries(error: KohortError, name: str) -> None:
    for library in (kafka_python, aiokafka):
        named = library.NAMES.named(error)
        assert type(named).__name__ == name and type(named).__module__ == library.__name__
        assert isinstance(named, getattr(library, name)) and isinstance(named, type(error))
        assert library.NAMES.named(named) is named


def test_errors_of_one_kind_share_a_class() -> None:
    one, other = (NAMES.named(KafkaError(ErrorCode.NOT_CONTROLLER)) for _ in range(2))
    assert type(one) is type(other)


def test_a_broker_that_cannot_be_reached_is_a_connection_error() -> None:
    error = KafkaError(ErrorCode.NETWORK_EXCEPTION)
    assert isinstance(aiokafka.NAMES.named(error), aiokafka.KafkaConnectionError)
    assert isinstance(NAMES.named(error), kafka_python.KafkaConnectionError)
    late = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    assert isinstance(aiokafka.NAMES.named(late), aiokafka.KafkaTimeoutError)
    assert isinstance(NAMES.named(late), kafka_python.KafkaTimeoutError)
