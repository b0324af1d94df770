"""Check of the error codes of every response on the wire (S14), from the coordinator and from the broker's shell.

Responses to fetches are also compared with what their session asks for (S18), errors with what
clients report (S19), and all with the rights of the client (S20) and the order of requests (S28).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from struct import Struct as Packer
from typing import Any

from kohort.errors import ErrorCode
from kohort.sim.checks.access_checks import REFUSALS, AccessChecks, Asked
from kohort.sim.checks.error_codes import is_allowed, unfitting
from kohort.sim.checks.fetch_sessions import FETCH, FetchChecks
from kohort.sim.checks.reported_errors import READING, WAITED_FOR, ErrorChecks
from kohort.sim.environment import Transport
from kohort.sim.violation import Violation
from kohort.wire.api import APIS, read_request_header, read_response_header
from kohort.wire.codec import DecodeError, Struct, decode
from kohort.wire.messages.fetch import FetchRequest, FetchResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest

_KNOWN = 4_096
"""Number of responses whose codes are cached: most have the same bytes as an earlier one."""

Answered = tuple[str, ErrorCode]
"""Name of a request, and an error code of its response."""

_PRODUCE = 0
_OFFSET_COMMIT = 8
_JOIN_GROUP = 11
_CHECKED = frozenset(key for key, api in APIS.items() if api.name in READING | WAITED_FOR)
_SIZE = Packer(">i")
_HEAD = Packer(">hhi")


class Answers:
    """Observer of all connections of a world, which checks the error codes of each response (S14)."""

    def __init__(self, failed: Callable[[Violation], None], now: Callable[[], float]) -> None:
        self.errors: ErrorChecks | None = None
        """Check that receives the responses to clients that read and write records."""
        self.access: AccessChecks | None = None
        """Check of the rights of clients, in secured worlds."""
        self._arrived: dict[tuple[int, int], Asked] = {}
        self._now = now
        self.codes: Counter[Answered] = Counter()
        self.replaced_joins: dict[str, float] = {}
        """Time at which the last JoinGroup of a process arrived on a connection that it had already given up."""
        self.overtaken: set[str | None] = set()
        """Metadata of commits that arrived on a connection that their client had already given up.

        What the client sent instead may have arrived earlier.
        """
        self._failed = failed
        self._asked: dict[tuple[int, int], bytes] = {}
        """Requests without a response, by connection and correlation id."""
        self._order: dict[int, deque[int]] = {}
        """Correlation ids of the requests without a response, in their order, by connection.

        Produce is not among them, because it may have none.
        """
        self._rest: dict[int, bytes] = {}
        self._fetch_checks = FetchChecks()

    def take(self, end: Transport, data: bytes) -> None:
        """Process bytes that arrived at that end."""
        number = end.number
        for frame in frames(self._rest, number, data):
            if number % 2:
                key, version, correlation_id = _HEAD.unpack_from(frame)
                self._asked[number, correlation_id] = frame
                if key != _PRODUCE:
                    self._order.setdefault(number, deque()).append(correlation_id)
                if self.access is not None:
                    self._check_session(self.access, end, key)
                    self._arrived[number, correlation_id] = self.access.asked(end.other.loop.name, end.loop.name)
                if key == _JOIN_GROUP and end.other.is_closing():
                    # A gateway passes on the request of a member.
                    client = read_request_header(frame).client_id or end.other.loop.name
                    self.replaced_joins[client.rpartition(".")[0]] = self._now()
                if key == _OFFSET_COMMIT and end.other.is_closing():
                    request = decode(OffsetCommitRequest, version, frame[read_request_header(frame).body :])
                    self.overtaken.update(
                        partition.committed_metadata for topic in request.topics for partition in topic.partitions
                    )
                continue
            (correlation_id,) = _SIZE.unpack_from(frame)
            asked = self._asked.pop((number + 1, correlation_id))
            key, version, _ = _HEAD.unpack_from(asked)
            if key != _PRODUCE and (first := self._order[number + 1].popleft()) != correlation_id:
                name = end.other.loop.name
                self._failed(Violation("S28", f"{name} answered request {correlation_id} before {first}"))
            if key == FETCH:
                self._check_fetch(end.other.loop.name, asked, version, frame)
            codes = _answered(key, version, frame[_SIZE.size :])
            refusable = self._check_access(end, correlation_id, key, version, frame, codes)
            errors = self.errors
            if errors is not None and key in _CHECKED and (any(code for _, code in codes) or errors.waits(end.loop)):
                self._check_told(errors, end, key, version, frame)
            for answer in codes:
                name, code = answer
                who = end.other.loop.name
                if refusable and code in REFUSALS:
                    pass
                elif answer not in self.codes and not is_allowed(*answer):
                    self._failed(Violation("S14", f"{who} answered {name} with {code.name}"))
                elif code and (why := _unfitting(asked, code)):
                    self._failed(Violation("S14", f"{who} answered {name} v{version} with {code.name}: {why}"))
                self.codes[answer] += 1

    def _check_session(self, access: AccessChecks, end: Transport, key: int) -> None:
        try:
            access.sent_on(end.other.number, end.other.loop.name, APIS[key].name)
        except Violation as problem:
            self._failed(problem)

    def _check_access(
        self,
        end: Transport,
        correlation_id: int,
        key: int,
        version: int,
        answer: bytes,
        codes: Iterable[Answered],
    ) -> bool:
        """Check a response by the rights of its client. Return whether the client may be refused."""
        access = self.access
        if access is None:
            return False
        arrived, client = self._arrived.pop((end.number + 1, correlation_id)), end.loop.name
        name = APIS[key].name
        try:
            access.answered_on(end.number, client, arrived, name)
        except Violation as problem:
            self._failed(problem)
        if access.is_concerned(client, arrived, name):
            _, body = read_response_header(answer, key, version)
            response = decode(APIS[key].response, version, answer[body:])
            try:
                access.answered(end.number, client, arrived, name, response)
            except Violation as problem:
                self._failed(problem)
        if any(code in REFUSALS for _, code in codes) and (why := access.refused(client, arrived, name)):
            self._failed(Violation("S14", f"{end.other.loop.name} refuses {name} for want of a right, but {why}"))
        return True

    def _check_told(self, errors: ErrorChecks, end: Transport, key: int, version: int, answer: bytes) -> None:
        _, body = read_response_header(answer, key, version)
        response = decode(APIS[key].response, version, answer[body:])
        try:
            errors.answered(end.loop, APIS[key].name, response, self._now())
        except Violation as problem:
            self._failed(Violation(problem.invariant, f"{end.loop.name}: {problem.detail}"))

    def _check_fetch(self, broker: str, asked: bytes, version: int, answer: bytes) -> None:
        request = decode(FetchRequest, version, asked[read_request_header(asked).body :])
        _, body = read_response_header(answer, FETCH, version)
        try:
            self._fetch_checks.answered(broker, request, decode(FetchResponse, version, answer[body:]))
        except Violation as problem:
            self._failed(problem)


def _unfitting(asked: bytes, code: ErrorCode) -> str:
    header = read_request_header(asked)
    version = header.api_version
    try:
        request = decode(APIS[header.api_key].request, version, asked[header.body :])
    except DecodeError:
        return ""  # bytes of a misbehaving client
    return unfitting(request, version, code)


@lru_cache(_KNOWN)
def _answered(key: int, version: int, answer: bytes) -> tuple[Answered, ...]:
    """Return the error codes of a response, which begins after its correlation id."""
    if key not in APIS:
        return ()
    _, body = read_response_header(_NUMBER + answer, key, version)
    codes = codes_of(decode(APIS[key].response, version, (_NUMBER + answer)[body:]))
    return tuple((APIS[key].name, ErrorCode(code)) for code in codes)


_NUMBER = bytes(_SIZE.size)


def frames(rest: dict[int, bytes], number: int, data: bytes) -> Iterable[bytes]:
    """Return the complete frames that have arrived on a connection; `rest` keeps the incomplete remainder."""
    if number in rest:
        data = rest.pop(number) + data
    elif len(data) >= _SIZE.size and _SIZE.unpack_from(data)[0] == len(data) - _SIZE.size:
        return (data[_SIZE.size :],)  # nearly always
    return _cut(rest, number, data)


def _cut(rest: dict[int, bytes], number: int, data: bytes) -> Iterator[bytes]:
    while len(data) >= _SIZE.size:
        (size,) = _SIZE.unpack_from(data)
        if size < 0 or len(data) < _SIZE.size + size:
            break
        yield data[_SIZE.size : _SIZE.size + size]
        data = data[_SIZE.size + size :]
    if data:
        rest[number] = data


def codes_of(value: Any) -> Iterator[int]:
    """Yield every error code in a message, at any depth."""
    for field in value.FIELDS:
        part = getattr(value, field.name)
        if field.name.endswith("error_code"):  # AddPartitionsToTxn has `partition_error_code`
            yield part
        elif isinstance(part, Struct):
            yield from codes_of(part)
        elif isinstance(part, list) and part and isinstance(part[0], Struct):
            for element in part:
                yield from codes_of(element)
