"""Caching a connection's last heartbeat changes no response."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.net.connection import ClientConnection
from kohort.errors import ErrorCode
from kohort.wire.api import read_response_header, request_header
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.list_groups import ListGroupsRequest
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, talking_to

SETTINGS = {**QUICK, "group.consumer.assignment.interval.ms": "0"}


async def ask(peer: Peer, request: Message, version: int, client_id: str | None = "app") -> bytes:
    """One request, and the very bytes of its answer; the correlation id is the same for all."""
    peer.send_frame(request_header(request.KEY, version, 7, client_id) + encode(request, version))
    return await peer.receive_frame()


@dataclass
class Member:
    """One who mostly says nothing, and sometimes anything."""

    member_id: str
    epoch: int = 0
    owned: list[TopicPartitions] = field(default_factory=list)

    def says(self, rng: random.Random) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(member_id=self.member_id, member_epoch=self.epoch)
        chance = rng.random()
        if not self.epoch or chance < 0.05:
            request.member_epoch, request.rebalance_timeout_ms, request.topic_partitions = 0, 60_000, []
            request.subscribed_topic_names = rng.choice((["orders"], ["orders", "payments"], []))
        elif chance < 0.1:
            request.subscribed_topic_names = rng.choice((["orders"], ["payments"]))
        elif chance < 0.3:
            request.topic_partitions = self.owned
        elif chance < 0.35:
            request.member_epoch = rng.choice((-1, self.epoch - 1, self.epoch + 1))
        return request

    def receives(self, answer: bytes, version: int) -> None:
        _, position = read_response_header(answer, ConsumerGroupHeartbeatRequest.KEY, version)
        response = decode(ConsumerGroupHeartbeatResponse, version, answer[position:])
        self.epoch = 0 if response.error_code else max(response.member_epoch, 0)
        if response.assignment is not None:
            self.owned = response.assignment.topic_partitions


@pytest.mark.parametrize("seed", range(6))
async def test_heartbeats_are_answered_alike_whether_or_not_they_are_remembered(
    seed: int, start_broker: MakeBroker
) -> None:
    # Two groups live the same life. Members of one keep their connections; those of the other come on a new one with
    # each request, so that nothing of them is ever remembered.
    rng = random.Random(seed)
    broker = await start_broker(BrokerOptions(port=0, settings=SETTINGS))
    broker.topics.create("orders", 6)
    broker.topics.create("payments", 3)
    members = [Member(f"member-{number}") for number in range(3)]
    async with talking_to(broker) as one, talking_to(broker) as two, talking_to(broker) as three:
        lines = (one, two, three)
        for _ in range(150):
            place = rng.randrange(3)
            request, version = members[place].says(rng), rng.choice((1, 1, 1, 1, 0))
            client_id = rng.choice(("app", "app", "app", "other"))
            for _ in range(rng.choice((1, 2, 4))):
                request.group_id = "kept"
                answer = await ask(lines[place], request, version, client_id)
                request.group_id = "anew"
                async with talking_to(broker) as fresh:
                    assert (await ask(fresh, request, version, client_id)).replace(b"anew", b"kept") == answer
            members[place].receives(answer, version)
        assert any(connection.last_heartbeat for connection in connections(broker)), "nothing was remembered"


async def test_a_heartbeat_is_read_once_and_its_answer_written_once(broker: Broker, peer: Peer) -> None:
    broker.topics.create("orders", 2)
    join = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    epoch = (await peer.ask(join, 1, ConsumerGroupHeartbeatResponse)).member_epoch
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch)
    said = await ask(peer, beat, 1)
    (connection,) = connections(broker)
    remembered = connection.last_heartbeat
    assert remembered is not None and remembered.answer is not None
    kept = remembered.request, remembered.answer
    assert await ask(peer, beat, 1) == said
    assert connection.last_heartbeat is remembered and (remembered.request, remembered.answer) == kept
    assert remembered.request is kept[0] and remembered.answer is kept[1]


async def test_another_version_of_the_same_heartbeat_is_answered_in_its_own(broker: Broker, peer: Peer) -> None:
    # The answers to both are one message, whose bytes differ by version.
    beat = HeartbeatRequest(group_id="nobody", member_id="a")
    answers = [await ask(peer, beat, version) for version in (4, 4, 0, 0, 4, 4)]
    first, _, older, _, _, _ = answers
    assert answers == [first, first, older, older, first, first] and first != older
    for answer, version in ((first, 4), (older, 0)):
        _, position = read_response_header(answer, beat.KEY, version)
        assert decode(HeartbeatResponse, version, answer[position:]).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_client_that_returns_to_its_first_client_id_is_recognized(broker: Broker, peer: Peer) -> None:
    join = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="a", rebalance_timeout_ms=60_000, subscribed_topic_names=[], topic_partitions=[]
    )
    for client_id in ("app", "other", "app", None, "app"):
        await ask(peer, join, 1, client_id)
        described = await peer.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1, ConsumerGroupDescribeResponse)
        assert [member.client_id for member in described.groups[0].members] == [client_id or ""]


def connections(broker: Broker) -> list[ClientConnection]:
    return list(broker.sockets)


async def test_a_remembered_heartbeat_is_its_clients_own_again_after_another_client_spoke(
    broker: Broker, peer: Peer
) -> None:
    beat = HeartbeatRequest(group_id="nobody", member_id="a")
    for client_id, request, version in (("app", beat, 4), ("other", ListGroupsRequest(), 4), ("app", beat, 4)):
        await ask(peer, request, version, client_id)
        (connection,) = connections(broker)
        assert connection.client_id == client_id
