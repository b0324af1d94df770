"""Check that clients that read records raise or log each error that brokers keep returning (S19)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from kohort.errors import ErrorCode, KohortError
from kohort.model import TopicPartition
from kohort.sim.violation import Violation
from kohort.wire.codec import Message
from kohort.wire.messages.fetch import FetchResponse
from kohort.wire.messages.list_offsets import ListOffsetsResponse
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

READING = frozenset({"Fetch", "ListOffsets", "OffsetForLeaderEpoch", "Metadata"})
"""Requests whose responses are checked."""
_LASTS = 10.0
"""Minimum duration of an error in seconds: a single response may arrive too late to count."""
_TIMES = 4
"""Minimum number of responses with the error in that time."""
_ENDS = 30.0
"""Seconds without the error after which it counts as a new one."""
_WORDS = {ErrorCode.OFFSET_OUT_OF_RANGE: "out of range"}
"""Texts by which the log refers to an error, where it does not use the error's name."""

Met = tuple[str, object, ErrorCode]
"""Request, subject of the error, and the error."""


@dataclass(slots=True)
class _Silence:
    """Error that a broker returned and that the client has not reported yet."""

    began: float
    latest: float
    times: int = 0


class ErrorChecks:
    """Check of the clients that `watches` names. The event loop identifies each run of a client's process."""

    def __init__(self) -> None:
        self.told: dict[object, str] = {}
        """Everything logged or raised in a run, by event loop."""
        self._untold: dict[object, dict[Met, _Silence]] = {}

    def begins(self, loop: object) -> None:
        """Start to check a run of a client."""
        self.told[loop], self._untold[loop] = "", {}

    def logged(self, text: str) -> None:
        """Record text that the current process logged as a warning or at a higher level."""
        loop = asyncio.get_running_loop()
        if loop in self.told:
            self.told[loop] += text + "\n"

    def raised(self, problem: KohortError) -> None:
        """Record an error that the client of the current process raised."""
        code = getattr(problem, "code", None)
        self.logged(f"{problem} {'' if code is None else code.name}")

    def answered(self, loop: object, name: str, response: Message, now: float) -> None:
        """Record a response to a client.

        Raises Violation if the client repeatedly receives an error that it does not report.
        """
        untold = self._untold.get(loop)
        if untold is None:
            return
        for place, code in _places(response):
            if code is ErrorCode.NONE or self._is_told(loop, code):
                continue
            silence = untold.get((name, place, code))
            if silence is None or now - silence.latest > _ENDS:
                silence = untold[name, place, code] = _Silence(now, now)
            silence.latest, silence.times = now, silence.times + 1
            if now - silence.began > _LASTS and silence.times >= _TIMES:
                raise Violation("S19", f"{name} is answered {code.name} for {place} since {silence.began:.3f}")

    def _is_told(self, loop: object, code: ErrorCode) -> bool:
        told = self.told[loop]
        return code.name in told or _WORDS.get(code, code.name) in told


def _places(response: Message) -> Iterator[tuple[object, ErrorCode]]:
    match response:
        case FetchResponse():
            for fetched in response.responses:
                for data in fetched.partitions:
                    yield (fetched.topic or fetched.topic_id, data.partition_index), ErrorCode(data.error_code)
        case ListOffsetsResponse():
            for listed in response.topics:
                for one in listed.partitions:
                    yield TopicPartition(listed.name, one.partition_index), ErrorCode(one.error_code)
        case OffsetForLeaderEpochResponse():
            for asked in response.topics:
                for end in asked.partitions:
                    yield TopicPartition(asked.topic, end.partition), ErrorCode(end.error_code)
        case MetadataResponse():
            for topic in response.topics:
                yield topic.name or topic.topic_id, ErrorCode(topic.error_code)
                for partition in topic.partitions:
                    yield (topic.name, partition.partition_index), ErrorCode(partition.error_code)
