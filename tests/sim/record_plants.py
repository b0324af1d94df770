"""Bugs of reading and writing records, which only worlds with records can find; see planting."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from pytest import MonkeyPatch

from kohort.broker.apis import fetch, produce
from kohort.broker.fetch.sessions import FetchSession
from kohort.client.consume import position_lookups
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.position_lookups import Turns
from kohort.client.consume.positioner import Positioner
from kohort.client.net.cluster import Cluster
from kohort.client.net.failure_log import FailureLog
from kohort.errors import ErrorCode
from kohort.log.producers import Accepted, ProducerStates
from kohort.model import UUID
from kohort.sim import Plan, Step
from kohort.sim.plans import ApplicationSettings
from kohort.sim.steps import DiskFull, MemberStart, Produce
from kohort.wire.messages.fetch import FetchPartition, FetchRequest
from tests.sim.planting import plant


@plant("S16", hint=20)
def a_record_is_acknowledged_before_it_is_on_disk(patch: MonkeyPatch) -> None:
    def at_once(broker: Any, commit: Any, call: Any, request: Any, answers: Any, nodes: Any) -> None:
        produce._reply(broker, call, request, answers, nodes)

    patch.setattr(produce, "_answer_when_durable", at_once)


@plant("L5", "L7", hint=71)
def a_fetch_session_does_not_notice_new_records(patch: MonkeyPatch) -> None:
    patch.setattr(FetchSession, "_moved", lambda self, log: None)


@plant("L7", "L1", "L5", "L10", hint=18)
def leaders_of_known_topics_are_not_looked_up_again(patch: MonkeyPatch) -> None:
    def unknown_only(self: Cluster, _who: object, topics: set[str]) -> None:
        self.want_metadata(topics - self.metadata.topics.keys())

    patch.setattr(Cluster, "keep_metadata", unknown_only)


@plant("L7", "L5", hint=66)
def a_partition_without_a_position_keeps_the_others_from_being_checked(patch: MonkeyPatch) -> None:
    real = Positioner._needed

    def missing_first(self: Any, state: PartitionState) -> Any:
        if state.position is not None and any(state.position is None for state in self._fetcher.states.values()):
            return None
        return real(self, state)

    patch.setattr(Positioner, "_needed", missing_first)


@plant("S17", "S11")
def a_committed_offset_is_taken_for_that_of_the_last_record(patch: MonkeyPatch) -> None:
    real = PartitionState.move

    def one_further(
        self: PartitionState, position: int, epoch: int | None = None, topic_id: UUID | None = None
    ) -> None:
        real(self, position if epoch is None else position + 1, epoch, topic_id)

    patch.setattr(PartitionState, "move", one_further)


@plant("S16", hint=18)
def a_repeated_batch_is_written_twice(patch: MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "check", lambda self, header, **rules: Accepted())  # KIP-98


@plant("S18", hint=0)
def a_partition_that_a_fetch_session_forgot_is_still_answered(patch: MonkeyPatch) -> None:
    real = FetchSession.update

    def remember(self: FetchSession, request: FetchRequest, version: int) -> None:
        forgetful = copy(request)
        forgetful.forgotten_topics_data = []
        real(self, forgetful, version)

    patch.setattr(FetchSession, "update", remember)  # KIP-227


@plant("S17", "L7", hint=196)
def a_seek_is_overwritten_by_an_earlier_lookup(patch: MonkeyPatch) -> None:
    real = position_lookups._placed

    def whatever_the_turn(turns: Turns, *rest: Any) -> Any:
        return real({partition: (state, state.turn) for partition, (state, _) in turns.items()}, *rest)

    patch.setattr(position_lookups, "_placed", whatever_the_turn)


@plant("S19", hint=0)
def a_consumer_does_not_report_errors(patch: MonkeyPatch) -> None:
    patch.setattr(FailureLog, "failed", lambda self, subjects, code, why: None)


def two_outages() -> Plan:
    """A consumer commits automatically while a disk is full, and again much later."""
    member = ApplicationSettings("g", ("orders",), session=30_000, heartbeat=3_000, commit_every=5_000, poll_every=500)
    outages = ((15.0, 40.0), (230.0, 60.0))
    steps: list[Step] = [MemberStart(1.0, 0)]
    for at, seconds in outages:
        steps += [Produce(at, "orders", 30), DiskFull(at + 0.4, seconds)]
    return Plan(
        9,  # one of the seeds in which the consumer commits automatically
        300.0,
        brokers=1,
        records=True,
        settings={"group.initial.rebalance.delay.ms": "0", "log.message.timestamp.after.max.ms": str(2**63 - 1)},
        topics={"orders": 2, "vault": 1},
        members=[member],
        rates=[1.0],
        steps=steps,
    )


@plant("S19", plan=two_outages)
def a_consumer_says_nothing_of_commits_that_fail(patch: MonkeyPatch) -> None:
    _ignore(patch, lambda log, code: True)


@plant("S19", plan=two_outages)
def a_consumer_reports_commits_that_fail_only_the_first_time(patch: MonkeyPatch) -> None:
    first: dict[tuple[int, ErrorCode], float] = {}

    def repeated(log: FailureLog, code: ErrorCode) -> bool:
        return log._clock() - first.setdefault((id(log), code), log._clock()) > _LATER

    _ignore(patch, repeated)


_LATER = 100.0
"""Seconds after which the second outage begins, and the first one has ended."""


def _ignore(patch: MonkeyPatch, ignores: Callable[[FailureLog, ErrorCode], bool]) -> None:
    """Ignore some failures of a coordinator, and of commits, which the client reports separately."""
    real = FailureLog.failed

    def failed(self: FailureLog, subjects: Any, code: ErrorCode, why: str) -> None:
        if self._begins not in ("no coordinator", "auto commit failed") or not ignores(self, code):
            real(self, subjects, code, why)

    patch.setattr(FailureLog, "failed", failed)


@plant("S14")
def a_fetch_is_refused_with_a_wrong_error_code(patch: MonkeyPatch) -> None:
    real = fetch._Gathered._failed

    def other(self: Any, wanted: FetchPartition, code: ErrorCode, aborted: Any) -> Any:
        wrong = ErrorCode.NOT_COORDINATOR if code is ErrorCode.FENCED_LEADER_EPOCH else code
        return real(self, wanted, wrong, aborted)

    patch.setattr(fetch._Gathered, "_failed", other)
