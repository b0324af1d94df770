"""Check that clients that read and write records raise or log each error that brokers keep returning (S19)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kohort.errors import ErrorCode, KohortError
from kohort.model import TopicPartition
from kohort.sim.violation import Violation
from kohort.wire.codec import Message
from kohort.wire.messages.fetch import FetchResponse
from kohort.wire.messages.list_offsets import ListOffsetsResponse
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from kohort.wire.messages.produce import ProduceResponse

READING = frozenset({"Fetch", "ListOffsets", "OffsetForLeaderEpoch", "Metadata"})
"""Requests that are repeated for as long as the client lives, whose responses are checked."""
WAITED_FOR = frozenset({"Produce", "OffsetCommit"})
"""Requests with whose result the application waits for a limited time, whose responses are checked."""
_LASTS = 10.0
"""Minimum duration of an error in seconds: a single response may arrive too late to count."""
_LATER = 5.0
"""Maximum time in seconds between the end of a wait and the report of the error that it met."""
_TIMES = 4
"""Minimum number of responses with the error in that time."""
_ENDS = 30.0
"""Seconds without the error after which it counts as a new one."""
_BEFORE = 120.0
"""Seconds before the first response with an error in which a report of it counts: the client told of it earlier.

A client reports a lasting failure once, and again if it had ended for this long.
"""
_WORDS = {ErrorCode.OFFSET_OUT_OF_RANGE: "out of range"}
"""Texts by which the log refers to an error, where it does not use the error's name."""

Met = tuple[str, object, ErrorCode]
"""Request, subject of the error, and the error."""


@dataclass(slots=True)
class _LastingError:
    """Error that a broker returns."""

    began: float
    latest: float
    times: int = 0
    is_reported: bool = False
    """Whether the client has reported it; that counts for as long as the error lasts."""


class ErrorChecks:
    """Check of the clients that `begins` names. The event loop identifies each run of a client's process."""

    def __init__(self) -> None:
        self.now: Callable[[], float] = float
        """Time of the world."""
        self.reported: dict[object, list[tuple[float, str]]] = {}
        """Everything logged or raised in a run, with its time, by event loop."""
        self._met: dict[object, dict[Met, _LastingError]] = {}
        self._lasts: dict[object, float] = {}

    def begins(self, loop: object, waits: float) -> None:
        """Start to check a run of a client.

        The client waits that many seconds for the result of a commit or a record before it reports an error.
        """
        self.reported[loop], self._met[loop], self._lasts[loop] = [], {}, waits + _LATER

    def logged(self, text: str) -> None:
        """Record text that the current process logged as a warning or at a higher level."""
        loop = asyncio.get_running_loop()
        if loop in self.reported:
            self.reported[loop].append((self.now(), text))

    def raised(self, problem: KohortError) -> None:
        """Record an error that the client of the current process raised."""
        code = getattr(problem, "code", None)
        self.logged(f"{problem} {'' if code is None else code.name}")

    def waits(self, loop: object) -> bool:
        """Return whether a response without an error matters: it ends the errors of what it answers."""
        return any(name in WAITED_FOR for name, _, _ in self._met.get(loop, ()))

    def answered(self, loop: object, name: str, response: Message, now: float) -> None:
        """Record a response to a client.

        Raises Violation if the client repeatedly receives an error that it does not report.
        """
        met = self._met.get(loop)
        if met is None:
            return
        for place, code in _places(response):
            if code is ErrorCode.NONE and name in WAITED_FOR:
                for ended in [error for error in met if error[:2] == (name, place)]:
                    del met[ended]
            if code is ErrorCode.NONE:
                continue
            error = met.get((name, place, code))
            if error is None or now - error.latest > _ENDS:
                error = met[name, place, code] = _LastingError(now, now)
            error.latest, error.times = now, error.times + 1
            error.is_reported = error.is_reported or self._is_reported(loop, code, error.began - _BEFORE)
            lasts = self._lasts[loop] if name in WAITED_FOR else _LASTS
            if not error.is_reported and now - error.began > lasts and error.times >= _TIMES:
                raise Violation(
                    "S19", f"{name} gets {code.name} for {place} since {error.began:.3f} and does not report it"
                )

    def _is_reported(self, loop: object, code: ErrorCode, since: float) -> bool:
        word = _WORDS.get(code, code.name)
        return any(at >= since and (code.name in text or word in text) for at, text in reversed(self.reported[loop]))


def _places(response: Message) -> Iterator[tuple[object, ErrorCode]]:
    match response:
        case FetchResponse():
            for fetched in response.responses:
                for data in fetched.partitions:
                    yield (fetched.topic or fetched.topic_id, data.partition_index), ErrorCode(data.error_code)
        case ProduceResponse():
            for written in response.responses:
                for result in written.partition_responses:
                    yield (written.name or written.topic_id, result.index), ErrorCode(result.error_code)
        case OffsetCommitResponse():
            for committed in response.topics:
                for offset in committed.partitions:
                    yield (committed.name or committed.topic_id, offset.partition_index), ErrorCode(offset.error_code)
        case ListOffsetsResponse():
            for listed in response.topics:
                for found in listed.partitions:
                    yield TopicPartition(listed.name, found.partition_index), ErrorCode(found.error_code)
        case OffsetForLeaderEpochResponse():
            for asked in response.topics:
                for end in asked.partitions:
                    yield TopicPartition(asked.topic, end.partition), ErrorCode(end.error_code)
        case MetadataResponse():
            for topic in response.topics:
                yield topic.name or topic.topic_id, ErrorCode(topic.error_code)
                for partition in topic.partitions:
                    yield (topic.name, partition.partition_index), ErrorCode(partition.error_code)
