"""Faults that affect single messages: the next request of a kind is delayed, or its response is delayed or lost.

Faults at random times rarely coincide with an interesting message, because a process is idle most
of the time.
"""

from __future__ import annotations

from random import Random
from struct import Struct

from kohort.sim.plans.plan import Plan, Step
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
"""Position of the API key, after the size of the request."""
_LIKELY = 0.5
"""Probability that a busy world has such faults."""


class MessageFaults:
    """Faults for the next requests of each kind."""

    def __init__(self) -> None:
        self._armed: dict[int, list[tuple[str, float]]] = {}
        self._answers: dict[int, float] = {}
        """Delay of the next response in seconds, by the broker's end of a connection; negative if it is lost."""
        self.is_idle = True

    def arm(self, how: str, request: str, seconds: float) -> None:
        """Add a fault (`late`, `answer-late` or `answer-lost`) for the next request of that name."""
        self._armed.setdefault(_KEYS[request], []).append((how, seconds))
        self.is_idle = False

    def clear(self) -> None:
        """Remove all faults."""
        self._armed.clear()
        self._answers.clear()
        self.is_idle = True

    def request(self, broker_end: int, data: bytes) -> float:
        """Return the delay of a request to that end, in seconds."""
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
        """Return the delay of a response from that end, in seconds; negative if the response is lost."""
        return self._answers.pop(broker_end, 0.0)


def add_aims(plan: Plan, dice: Random) -> None:
    """Add such faults to half of the busy plans, with random numbers of their own."""
    if plan.is_calm or dice.random() >= _LIKELY:
        return
    for _ in range(dice.choice([2, 5, 12, 25])):
        plan.steps.append(aim(plan, dice))
    plan.steps.sort(key=lambda step: (step.at, step.what, step.who))


def aim(plan: Plan, dice: Random, at: float | None = None) -> Step:
    """Return a step that affects the next request of some kind from the time `at` on (default: random)."""
    how = dice.choice(["late", "answer-late", "answer-lost", "answer-lost"])
    at = dice.uniform(0.0, plan.seconds) if at is None else at
    seconds = dice.choice([0.02, 0.5, 3.0, 9.0]) * dice.uniform(0.5, 1.5)
    requests = (*_GROUPS, *_RECORDS) if plan.records else _GROUPS
    return Step(round(at, 3), "aim", value=f"{how} {dice.choice(requests)} {seconds:.3f}")
