"""Clients by the names that they give themselves."""

import pytest

from kohort.coordinator import ClientKind
from kohort.coordinator.prompt.client_timings import CLIENT_TIMINGS
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.coordinator.held_group import HeldGroup


@pytest.mark.parametrize(
    ("software", "version", "kind"),
    [
        ("apache-kafka-java", "4.3.1", ClientKind.JAVA),
        ("kohort", "0.1", ClientKind.KOHORT),
        ("librdkafka", "2.16.0", ClientKind.LIBRDKAFKA),
        ("confluent-kafka-python", "2.16.0", ClientKind.LIBRDKAFKA),
        ("karafka", "2.5.0-librdkafka-2.11.0", ClientKind.LIBRDKAFKA),
        ("kafka-python", "3.0.12", ClientKind.KAFKA_PYTHON),
        ("aiokafka", "0.14.0", ClientKind.OTHER),
        ("", "", ClientKind.OTHER),
    ],
)
def test_a_client_is_known_by_its_name_and_version(software: str, version: str, kind: ClientKind) -> None:
    assert ClientKind.of(software, version) is kind


def test_only_a_client_that_was_seen_to_sleep_is_taken_to_sleep() -> None:
    assert {kind for kind in ClientKind if CLIENT_TIMINGS[kind].sleeps_while_held} == {ClientKind.KOHORT}


def test_a_coordinator_that_loads_a_group_knows_a_members_client_when_it_joins_again() -> None:
    group = HeldGroup().at_rest(members=1)
    [member_id] = group.members
    assert group.shell.shard.groups["g"].members[member_id].client is ClientKind.OTHER
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(["t"])))],
    )
    group.shell.handle(request, "join", 3, client=ClientKind.LIBRDKAFKA)
    assert group.shell.shard.groups["g"].members[member_id].client is ClientKind.LIBRDKAFKA
