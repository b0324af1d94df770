"""Bugs of brokers over a database, which only worlds with one can find; see planting."""

from __future__ import annotations

from collections.abc import Generator

from pytest import MonkeyPatch

from kohort.broker.cluster.lease import Lease
from kohort.log.cluster.database_errors import Writer
from tests.sim.planting import plant


@plant("S10", "S7", "S8", "S16", hint=164)
def a_lost_response_counts_as_a_rejection(patch: MonkeyPatch) -> None:
    """An append that was committed is written again; S16 sees it if the log that has it twice is a topic's."""

    def not_in(self: object) -> Generator[float, None, int]:
        yield 0.1
        return -1

    patch.setattr(Writer, "_find_out", not_in)


@plant("S7", "S10", hint=109)
def a_lost_response_counts_as_a_success(patch: MonkeyPatch) -> None:
    def is_in(self: Writer[object]) -> Generator[float, None, int]:
        yield 0.1
        return self._appends + 1

    patch.setattr(Writer, "_find_out", is_in)


@plant("S9", hint=32)
def a_broker_answers_without_a_lease(patch: MonkeyPatch) -> None:
    patch.setattr(Lease, "fenced", lambda self, now: False)
