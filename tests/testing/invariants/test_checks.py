"""The checks as a whole: what a violation says, what is reported once, and the memory that they need."""

import gc

import pytest

from kohort.errors import ErrorCode
from kohort.group_events import Cause
from kohort.testing import AnswerSent, CoordinatorStarted, RequestReceived
from kohort.testing.invariants import Fault, Invariant
from kohort.wire.messages.heartbeat import HeartbeatRequest
from tests.testing.invariants.stream import GROUP, Stream, tp


def test_a_violation_says_what_is_broken_whose_fault_it_is_and_proves_it() -> None:
    stream = Stream()
    a = stream.peer("orders-app")
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    a.beats("a-1", -1, ErrorCode.ILLEGAL_GENERATION)
    (violation,) = stream.found
    assert str(violation) == (
        "S5 (given epochs), fault of the client: Member 'a-1' of group g sent Heartbeat with generation -1. "
        "A member has the generation of the answer to its JoinGroup until it joins again."
    )
    assert (violation.fault, violation.group, violation.client_id) == (Fault.CLIENT, GROUP, "orders-app")
    answer, request = violation.events
    assert isinstance(answer, AnswerSent)
    assert isinstance(request, RequestReceived) and isinstance(request.request, HeartbeatRequest)


def test_a_violation_is_reported_once() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    for _ in range(5):
        a.beats("a-1", -1, ErrorCode.ILLEGAL_GENERATION)
    assert stream.broken() == [(Invariant.GIVEN_EPOCHS, "client")]


def test_a_violation_is_reported_again_after_the_history_of_its_group_began_anew() -> None:
    # Tests that restore one snapshot each use the same names: the second one would pass in silence.
    stream = Stream()
    for _ in range(2):
        stream.acts("restored a snapshot", groups=[GROUP])
        a = stream.peer()
        a.joins("a-1", 1)
        a.beats("a-1", -1, ErrorCode.ILLEGAL_GENERATION)
    assert stream.broken() == [(Invariant.GIVEN_EPOCHS, "client")] * 2


def test_groups_may_be_allowed_to_break_an_invariant_at_any_time() -> None:
    for allowed in (GROUP, "*"):
        stream = Stream()
        stream.checks.allow(Invariant.GIVEN_EPOCHS, allowed)
        a = stream.peer()
        a.joins("a-1", 1)
        a.beats("a-1", -1, ErrorCode.ILLEGAL_GENERATION)
        assert stream.broken() == []


def test_answers_without_a_request_and_closed_connections_are_ignored() -> None:
    stream = Stream()
    a = stream.peer()
    beat = a.sends(HeartbeatRequest(group_id=GROUP))
    a.closes()
    a.loses(beat, None)
    a.beats("a-1", 1)
    assert stream.broken() == []


def test_a_coordinator_that_forgot_a_removal_may_accept_the_member_again() -> None:
    # A dynamic member's removal is in memory alone until the next generation is stored.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.fetches(0, 10)
    stream.gone("a-1", Cause.REBALANCE_TIMEOUT)
    stream.feed(CoordinatorStarted(stream.at, 1, 0))
    a.commits(5, "a-1", 1)
    assert stream.broken() == []


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1_000, id="50,000 requests"),
        pytest.param(20_000, id="1,000,000 requests", marks=pytest.mark.long("it takes half a minute")),
    ],
)
def test_the_checks_of_a_busy_broker_do_not_grow(rounds: int) -> None:
    """Members come under new names, do all that members do, and end in every way; violations occur, too."""
    stream = Stream()
    stream.describes()
    sizes = []
    for number in range(rounds):
        if number in (rounds // 2, rounds - 1):
            gc.collect()
            sizes.append(len(gc.get_objects()))
            stream.found.clear()
        _lives_and_ends(stream, number)
    early, late = sizes
    assert late < early * 1.05 + 2_000


def _lives_and_ends(stream: Stream, number: int) -> None:
    member_id, generation = f"m-{number}", number + 1
    peer = stream.peer(f"client-{number}")
    peer.joins(member_id, generation, leader=member_id, instance_id=f"i-{number}" if number % 3 == 0 else None)
    peer.syncs(member_id, generation, tp(0), tp(1), plan={member_id: [tp(0), tp(1)]})
    for step in range(20):
        peer.beats(member_id, generation, ErrorCode.NONE if step < 15 else ErrorCode.UNKNOWN_MEMBER_ID)
        peer.fetches(10 * step, 10)
    for offset in (100, 50, 1_000):
        peer.commits(offset, member_id, generation)
    peer.finds(1_000)
    if number % 2:
        stream.gone(member_id, Cause.SESSION_EXPIRED, peer.client_id)
        peer.closes()
    else:
        peer.closes()
        stream.gone(member_id, Cause.MEMBER_LEFT, peer.client_id)
