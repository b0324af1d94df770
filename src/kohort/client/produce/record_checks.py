"""Checks of the arguments of `send`, before anything is queued. Independent of any event loop."""

from collections.abc import Sequence
from typing import Any

from kohort.client.arguments import whole_number
from kohort.client.failures import InvalidRecordError
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.model import Millis
from kohort.wire.batches import Header

RECORD_OVERHEAD = 24  # typical sizes of lengths, deltas and attributes
_LATEST: Millis = (1 << 63) - 1


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return the record's size in a batch in bytes. Raises InvalidRecordError."""
    size = RECORD_OVERHEAD
    if value is not None:
        if type(value) is not bytes:
            _check_bytes("value", value)
        size += len(value)
    if key is not None:
        if type(key) is not bytes:
            _check_bytes("key", key)
        size += len(key)
    if headers:
        if not isinstance(headers, list | tuple):
            raise InvalidRecordError(f"headers are a {type(headers).__name__}, but must be a list of (name, bytes).")
        size += sum(map(_header_size, headers))
    return size


def check_timestamp(timestamp: Any) -> Millis:
    """Return the timestamp in milliseconds since 1970. Raises ConfigError."""
    number = whole_number("timestamp", timestamp)
    if number > _LATEST:
        raise ConfigError(f"timestamp is {number}, but must be a number of milliseconds since 1970.")
    return number


def check_partition(topic: str, partition: Any, count: int | None) -> int:
    """Return the partition number. The topic has `count` partitions; None if not known yet.

    Raises ConfigError for a value that is not a partition number, KafkaError for a partition that
    the topic does not have.
    """
    number = whole_number("partition", partition, None)
    if count is None:
        return whole_number("partition", number)
    if not 0 <= number < count:
        known = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
        detail = f"{topic} has {known}, not {number}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
    return number


def _check_bytes(what: str, given: object) -> None:
    # A memoryview of larger items counts items, not bytes.
    if isinstance(given, bytes | bytearray) or (isinstance(given, memoryview) and given.nbytes == len(given)):
        return
    raise InvalidRecordError(f"the {what} of a record is a {type(given).__name__}, but must be bytes: encode it first.")


def _header_size(header: Any) -> int:
    if not isinstance(header, tuple | list) or len(header) != 2 or not isinstance(header[0], str):
        raise InvalidRecordError(f"{header!r} is not a header: pass (name, bytes) pairs.")
    name, content = header
    if content is not None:
        _check_bytes(f"header {name!r}", content)
    try:
        return len(name.encode()) + len(content or b"") + 10
    except UnicodeEncodeError as problem:
        raise InvalidRecordError(f"the name of header {name!r} cannot be encoded: {problem.reason}.") from None
