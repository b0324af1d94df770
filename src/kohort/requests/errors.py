"""Error codes of responses as exceptions."""

from typing import TypeVar

from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import TopicPartition

_R = TypeVar("_R")

PartitionResults = tuple[dict[TopicPartition, _R], dict[TopicPartition, KafkaError]]
"""Results and errors of one response, by partition."""


def error_of(number: int, subject: str = "", message: str | None = None) -> KafkaError | None:
    """Return the exception for an error code of a response, or None for success.

    The text names the subject, and has the broker's message if there is one.
    """
    if number == ErrorCode.NONE:
        return None
    code = error_code(number)
    sentence = message or code.sentence
    return KafkaError(code, f"{subject}: {sentence}" if subject else sentence)


def check(number: int, subject: str = "", message: str | None = None) -> None:
    """Raise KafkaError for an error code of a response. See `error_of`."""
    error = error_of(number, subject, message)
    if error is not None:
        raise error
