"""A broker behind a socket that takes a transcript's requests, each on a connection of its own.

Time is real, and a busy machine makes answers late. So it is told who waits for an answer after each step, as found in
a rehearsal with the pure coordinator: it goes on when nobody else waits any more, and not after some time.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Set
from typing import Any

from kohort.coordinator import Effects
from kohort.model import UUID, Millis
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.list_groups import ListGroupsResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.shell import Shell

PARKED_AFTER = 0.15
"""Seconds without an answer after which a request counts as parked."""
ANSWERED_WITHIN = 30.0
"""Seconds for which an answer is awaited that must come: the machine may be busy."""
QUIET_AFTER = 0.05
"""Seconds for which answers are awaited that must not come."""
_PUNCTUAL = 0.1
"""Seconds that a step may take beyond what is planned for it."""


class Rehearsal(Shell):
    """The pure coordinator, in virtual time, which writes down who waits after each step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.still_waiting: deque[frozenset[Hashable]] = deque()

    def handle(self, *args: Any, **kwargs: Any) -> Effects:
        return self._noted(super().handle(*args, **kwargs))

    def disconnect(self, token: Hashable) -> Effects:
        return self._noted(super().disconnect(token))

    def wait(self, duration: Millis) -> Iterator[Effects]:
        yield from super().wait(duration)
        self._noted(Effects())

    def set_topics(self, topics: Mapping[str, int]) -> Effects:
        return self._noted(super().set_topics(topics))

    def _noted(self, effects: Effects) -> Effects:
        self.still_waiting.append(frozenset(self.waiting))
        return effects


class WireCoordinator:
    """Its groups are kept apart from those of other transcripts by a prefix, and its time is real."""

    def __init__(self, bootstrap: str, prefix: str, rehearsal: Rehearsal | None = None) -> None:
        """Each step is rehearsed before it is taken here; without a rehearsal answers are awaited for a moment."""
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._prefix = f"{prefix}."
        self._open: dict[Hashable, tuple[socket.socket, Message, int, bytes]] = {}
        self._topics: dict[str, tuple[UUID, int]] = {}
        """Id and partitions of the topics that this transcript made for itself, under its prefix."""
        self._names: dict[UUID, str] = {}
        self._rehearsal = rehearsal
        self._overdue: set[Hashable] = set()
        """Who was awaited in vain."""
        self.late_s = 0.0
        """How much longer all steps took than planned: the transcript is no longer what is played if it is much."""

    @property
    def now(self) -> Millis:
        return int(time.monotonic() * 1_000)

    @property
    def waiting(self) -> Set[Hashable]:
        return self._open.keys()

    # Topics

    @property
    def names(self) -> Mapping[UUID, str]:
        """The names of the transcript's topics, by id, be it that they are gone."""
        return self._names

    def topic_id(self, name: str) -> UUID:
        """The id of a topic of the transcript's own."""
        return self._topics[name][0]

    def set_topics(self, topics: Mapping[str, int]) -> Effects:
        """Set topics of these names with partition counts, under the prefix; wait until the broker reports them."""
        for name in [name for name in self._topics if name not in topics]:
            self._delete(name)
        for name, partitions in topics.items():
            if name not in self._topics:
                self._create(name, partitions)
            elif self._topics[name][1] != partitions:
                self._grow(name, partitions)
        return self._settled(0.0)

    def _create(self, name: str, partitions: int) -> None:
        topic = CreatableTopic(name=self._prefix + name, num_partitions=partitions, replication_factor=1)
        answer = self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert isinstance(answer, CreateTopicsResponse) and answer.topics[0].error_code == 0, answer
        self._topics[name] = answer.topics[0].topic_id, partitions
        self._names[answer.topics[0].topic_id] = name
        self._await(name, partitions)

    def _grow(self, name: str, partitions: int) -> None:
        topic = CreatePartitionsTopic(name=self._prefix + name, count=partitions, assignments=None)
        self._ask(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000), 3)
        self._topics[name] = self._topics[name][0], partitions
        self._await(name, partitions)

    def _delete(self, name: str) -> None:
        self._ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=self._prefix + name)], timeout_ms=10_000), 6)
        del self._topics[name]
        self._await(name, 0)

    def _await(self, name: str, partitions: int) -> None:
        """Wait until the group coordinator knows it: Kafka's hears of topics later than whoever asks for metadata.

        The answer of a member that joins says what it knows; its group is not the transcript's.
        """
        join = ConsumerGroupHeartbeatRequest(
            group_id=f"{self._prefix}topics",
            member_id="topics",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=[self._prefix + name],
            topic_partitions=[],
        )
        for _ in range(500):
            answer = self._ask(join, 1)
            assert isinstance(answer, ConsumerGroupHeartbeatResponse)
            given = answer.assignment.topic_partitions if answer.assignment is not None else []
            if answer.error_code == 0 and sum(len(topic.partitions) for topic in given) == partitions:
                join.member_epoch = -1
                self._ask(join, 1)
                return
            self._collect(0.02)
        raise AssertionError("the broker's topics do not change")

    def _ask(self, request: Message, version: int) -> Message:
        token = f"setup of {self._prefix}"
        self._send(request, token, version, "setup")
        return self._collect(ANSWERED_WITHIN, until={token}).replies[token]

    # Requests

    def handle(self, request: Message, token: Hashable, version: int, client_id: str = "") -> Effects:
        """Send a request; return all responses until no more arrive."""
        self._mark(request)
        self._send(request, token, version, client_id)
        if self._rehearsal is not None:
            return self._settled(PARKED_AFTER if token in self._rehearsal.still_waiting[0] else 0.0)
        may_park = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        out = self._collect(PARKED_AFTER if may_park else ANSWERED_WITHIN, until={token})
        out.replies.update(self._collect(QUIET_AFTER).replies)
        return out

    def _settled(self, planned: float) -> Effects:
        """What is answered in so many seconds, and then until nobody waits but who should.

        Nothing is spent that need not be: what a step takes is missing from what a transcript waits for.
        """
        assert self._rehearsal is not None
        still_waiting = self._rehearsal.still_waiting.popleft()
        began = time.monotonic()
        out = self._collect(planned)
        missing = self._open.keys() - still_waiting - self._overdue
        out.replies.update(self._collect(ANSWERED_WITHIN, until=missing).replies)
        if missing <= out.replies.keys():
            self.late_s += max(0.0, time.monotonic() - began - planned - _PUNCTUAL)
        else:
            self._overdue |= missing  # that is no lateness, but another transcript
        if not planned:
            out.replies.update(self._collect(QUIET_AFTER).replies)
        return out

    def _send(self, request: Message, token: Hashable, version: int, client_id: str) -> None:
        body = request_header(request.KEY, version, 1, client_id) + encode(request, version)
        connection = socket.create_connection(self._address)
        connection.sendall(struct.pack(">i", len(body)) + body)
        self._open[token] = connection, request, version, b""

    def wait(self, duration: Millis) -> Iterator[Effects]:
        """Let real time pass."""
        planned = duration / 1_000 + 2 * QUIET_AFTER
        yield self._collect(planned) if self._rehearsal is None else self._settled(planned)

    def disconnect(self, token: Hashable) -> Effects:
        """Break a connection."""
        self._open.pop(token)[0].close()
        return self._settled(0.0)

    def close(self) -> None:
        """Break all connections."""
        for connection, *_ in self._open.values():
            connection.close()
        self._open.clear()

    def _collect(self, timeout: float, until: Set[Hashable] | None = None) -> Effects:
        """Return the responses within that many seconds, or until all of these have arrived."""
        out = Effects()
        end = time.monotonic() + timeout
        while (until is None or not until <= out.replies.keys()) and (left := end - time.monotonic()) > 0:
            tokens = {request[0].fileno(): token for token, request in self._open.items()}
            readable = select.poll()
            for number in tokens:
                readable.register(number, select.POLLIN)
            for number, _ in readable.poll(left * 1000):
                self._read(tokens[number], out)
        return out

    def _read(self, token: Hashable, out: Effects) -> None:
        connection, request, version, data = self._open[token]
        chunk = connection.recv(65_536)
        if not chunk:
            raise ConnectionError(f"the broker closed the connection of {request}")
        data += chunk
        if len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            self._open[token] = connection, request, version, data
            return
        self._open.pop(token)[0].close()
        _, position = read_response_header(data[4:], request.KEY, version)
        response = decode(APIS[request.KEY].response, version, data[4 + position :])
        self._unmark(response)
        out.replies[token] = response

    def _mark(self, request: Message) -> None:
        if isinstance(request, DescribeGroupsRequest):
            request.groups = [self._prefix + name for name in request.groups]
        elif isinstance(request, DeleteGroupsRequest):
            request.groups_names = [self._prefix + name for name in request.groups_names]
        elif isinstance(request, OffsetFetchRequest) and request.groups:
            for group in request.groups:
                group.group_id = self._prefix + group.group_id if group.group_id else ""
        elif isinstance(request, ConsumerGroupDescribeRequest):
            request.group_ids = [self._prefix + name for name in request.group_ids]
        elif getattr(request, "group_id", ""):
            request.group_id = self._prefix + request.group_id  # type: ignore[attr-defined]
        if self._topics or self._names:
            self._mark_topics(request)

    def _mark_topics(self, request: Message) -> None:
        match request:
            case ConsumerGroupHeartbeatRequest(subscribed_topic_names=names, subscribed_topic_regex=expression):
                if names is not None:
                    request.subscribed_topic_names = [self._prefix + name for name in names]
                if expression:
                    request.subscribed_topic_regex = f"{re.escape(self._prefix)}({expression})"
            case OffsetCommitRequest(topics=topics) | OffsetDeleteRequest(topics=topics):
                for topic in topics:
                    topic.name = self._prefix + topic.name
            case OffsetFetchRequest(groups=groups):
                for wanted in [topic for group in groups for topic in group.topics or ()]:
                    wanted.name = self._prefix + wanted.name

    def _unmark(self, response: Message) -> None:
        match response:
            case DescribeGroupsResponse(groups=groups):
                for group in groups:
                    group.group_id = group.group_id.removeprefix(self._prefix)
            case DeleteGroupsResponse(results=results):
                for result in results:
                    result.group_id = result.group_id.removeprefix(self._prefix)
            case ConsumerGroupDescribeResponse(groups=described):
                for found in described:
                    found.group_id = found.group_id.removeprefix(self._prefix)
                    for member in found.members:
                        self._unmark_member(member)
            case OffsetCommitResponse(topics=topics) | OffsetDeleteResponse(topics=topics):
                for topic in topics:
                    topic.name = topic.name.removeprefix(self._prefix)
            case OffsetFetchResponse(groups=fetched):
                for committed in [topic for group in fetched for topic in group.topics]:
                    committed.name = committed.name.removeprefix(self._prefix)
            case ListGroupsResponse():
                ours = [group for group in response.groups if group.group_id.startswith(self._prefix)]
                response.groups = [group for group in ours if group.group_id != f"{self._prefix}topics"]
                for listed in response.groups:
                    listed.group_id = listed.group_id.removeprefix(self._prefix)

    def _unmark_member(self, member: Member) -> None:
        member.subscribed_topic_names = [name.removeprefix(self._prefix) for name in member.subscribed_topic_names]
        if member.subscribed_topic_regex:
            member.subscribed_topic_regex = member.subscribed_topic_regex.removeprefix(re.escape(self._prefix))[1:-1]
        for share in (member.assignment, member.target_assignment):
            for topic in share.topic_partitions:
                topic.topic_name = topic.topic_name.removeprefix(self._prefix)
