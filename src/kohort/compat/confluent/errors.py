"""Errors as values, and the exception that holds one."""

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kohort.client import (
    AuthenticationError,
    ClosedError,
    FatalTransactionError,
    LogTruncatedError,
    NoOffsetError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    TransactionAbortableError,
)
from kohort.compat.confluent.codes import ErrorCodes
from kohort.errors import ConfigError, ErrorCode, KohortError
from kohort.errors import KafkaError as ProtocolError

_NAMES = {number: name for name, number in vars(ErrorCodes).items() if isinstance(number, int)}


class KafkaError(ErrorCodes):
    """Error with a number, a name and a text. It is equal to its number."""

    def __init__(
        self,
        code: int,
        reason: builtins.str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = int(code)
        self._text = _text(self._code) if reason is None else reason
        self._fatal, self._retriable, self._abort = bool(fatal), bool(retriable), bool(txn_requires_abort)

    def code(self) -> int:
        """Return the number."""
        return self._code

    def name(self) -> builtins.str:
        """Return the name, such as `_PARTITION_EOF`."""
        return _NAMES.get(self._code, f"ERR_{self._code}?")

    def str(self) -> builtins.str:
        """Return the text."""
        return self._text

    def fatal(self) -> bool:
        """Return whether the client cannot continue."""
        return self._fatal

    def retriable(self) -> bool:
        """Return whether the same call may succeed later."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Return whether a transaction must be aborted."""
        return self._abort

    def __repr__(self) -> builtins.str:
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self._text}"}}'

    __str__ = __repr__

    def __hash__(self) -> int:
        return hash(self._code)

    def __eq__(self, other: object) -> bool:
        return bool(self._code == _number(other))

    def __lt__(self, other: "KafkaError | int") -> bool:
        return self._code < int(_number(other))

    def __le__(self, other: "KafkaError | int") -> bool:
        return self._code <= int(_number(other))

    def __gt__(self, other: "KafkaError | int") -> bool:
        return self._code > int(_number(other))

    def __ge__(self, other: "KafkaError | int") -> bool:
        return self._code >= int(_number(other))


class KafkaException(Exception):
    """Exception whose first argument is a KafkaError."""


def _number(other: object) -> Any:
    return other.code() if isinstance(other, KafkaError) else other


def _text(code: int) -> str:
    try:
        sentence = ErrorCode(code).sentence
    except ValueError:
        return f"Local: {_NAMES.get(code, f'error {code}').strip('_').lower().replace('_', ' ')}"
    return f"Broker: {sentence}" if code else "Success"


def error_of(problem: Exception) -> KafkaError:
    """Return an error of Kohort's client under librdkafka's number."""
    text = problem.sentence if isinstance(problem, ProtocolError) else str(problem)
    match problem:
        case AuthenticationError():
            return KafkaError(ErrorCodes._AUTHENTICATION, text)
        case ProducerFencedError():
            return KafkaError(ErrorCodes._FENCED, text, fatal=True)
        case FatalTransactionError():
            return KafkaError(problem.code, text, fatal=True)
        case TransactionAbortableError():
            return KafkaError(problem.code, text, txn_requires_abort=True)
        case ProtocolError(code=ErrorCode.NETWORK_EXCEPTION):
            return KafkaError(ErrorCodes._TRANSPORT, text, retriable=True)
        case ProtocolError(code=ErrorCode.REQUEST_TIMED_OUT):
            return KafkaError(ErrorCodes._TIMED_OUT, text, retriable=True)
        case NoOffsetError() | OffsetOutOfRangeError():
            return KafkaError(ErrorCodes._AUTO_OFFSET_RESET, text)
        case ProtocolError():
            return KafkaError(problem.code, text, retriable=problem.retriable)
        case ConfigError():
            return KafkaError(ErrorCodes._INVALID_ARG, text)
        case LogTruncatedError():
            return KafkaError(ErrorCodes._LOG_TRUNCATION, text)
        case TimeoutError():
            return KafkaError(ErrorCodes._TIMED_OUT, text or None)
        case _:
            return KafkaError(ErrorCodes._STATE, text)


def cluster_error(problem: ProtocolError) -> KafkaError:
    """Return the error of a client that finds no broker, or none that accepts it."""
    if problem.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT) and problem.retriable:
        return KafkaError(ErrorCodes._ALL_BROKERS_DOWN, problem.sentence, retriable=True)
    return error_of(problem)


@contextmanager
def raising(closed: str = "closed") -> Iterator[None]:
    """Raise errors of Kohort's client as KafkaException, and the use of a closed client as RuntimeError."""
    try:
        yield
    except ClosedError:
        raise RuntimeError(closed) from None
    except (KohortError, TimeoutError) as problem:
        raise KafkaException(error_of(problem)) from problem


def invalid(text: str) -> KafkaException:
    """Return the exception for an invalid argument or option."""
    return KafkaException(KafkaError(ErrorCodes._INVALID_ARG, text))


def not_supported(what: str) -> KafkaException:
    """Return the exception for a feature that the adapter leaves out."""
    return KafkaException(KafkaError(ErrorCodes._NOT_IMPLEMENTED, f"kohort.compat.confluent has no {what}"))
