"""The endpoint answers as `kcl fake --control` does: the same paths, statuses, types and JSON, word for word."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kohort.model import TopicPartition
from kohort.testing.fake import ControlServer, FakeCluster, FakeOptions
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.peer import Peer, connected

HERE = Path(__file__).parent
PATIENCE_S = 60.0
TOPIC, GROUP = "bench10", "g1"


@dataclass(frozen=True)
class Step:
    """A request and its answer, or what a client of the brokers does and the answers that it gets."""

    line: int
    method: str
    path: str
    body: str | None
    status: int
    content_type: str
    answer: str
    meanwhile: str | None
    """What a client does while the request waits."""


def read_steps(name: str) -> Iterator[Step]:
    meanwhile = None
    lines = iter(enumerate((HERE / name).read_text().splitlines(), 1))
    for number, line in lines:
        if not line or line.startswith("#"):
            continue
        if line.endswith(" meanwhile"):
            meanwhile = line.removeprefix("> ").removesuffix(" meanwhile")
            continue
        method, _, rest = line.partition(" ")
        path, _, body = rest.partition("  ")
        _, second = next(lines)
        if method == ">":
            yield Step(number, ">", rest, None, 0, "", second.strip(), None)
            continue
        status, _, content_type = second.removeprefix("  -> ").partition(" ")
        _, answer = next(lines)
        sent = body if "  " in rest else None
        yield Step(number, method, path, sent, int(status), content_type, answer.strip(), meanwhile)
        meanwhile = None


class Client:
    """A member of the group, with plain requests."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.generation = -1
        self.member_id = ""

    async def _ask(self, peer: Peer, request: Any, version: int, kind: Any) -> Any:
        peer.send(request, version, "bar")
        return await peer.answer(kind)

    async def act(self, action: str) -> str:
        async with connected(self._bootstrap) as peer:
            found = await peer.ask(FindCoordinatorRequest(key=GROUP), 2, FindCoordinatorResponse)
        async with connected(f"{found.host}:{found.port}") as peer:
            match action:
                case "join":
                    return await self._join(peer)
                case "sync":
                    return await self._sync(peer)
                case "heartbeat":
                    request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
                    answer = await self._ask(peer, request, 2, HeartbeatResponse)
                    return f"answered (error): {answer.error_code:d}"
                case "commit":
                    return await self._commit(peer)
                case _:
                    raise AssertionError(action)

    async def _join(self, peer: Peer) -> str:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription([TOPIC])))],
        )
        answer = await self._ask(peer, request, 3, JoinGroupResponse)
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return f"answered (error, generation): ({answer.error_code:d}, {answer.generation_id})"

    async def _sync(self, peer: Peer) -> str:
        assignment = encode_assignment(Assignment([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]))
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=assignment)],
        )
        answer = await self._ask(peer, request, 2, SyncGroupResponse)
        return f"answered (error): {answer.error_code:d}"

    async def _commit(self, peer: Peer) -> str:
        partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in (0, 1)]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        answer = await self._ask(peer, request, 6, OffsetCommitResponse)
        codes = [(each.partition_index, int(each.error_code)) for each in answer.topics[0].partitions]
        return f"answered (partition, error): {codes}"


def ask(address: str, step: Step) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        connection.request(step.method, step.path, step.body)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
    finally:
        connection.close()


def comparable(value: Any) -> Any:
    """Return a JSON value without what differs from run to run."""
    match value:
        case dict():
            return {name: comparable(each) for name, each in value.items()}
        case list():
            return [comparable(each) for each in value]
        case str() if re.fullmatch(r"[0-9a-f]{32}", value):
            return "topic ID"
        case str() if value.startswith("bar-"):
            return "member ID"
        case str() if re.fullmatch(r"/?127\.0\.0\.1(:\d+)?", value):
            return "address"
        case int() if value > 1023:
            return "port"
        case _:
            return value


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(FakeOptions(ports=[0], topics={"seeded": 1, TOPIC: 2})) as running:
        yield running


@pytest.fixture
def control(cluster: FakeCluster) -> Iterator[str]:
    server = ControlServer(cluster, "127.0.0.1", 0)
    server.start()
    yield server.address
    server.stop()


@pytest.mark.parametrize("name", ["calls.txt", "faults.txt"])
async def test_the_answers_are_those_of_kcl(cluster: FakeCluster, control: str, name: str) -> None:
    client = Client(cluster.addresses[0])
    for step in read_steps(name):
        where = f"{name}:{step.line}"
        if step.method == ">":
            assert await client.act(step.path) == step.answer, where
            continue
        asked = asyncio.create_task(asyncio.to_thread(ask, control, step))
        if step.meanwhile is not None:
            await client.act(step.meanwhile)
        status, content_type, answer = await asked
        assert (status, content_type) == (step.status, step.content_type), f"{where}: {answer}"
        if content_type != "application/json":
            assert answer.strip() == step.answer, where
        elif step.path == "/call/CoordinatorFor":
            assert type(json.loads(answer)["result"]) is int, where
        else:
            assert comparable(json.loads(answer)) == comparable(json.loads(step.answer)), where
