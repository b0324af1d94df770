"""Trace of the requests that make a partition change its owner, for `kohort lab --trace`.

Each answered request is one line of JSON: when it was received, when its answer was ready, and the partitions in both.
Each sync of the log is a line, too. Times are nanoseconds of the machine's monotonic clock, as the members of the
laboratory report theirs. A broker without `RequestTrace` does nothing for it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic_ns
from typing import IO, Any

from kohort.broker.net import Call, ClientConnection, Route
from kohort.errors import KohortError
from kohort.wire.codec import DecodeError, Message
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.consumer_protocol import decode_assignment

_Numbers = list[int] | None


class RequestTrace:
    """Trace of one broker, written to a file."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raise KohortError if that is impossible."""
        try:
            # Readers see each line at once: the laboratory reads while the broker runs, and may kill and restart it.
            self._file: IO[str] = path.open("a", buffering=1, encoding="utf-8")
        except OSError as error:
            raise KohortError(f"The trace {path} cannot be written: {error.strerror}.") from error

    def new_call(
        self, connection: ClientConnection, correlation_id: int, route: Route, request: Message, size: int
    ) -> Call:
        """Return the call of a request that was received now."""
        contents = _CONTENTS.get(route.api_key)
        if contents is None:
            return Call(connection, correlation_id, route, request, size)
        call = _TracedCall(connection, correlation_id, route, request, size)
        call.trace, call.contents, call.received = self, contents, monotonic_ns()
        return call

    def synced(self, started: float) -> None:
        """Record a sync of the log that began at this time of `perf_counter`, which is the monotonic clock on Linux."""
        self.write({"sync": [int(started * 1e9), monotonic_ns()]})

    def write(self, line: Mapping[str, Any]) -> None:
        """Write one line."""
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _TracedCall(Call):
    """A call that is written to the trace when it is answered."""

    __slots__ = ("contents", "received", "trace")

    trace: RequestTrace
    contents: "_Contents"
    received: int

    def reply(self, response: Message) -> None:
        """Send `response` as `Call.reply` does, and write the line."""
        if self.answer is not None:
            return
        answered = monotonic_ns()
        Call.reply(self, response)
        asked, told = self.contents(self.request, response)
        self.trace.write(
            {
                "api": self.route.api_key,
                "client": self.connection.client_id,
                "received": self.received,
                "answered": answered,
                "code": getattr(response, "error_code", 0),
                "epoch": getattr(self.request, "member_epoch", None),
                "asked": asked,
                "told": told,
            }
        )


_Contents = Callable[[Any, Any], tuple[_Numbers, _Numbers]]
"""Returns the partitions in a request and in its response; None for one that names none."""


def _numbers(topics: Iterable[Any] | None) -> _Numbers:
    return None if topics is None else [number for topic in topics for number in topic.partitions]


def _indexes(topics: Iterable[Any]) -> _Numbers:
    return [part.partition_index for topic in topics for part in topic.partitions]


def _nothing(request: Any, response: Any) -> tuple[_Numbers, _Numbers]:
    return None, None


def _heartbeat(request: Any, response: Any) -> tuple[_Numbers, _Numbers]:
    told = response.assignment
    return _numbers(request.topic_partitions), None if told is None else _numbers(told.topic_partitions)


def _sync_group(request: Any, response: Any) -> tuple[_Numbers, _Numbers]:
    if response.error_code or not response.assignment:
        return None, None
    try:
        return None, [partition.partition for partition in decode_assignment(response.assignment).partitions]
    except DecodeError:  # the bytes belong to the clients
        return None, None


def _offset_fetch(request: Any, response: Any) -> tuple[_Numbers, _Numbers]:
    topics = [*(request.topics or ()), *(topic for group in request.groups for topic in group.topics or ())]
    return [number for topic in topics for number in topic.partition_indexes], None


def _indexed(request: Any, response: Any) -> tuple[_Numbers, _Numbers]:
    return _indexes(request.topics), None


def _fetch(request: Any, response: Any) -> tuple[_Numbers, _Numbers]:
    asked = [part.partition for topic in request.topics for part in topic.partitions]
    return asked, [part.partition_index for topic in response.responses for part in topic.partitions if part.records]


_CONTENTS: Mapping[int, _Contents] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _heartbeat,
    ApiKey.JOIN_GROUP: _nothing,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.HEARTBEAT: _nothing,
    ApiKey.LEAVE_GROUP: _nothing,
    ApiKey.OFFSET_COMMIT: _indexed,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.LIST_OFFSETS: _indexed,
    ApiKey.FETCH: _fetch,
}
