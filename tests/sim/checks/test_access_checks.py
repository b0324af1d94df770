"""What counts as a right that a client does not have, and as a session that has ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.sim import Violation
from kohort.sim.checks.access_checks import AccessChecks, LostRight
from kohort.sim.steps import Right
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateResponse

ORDERS = UUID(int=1)
READ_ORDERS, READ_GROUP = LostRight(Right.READ_TOPIC, "orders"), LostRight(Right.READ_GROUP, "")
AUTHENTICATED = SaslAuthenticateResponse(auth_bytes=b"v=proof", session_lifetime_ms=2_000)
CONNECTION = 2


@dataclass
class World:
    """Rights of one client, and the checks that know them."""

    lost: dict[str, frozenset[LostRight]] = field(default_factory=dict)
    changed: dict[str, float] = field(default_factory=dict)
    rejected: dict[str, float] = field(default_factory=dict)
    is_unwell: bool = False
    recovered: float = -1.0
    now: float = 10.0
    broker_knows: bool = True
    is_faultless: bool = False

    def __post_init__(self) -> None:
        self.checks = AccessChecks(
            self,
            lambda: self.now,
            lambda: {ORDERS: "orders"},
            lambda broker, user: self.broker_knows,
            0.0,
            is_faultless=self.is_faultless,
        )

    def may_be_refused(self, user: str, since: float) -> bool:
        return self.is_unwell or self.recovered >= since

    def lose(self, *lost: LostRight) -> None:
        self.lost["m"], self.changed["m"] = frozenset(lost), self.now
        self.now += 1.0

    def answer(self, name: str, response: object) -> None:
        """Let a request arrive, and be answered a second later."""
        asked = self.checks.asked("m", "broker-1")
        self.checks.sent_on(CONNECTION, "m", name)
        self.now += 1.0
        self.checks.answered_on(CONNECTION, "m", asked, name)
        if self.checks.is_concerned("m", asked, name):
            self.checks.answered(CONNECTION, "m", asked, name, response)


def committed(code: ErrorCode) -> OffsetCommitResponse:
    partitions = [OffsetCommitResponsePartition(partition_index=0, error_code=code)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic_id=ORDERS, partitions=partitions)])


def fetched(records: bytes) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=1, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=ORDERS, partitions=[partition])])


@pytest.mark.parametrize(
    ("lost", "name", "response"),
    [
        (READ_ORDERS, "Fetch", fetched(b"records")),
        (READ_ORDERS, "OffsetCommit", committed(ErrorCode.NONE)),
        (READ_GROUP, "OffsetCommit", committed(ErrorCode.NONE)),
        (READ_GROUP, "Heartbeat", HeartbeatResponse()),
    ],
)
def test_nothing_may_be_learned_or_changed_without_the_right(lost: LostRight, name: str, response: object) -> None:
    world = World()
    world.lose(lost)
    with pytest.raises(Violation, match="S20"):
        world.answer(name, response)


def test_a_refusal_and_a_right_that_the_client_has_are_no_violation() -> None:
    world = World()
    world.lose(READ_ORDERS)
    world.answer("Heartbeat", HeartbeatResponse())
    world.answer("Fetch", fetched(b""))
    world.answer("OffsetCommit", committed(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def test_a_request_that_arrived_before_the_right_was_lost_may_be_answered() -> None:
    world = World()
    asked = world.checks.asked("m", "broker-1")
    world.lose(READ_ORDERS)
    assert not world.checks.is_concerned("m", asked, "Fetch")


def test_a_broker_that_has_not_stored_the_change_yet_may_answer() -> None:
    world = World(broker_knows=False)
    world.lose(READ_ORDERS)
    world.answer("Fetch", fetched(b"records"))


def test_a_client_with_all_rights_may_not_be_refused() -> None:
    world = World()
    asked = world.checks.asked("m", "broker-1")
    assert world.checks.refused("m", asked, "Heartbeat")
    world.is_unwell = True
    assert not world.checks.refused("m", asked, "Heartbeat")


def test_nothing_is_answered_after_the_session_has_ended() -> None:
    world = World()
    world.answer("SaslAuthenticate", AUTHENTICATED)
    world.now += 1.5
    world.answer("Heartbeat", HeartbeatResponse())
    with pytest.raises(Violation, match="S20"):
        world.answer("Heartbeat", HeartbeatResponse())
    world.answer("SaslAuthenticate", AUTHENTICATED)
    world.answer("Heartbeat", HeartbeatResponse())


def test_a_client_may_be_refused_by_the_password_that_its_first_message_found() -> None:
    world = World(recovered=8.0)
    asked = world.checks.asked("m", "broker-1")
    assert not world.checks.refused("m", asked, "SaslAuthenticate")
    assert world.checks.refused("m", asked, "Heartbeat")


@pytest.mark.parametrize("late", [True, False])
def test_without_faults_each_request_arrives_in_the_session(late: bool) -> None:
    world = World(is_faultless=True)
    world.answer("SaslAuthenticate", AUTHENTICATED)
    world.now += 1.5 if late else 0.5
    if late:
        with pytest.raises(Violation, match="S21"):
            world.answer("Heartbeat", HeartbeatResponse())
    else:
        world.answer("Heartbeat", HeartbeatResponse())


def test_a_password_that_is_rejected_for_long_authenticates_nobody() -> None:
    world = World()
    world.rejected["m"] = world.now
    world.now += 10.0
    world.answer("SaslAuthenticate", AUTHENTICATED)  # the password may have been looked up before the change
    world.now += 10.0
    with pytest.raises(Violation, match="S20"):
        world.answer("SaslAuthenticate", AUTHENTICATED)
