"""Thousands of classic members on a few connections, in lockstep: all send, then all receive."""

from __future__ import annotations

import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kohort.errors import ErrorCode
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
"""The versions that are spoken."""

PATIENCE_S = 60.0
_HEARTBEAT_ANSWER = 16
"""Bytes: size, correlation id, tags, throttle time, error code, tags."""

SUBSCRIPTION = encode_subscription(Subscription(["orders"]), 1)

Answer = TypeVar("Answer", bound=Message)


class Line:
    """A connection whose requests are all sent before the first answer is read."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._stream = self._socket.makefile("rb")

    def send(self, frames: bytes) -> None:
        """Requests, each with its size."""
        self._socket.sendall(frames)

    def receive(self, kind: type[Answer], version: int) -> Answer:
        """The next answer."""
        (size,) = struct.unpack(">i", self._stream.read(4))
        data = self._stream.read(size)
        _, position = read_response_header(data, kind.KEY, version)
        return decode(kind, version, data[position:])

    def drain(self) -> int:
        """Read what is there, and pass it by; how many bytes that was."""
        size = 0
        self._socket.setblocking(False)
        try:
            while found := self._socket.recv(1 << 16):
                size += len(found)
        except BlockingIOError:
            pass
        self._socket.settimeout(PATIENCE_S)
        return size

    def ask(self, request: Message, version: int, kind: type[Answer]) -> Answer:
        """One request and its answer."""
        self.send(framed(request, version))
        return self.receive(kind, version)

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._socket.close()


def framed(request: Message, version: int) -> bytes:
    """Return the encoded request."""
    body = request_header(request.KEY, version, 0, "crowd") + encode(request, version)
    return struct.pack(">i", len(body)) + body


class Crowd:
    """Members by their number; each belongs to a group and speaks over one of the lines."""

    def __init__(self, bootstrap: str, groups: Sequence[str], *, lines: int = 50, session_ms: int = 300_000) -> None:
        """One member for each entry of `groups`."""
        self.groups = groups
        self.ids = [""] * len(groups)
        self.generations = [-1] * len(groups)
        self.shares = [b""] * len(groups)
        """What each was assigned last."""
        self._session_ms = session_ms
        self._lines = [Line(bootstrap) for _ in range(lines)]

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up, without a word to any group."""
        for line in self._lines:
            line.close()

    def take_ids(self) -> None:
        """The first half of joining (KIP-394)."""
        for number, told in self._ask(map(self.join_request, self._everybody), JOIN, JoinGroupResponse).items():
            assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED, told
            self.ids[number] = told.member_id

    def join(self) -> Mapping[int, Sequence[str]]:
        """Everybody joins, or joins again. The leaders, and the ids of those they have to assign to."""
        leaders = {}
        for number, told in self._ask(map(self.join_request, self._everybody), JOIN, JoinGroupResponse).items():
            assert told.error_code == ErrorCode.NONE, told
            self.generations[number] = told.generation_id
            if told.leader == told.member_id:
                leaders[number] = [member.member_id for member in told.members]
        return leaders

    def sync(self, leaders: Mapping[int, Sequence[str]]) -> None:
        """The leaders assign to each member a share of its own, and everybody fetches it."""
        requests = (self._sync_request(number, leaders.get(number, ())) for number in self._everybody)
        for number, told in self._ask(requests, SYNC, SyncGroupResponse).items():
            assert told.error_code == ErrorCode.NONE, told
            self.shares[number] = told.assignment

    def beat(self) -> set[int]:
        """Everybody's heartbeat; the codes that were answered."""
        requests = (
            HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
            for group, generation, member_id in zip(self.groups, self.generations, self.ids, strict=True)
        )
        return {told.error_code for told in self._ask(requests, HEARTBEAT, HeartbeatResponse).values()}

    def send(self, number: int, frame: bytes) -> None:
        """A member sends something, and does not wait for its answer."""
        self._lines[number % len(self._lines)].send(frame)

    def drain(self) -> int:
        """Pass by the answers that are there, all of one size; how many there were."""
        return sum(line.drain() for line in self._lines) // _HEARTBEAT_ANSWER

    def leave(self) -> None:
        """All members of a group at once (KIP-345)."""
        by_group: dict[str, list[MemberIdentity]] = defaultdict(list)
        for group, member_id in zip(self.groups, self.ids, strict=True):
            by_group[group].append(MemberIdentity(member_id=member_id))
        for group, members in by_group.items():
            told = self._lines[0].ask(LeaveGroupRequest(group_id=group, members=members), LEAVE, LeaveGroupResponse)
            assert {told.error_code, *(member.error_code for member in told.members)} == {ErrorCode.NONE}

    def join_request(self, number: int) -> JoinGroupRequest:
        """What a member sends to join."""
        return JoinGroupRequest(
            group_id=self.groups[number],
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._session_ms,
            member_id=self.ids[number],
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )

    @property
    def _everybody(self) -> range:
        return range(len(self.groups))

    def _sync_request(self, number: int, members: Sequence[str]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.groups[number],
            generation_id=self.generations[number],
            member_id=self.ids[number],
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=share_of(member_id)) for member_id in members
            ],
        )

    def _ask(self, requests: Iterable[Message], version: int, kind: type[Answer]) -> Mapping[int, Answer]:
        """One request of each member, in order; the answers by member."""
        frames: list[list[bytes]] = [[] for _ in self._lines]
        for number, request in enumerate(requests):
            assert APIS[request.KEY].response is kind
            frames[number % len(frames)].append(framed(request, version))
        for line, its in zip(self._lines, frames, strict=True):
            line.send(b"".join(its))
        return {
            number: line.receive(kind, version)
            for place, line in enumerate(self._lines)
            for number in range(place, len(self.groups), len(self._lines))
        }


def share_of(member_id: str) -> bytes:
    """An assignment that tells its member from all others."""
    return b"share of " + member_id.encode()
