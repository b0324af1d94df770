"""The verdict of a kit's brokers: their checks, and the error that a test fails with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from kohort.errors import KohortError
from kohort.testing.events import (
    AnswerLost,
    AnswerSent,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    GroupChanged,
    KitActed,
    RecordsAppended,
    RequestReceived,
)
from kohort.testing.invariants import Checks, Invariant, Limits, Violation
from kohort.testing.last_requests import described

_MOST_KEPT = 100
"""A client that breaks an invariant may do it all the time."""


class VerdictError(KohortError, AssertionError):
    """Clients or brokers broke what must always hold. The message has each violation with the events that prove it."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = list(violations)
        count = "one violation" if len(violations) == 1 else f"{len(violations)} violations"
        super().__init__("\n\n".join([f"The verdict of the test kit is {count}.", *map(told, violations)]))


class Verdict:
    """The checks of one kit, with the violations that nobody has taken yet. It belongs to the brokers' event loop."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.checks = Checks(limits)
        self.violations: list[Violation] = []

    def observe(self, event: Event) -> None:
        """Check one event of the brokers."""
        self._keep(self.checks.observe(event))

    def finish(self, at: int) -> None:
        """Check what should have happened by now."""
        self._keep(self.checks.finish(at))

    def _keep(self, found: Sequence[Violation]) -> None:
        self.violations += found
        del self.violations[_MOST_KEPT:]

    def take(self, concerns: Callable[[Violation], bool]) -> list[Violation]:
        """Return the violations that `concerns` accepts, and forget them."""
        taken = [violation for violation in self.violations if concerns(violation)]
        self.violations = [violation for violation in self.violations if violation not in taken]
        return taken

    def allow(self, invariant: Invariant, *groups: str) -> None:
        """Accept what these groups, or all, do against an invariant, also if they have done it."""
        self.checks.allow(invariant, *(groups or ("*",)))
        self.take(lambda violation: violation.invariant is invariant and (not groups or violation.group in groups))


def told(violation: Violation) -> str:
    """Return a violation with its events, one per line."""
    whose = ", ".join(
        f"{kind} {name}" for kind, name in (("group", violation.group), ("client", violation.client_id)) if name
    )
    return "\n".join(
        [str(violation) + (f" ({whose})" if whose else ""), *(f"  {_line(each)}" for each in violation.events)]
    )


def _line(event: Event) -> str:
    clock = datetime.fromtimestamp(event.at / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    match event:
        case RequestReceived():
            what = f"request {event.request_id} of {event.client_id or 'a client'}: {described(event)}"
        case AnswerSent():
            what = f"answer to {event.request_id}: {event.response}"
        case AnswerLost():
            what = f"answer to {event.request_id} was lost: {event.reason}"
        case RecordsAppended():
            what = f"{len(event.records)} records in __consumer_offsets-{event.partition}"
        case GroupChanged():
            what = str(event.event)
        case KitActed():
            what = f"the test kit: {event.what}"
        case ConnectionOpened():
            what = f"connection {event.connection} from {event.peer}"
        case ConnectionClosed():
            what = f"connection {event.connection} was closed by {'the broker' if event.by_broker else 'the client'}"
    return f"{clock} {what if len(what) <= 300 else what[:300] + '...'}"
