"""Coverage of many worlds: transitions of groups, error codes for bad input, and error codes of each request.

Everything that is not reached has its reason here; otherwise the report says that it has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kohort.coordinator.classic import PREDECESSORS, GroupState
from kohort.coordinator.consumer import ConsumerGroupState
from kohort.errors import ErrorCode
from kohort.sim.checks.answers import Answered
from kohort.sim.checks.error_codes import ALLOWED

Transition = tuple[str, str]

CODES = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
)
"""Error codes in the table of bad input."""

_NO_RECORDS = "producers of a simulated world send what is sound; tests/hostile sends what is not"
_NAMELESS = "for them the empty group id is a group's as any other, as in Kafka"
_BY_THE_BOOK = "clients of a simulated world authenticate as the protocol says; tests/hostile has others"

REASONS: Mapping[str, str] = {
    "consumer Empty to consumer Assigning": "an empty group is at its target, and its first heartbeat computes one",
    "UNSUPPORTED_VERSION": "everybody here speaks what the other offers; tests/hostile sends other versions",
    "CORRUPT_MESSAGE": _NO_RECORDS,
    "MESSAGE_TOO_LARGE": _NO_RECORDS,
    "INVALID_RECORD": _NO_RECORDS,
    "UNSUPPORTED_COMPRESSION_TYPE": _NO_RECORDS,
    "UNSUPPORTED_SASL_MECHANISM": _BY_THE_BOOK,
    "ILLEGAL_SASL_STATE": _BY_THE_BOOK,
    "JoinGroup INVALID_REQUEST": "Kafka's of an instance id in a version that has none, which no request can contain",
    "JoinGroup REBALANCE_IN_PROGRESS": "for a join that a client repeats while its first connection is open;"
    " those of a simulated world close it before",
    "Heartbeat COORDINATOR_LOAD_IN_PROGRESS": "while a group loads, its members' heartbeats are taken, as in Kafka",
    "OffsetCommit INVALID_GROUP_ID": _NAMELESS,
    "OffsetFetch INVALID_GROUP_ID": _NAMELESS,
    "DeleteGroups INVALID_GROUP_ID": _NAMELESS,
    "OffsetFetch GROUP_ID_NOT_FOUND": "a group that does not exist has no offsets, and is no error, as in Kafka",
    "OffsetFetch UNKNOWN_TOPIC_OR_PARTITION": "for a name that no topic has nothing is committed; an id is refused",
    "OffsetDelete NON_EMPTY_GROUP": "for members of another protocol type than consumers, which no world has",
    "ConsumerGroupHeartbeat INVALID_GROUP_ID": "an empty group id is an INVALID_REQUEST there, as in Kafka",
    "UNSTABLE_OFFSET_COMMIT": "few worlds have transactions, and the offsets of one are pending for milliseconds",
}
"""Reasons why something cannot be reached, by the names that `unreached` returns."""


def transitions() -> Iterator[Transition]:
    """Yield every transition that a group of either type can make, as worlds count them."""
    for state, before in PREDECESSORS.items():
        if state is not GroupState.DEAD:  # a dead group is not observed
            yield from sorted((earlier.value, state.value) for earlier in before)
    states = [state.value for state in ConsumerGroupState]
    yield from ((f"consumer {before}", f"consumer {after}") for before in states for after in states if before != after)


def unreached(states: Collection[Transition], errors: Collection[Answered]) -> dict[str, str]:
    """Return what was not observed, each with its reason, or "" without one."""
    codes = {code for _, code in errors}
    missing = [f"{before} to {after}" for before, after in transitions() if (before, after) not in states]
    missing += [code.name for code in CODES if code not in codes]
    missing += [
        f"{name} {code.name}"
        for name, allowed in ALLOWED.items()
        for code in sorted(allowed)
        if (name, code) not in errors and code.name not in missing
    ]
    return {move: REASONS.get(move, "") for move in missing}


def coverage_lines(states: Collection[Transition], errors: Collection[Answered]) -> list[str]:
    """Return the coverage as lines of the report."""
    missing = unreached(states, errors)
    moves, answers = list(transitions()), [(name, code) for name, allowed in ALLOWED.items() for code in allowed]
    codes = {code for _, code in errors}
    bare = [name for name, reason in missing.items() if not reason]
    return [
        f"coverage: {sum(move in states for move in moves)} of {len(moves)} transitions, "
        f"{sum(code in codes for code in CODES)} of {len(CODES)} error codes, "
        f"{sum(answer in errors for answer in answers)} of {len(answers)} answers; "
        f"not reached, without a reason: {', '.join(bare) or 'none'}",
        *(f"  not reached: {name}: {reason}" for name, reason in missing.items() if reason),
    ]
