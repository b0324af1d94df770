"""Coverage of transitions and error codes by worlds, and the report about the rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from kohort.errors import ErrorCode
from kohort.sim import Plan, World, draw
from kohort.sim.bad_request_names import BadRequest
from kohort.sim.checks import coverage
from kohort.sim.checks.coverage import REASONS, coverage_lines, unreached
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import MemberStart, SendBadRequest
from kohort.sim.world.outcome import Outcome
from tests.sim.worlds.test_worlds import SHORT

HINTS = (7, 23, 183, 73, 77, 10, 17, 139, 265, 2, 16, 26, 28)
"""Seeds that reach most of what the worlds made by hand do not; when that is no longer true, others are looked for."""
MOST = 300


def plan(protocol: str, requests: Iterator[BadRequest]) -> Plan:
    """Two static members, and a stranger who asks for all that every second."""
    settings = [
        ApplicationSettings(
            group="g", topics=("orders",), instance=f"i{number}", session=30_000, heartbeat=3_000, protocol=protocol
        )
        for number in range(2)
    ]
    begin = [MemberStart(0.5, 0), MemberStart(0.6, 1)]
    asked = [SendBadRequest(15.0 + number, "g", request) for number, request in enumerate(requests)]
    return Plan(
        seed=0,
        seconds=16.0 + len(asked),
        settings={"group.initial.rebalance.delay.ms": "0"},
        topics={"orders": 4},
        members=settings,
        rates=[1.0, 1.0],
        steps=[*begin, *asked],
    )


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [World(plan(protocol, iter(BadRequest))).run() for protocol in ("classic", "consumer")]


def test_a_foreign_client_may_send_anything(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.violation is None
        assert outcome.faults["send-bad-request"] == len(BadRequest)


def test_foreign_clients_get_kafkas_answers(outcomes: list[Outcome]) -> None:
    heard = {code for outcome in outcomes for _, code in outcome.errors}
    assert heard >= {
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    }


def test_no_reason_is_given_for_what_was_reached(outcomes: list[Outcome]) -> None:
    states = {state for outcome in outcomes for state in outcome.states}
    errors = {error for outcome in outcomes for error in outcome.errors}
    reached = {f"{before} to {other}" for before, other in states} | {code.name for _, code in errors}
    reached |= {f"{name} {code.name}" for name, code in errors}
    assert REASONS.keys() & reached == set()


@pytest.mark.long("makes worlds until they have reached everything")
def test_whatever_is_not_reached_has_a_reason(outcomes: list[Outcome]) -> None:
    states = {state for outcome in outcomes for state in outcome.states}
    errors = {error for outcome in outcomes for error in outcome.errors}

    def missing() -> list[str]:
        return [name for name, reason in unreached(states, errors).items() if not reason]

    for seed in (*HINTS, *range(MOST)):
        if not missing():
            break
        outcome = World(draw(seed, SHORT)).run()
        states |= outcome.states.keys()
        errors |= outcome.errors.keys()
    assert missing() == []


def test_the_report_names_what_has_no_reason() -> None:
    (first, *reasons) = coverage_lines((), ())
    assert first.startswith("coverage: 0 of 18 transitions, 0 of ") and "Empty to PreparingRebalance" in first
    assert len(reasons) == len(REASONS.keys() & unreached((), ()).keys())


def test_every_pair_of_states_of_a_consumer_group_is_asked_for() -> None:
    asked = {transition for transition in coverage.transitions() if transition[0].startswith("consumer ")}
    names = ["consumer Empty", "consumer Assigning", "consumer Reconciling", "consumer Stable"]
    assert asked == {(before, other) for before, other in product(names, names) if before != other}
