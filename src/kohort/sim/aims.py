"""Faults that strike at one message: the next request of a kind is late, or its answer is late or lost.

Faults at times that are drawn meet a message of interest seldom, since a process is idle for most of its time.
"""

from __future__ import annotations

from random import Random
from struct import Struct

from kohort.sim.plan import Plan, Step
from kohort.wire.api import APIS

_GROUPS = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "ConsumerGroupHeartbeat",
    "FindCoordinator",
)
_RECORDS = ("Fetch", "Produce", "ListOffsets", "OffsetForLeaderEpoch", "Produce")
_KEYS = {api.name: key for key, api in APIS.items()}
_KEY = Struct(">h")
_KEY_AT = 4
"""Behind the size of a request."""
_LIKELY = 0.5
"""How likely a busy world has such faults."""


class Aims:
    """What is to happen to the next requests of each kind."""

    def __init__(self) -> None:
        self._armed: dict[int, list[tuple[str, float]]] = {}
        self._answers: dict[int, float] = {}
        """By the broker's end of a connection, by how many seconds the next answer is late; less than 0 to lose it."""
        self.is_idle = True

    def arm(self, how: str, request: str, seconds: float) -> None:
        """Strike at the next request of that name: `late`, `answer-late` or `answer-lost`."""
        self._armed.setdefault(_KEYS[request], []).append((how, seconds))
        self.is_idle = False

    def clear(self) -> None:
        """Strike at nothing more."""
        self._armed.clear()
        self._answers.clear()
        self.is_idle = True

    def request(self, broker_end: int, data: bytes) -> float:
        """By how many seconds a request to that end is late."""
        if len(data) < _KEY_AT + _KEY.size or broker_end in self._answers:
            return 0.0
        armed = self._armed.get(_KEY.unpack_from(data, _KEY_AT)[0])
        if not armed:
            return 0.0
        how, seconds = armed.pop(0)
        if how == "late":
            return seconds
        self._answers[broker_end] = seconds if how == "answer-late" else -1.0
        return 0.0

    def answer(self, broker_end: int) -> float:
        """By how many seconds an answer from that end is late; less than 0 where it is lost."""
        return self._answers.pop(broker_end, 0.0)


def add_aims(plan: Plan, dice: Random) -> None:
    """Have half of the busy plans aim at single messages, by dice of their own."""
    if plan.is_calm or dice.random() >= _LIKELY:
        return
    requests = (*_GROUPS, *_RECORDS) if plan.records else _GROUPS
    for _ in range(dice.choice([2, 5, 12, 25])):
        how = dice.choice(["late", "answer-late", "answer-lost", "answer-lost"])
        at, seconds = dice.uniform(0.0, plan.seconds), dice.choice([0.02, 0.5, 3.0, 9.0]) * dice.uniform(0.5, 1.5)
        plan.steps.append(Step(round(at, 3), "aim", value=f"{how} {dice.choice(requests)} {seconds:.3f}"))
    plan.steps.sort(key=lambda step: (step.at, step.what, step.who))
