"""Clients that do what a test says, and nothing else: no thread, no retry, no opinion.

`Member` speaks the classic protocol of groups, `ConsumerMember` that of KIP-848. With them a test repeats what a
client sent, request by request, without that client. Copy this file if your tests need the same.
"""

import socket
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.testing import Group, Topic, Workspace
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.batches import Record, batches, decode_records
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_START = -2
_PATIENCE_S = 30.0


class Client:
    """One connection, which reads a topic and commits for a group."""

    def __init__(self, kohort: Workspace, client_id: str, *topics: Topic, group: Group | None = None) -> None:
        self.client_id = client_id
        self.topics = topics
        self.group = kohort.group() if group is None else group
        self.member_id = ""
        self.generation = -1
        """Generation or member epoch."""
        self.assigned: set[int] = set()
        """Partitions of the first topic."""
        host, _, port = kohort.bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), _PATIENCE_S)
        self._asked: list[tuple[int, int]] = []
        self.describe()

    def close(self) -> None:
        """Close the connection without a word, as a process does that is killed."""
        self._socket.close()

    def send(self, request: Message, version: int) -> None:
        """Send a request; `receive` returns its answer."""
        head = request_header(request.KEY, version, len(self._asked), self.client_id)
        frame = head + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        self._asked.append((request.KEY, version))

    def receive(self) -> Any:
        """Return the answer to the first request that has none yet."""
        key, version = self._asked.pop(0)
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        _, position = read_response_header(frame, key, version)
        return decode(APIS[key].response, version, frame[position:])

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return data

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and return its answer."""
        self.send(request, version)
        return self.receive()

    # Records and offsets

    def describe(self) -> None:
        """Ask for the partitions of the topics."""
        self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in self.topics]), 12)

    def read(self, partition: int, offset: int, *, wait_ms: int = 0) -> list[Record]:
        """Return the records from an offset on, as far as one answer has them."""
        part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self.topics[0], partitions=[part])
        answer = self.ask(FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[topic]), 12)
        data: bytes = (answer.responses[0].partitions[0].records or b"") if answer.responses else b""
        records = [record for at, _ in batches(data) for record in decode_records(data, at)]
        return [record for record in records if record.offset >= offset]

    def fetch(self, partition: int, offset: int, *, wait_ms: int = 0) -> int:
        """Read once from an offset, and return the next one."""
        records = self.read(partition, offset, wait_ms=wait_ms)
        return records[-1].offset + 1 if records else offset

    def first_offset(self, partition: int) -> int:
        """Return the offset at which the log begins."""
        part = ListOffsetsPartition(partition_index=partition, timestamp=_START)
        answer = self.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.topics[0], partitions=[part])]), 6)
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    def commit(self, partition: int, offset: int) -> ErrorCode:
        """Commit an offset, and return the error code of the answer."""
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=self.topics[0], partitions=[part])],
        )
        return ErrorCode(self.ask(request, 9).topics[0].partitions[0].error_code)

    def committed(self, partition: int) -> tuple[int, ErrorCode]:
        """Return the committed offset, which is -1 if there is none, and the error code."""
        group = OffsetFetchRequestGroup(
            group_id=self.group,
            topics=[OffsetFetchRequestTopics(name=self.topics[0], partition_indexes=[partition])],
        )
        if isinstance(self, ConsumerMember):
            group.member_id, group.member_epoch = self.member_id, self.generation
        answer = self.ask(OffsetFetchRequest(groups=[group]), 9).groups[0]
        if answer.error_code:
            return -1, ErrorCode(answer.error_code)
        part = answer.topics[0].partitions[0]
        return part.committed_offset, ErrorCode(part.error_code)


class Member(Client):
    """A member of a classic group."""

    def __init__(
        self,
        kohort: Workspace,
        client_id: str,
        *topics: Topic,
        group: Group | None = None,
        instance_id: str | None = None,
        timeout_ms: int = 30_000,
        assignor: str = "range",
    ) -> None:
        """`timeout_ms` is both the session timeout and the rebalance timeout."""
        super().__init__(kohort, client_id, *topics, group=group)
        self.instance_id = instance_id
        self.timeout_ms = timeout_ms
        self.assignor = assignor
        self.is_leader = False
        self.owned: tuple[int, Sequence[int]] = (-1, ())
        """Generation and partitions that a cooperative member reports to own when it joins."""

    def join(self) -> None:
        """Begin to join; `joined` ends it, as soon as all other members have joined."""
        if not self.member_id and self.instance_id is None:
            self.member_id = self.ask(self._join_request(), 7).member_id  # KIP-394: the first answer has only the ID
        self.send(self._join_request(), 7)

    def ask_for_an_id(self) -> str:
        """Send a JoinGroup without member ID, and return the ID in its answer without using it."""
        member_id, self.member_id = self.member_id, ""
        answer = self.ask(self._join_request(), 7)
        self.member_id = member_id
        handed: str = answer.member_id
        return handed

    def _join_request(self) -> JoinGroupRequest:
        generation, owned = self.owned
        subscription = ConsumerProtocolSubscription(
            topics=list(self.topics),
            owned_partitions=[ConsumerProtocolPartitions(topic=self.topics[0], partitions=list(owned))],
            generation_id=generation,
        )
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.timeout_ms,
            rebalance_timeout_ms=self.timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.assignor, metadata=b"\0\2" + encode(subscription, 2))],
        )

    def joined(self) -> ErrorCode:
        """Take the answer to JoinGroup: the generation, and whether this member is the leader."""
        answer = self.receive()
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.is_leader = answer.leader == answer.member_id
        return ErrorCode(answer.error_code)

    def sync(self, plan: "Plan | None" = None) -> None:
        """Begin to ask for the assignment; the leader sends the plan."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=_encoded(member, partitions))
                for member, partitions in (plan or {}).items()
            ],
        )
        self.send(request, 3)

    def synced(self) -> ErrorCode:
        """Take the answer to SyncGroup: the assignment."""
        answer = self.receive()
        if not answer.error_code:
            assigned = decode_assignment(answer.assignment).partitions
            self.assigned = {number for topic, number in assigned if topic == self.topics[0]}
        return ErrorCode(answer.error_code)

    def heartbeat(self) -> ErrorCode:
        """Send a heartbeat, and return the error code of the answer."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode(self.ask(request, 3).error_code)

    def leave(self) -> None:
        """Leave the group. The member ID and generation stay as they are: to forget them is the test's business."""
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.ask(LeaveGroupRequest(group_id=self.group, members=[identity]), 3)


Plan = Mapping[Member, Collection[int | tuple[Topic, int]]]
"""Partitions of each member: of its first topic, if only their numbers are given."""


def _encoded(member: Member, partitions: Collection[int | tuple[Topic, int]]) -> bytes:
    places = [(member.topics[0], each) if isinstance(each, int) else each for each in partitions]
    return encode_assignment(Assignment([TopicPartition(*place) for place in places]))


def rebalance(plan: Plan) -> None:
    """Let these members, and no others, be in the group, with these partitions.

    Each new member causes a rebalance. Without one, the leader does.
    """
    inside = [member for member in plan if member.generation >= 0]
    outside = [member for member in plan if member.generation < 0]
    for newcomers in [[member] for member in outside] or [[]]:
        inside = newcomers + sorted(inside, key=lambda member: not member.is_leader)
        inside[0].join()
        if len(inside) > 1:  # the others are on other connections, and must not come first
            inside[0].group.wait(state="PreparingRebalance")
        for member in inside[1:]:
            member.join()
        for member in inside:
            assert not member.joined()
        for member in inside:
            member.sync({each: plan[each] for each in inside} if member.is_leader else None)
        for member in inside:
            assert not member.synced()


class ConsumerMember(Client):
    """A member of a consumer group (KIP-848). `generation` is its epoch, and 0 if it shall join."""

    def __init__(
        self, kohort: Workspace, client_id: str, *topics: Topic, group: Group | None = None, timeout_ms: int = 30_000
    ) -> None:
        """`timeout_ms` is the rebalance timeout; the broker decides on the session timeout."""
        super().__init__(kohort, client_id, *topics, group=group)
        self.member_id = str(uuid4())
        self.generation = 0
        self.timeout_ms = timeout_ms

    def heartbeat(self, owned: Collection[int] | None = None) -> ErrorCode:
        """Send a heartbeat, which reports the partitions that are given; take the epoch and assignment answered."""
        joins = self.generation == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=self.timeout_ms if joins else -1,
            subscribed_topic_names=list(self.topics) if joins else None,
            topic_partitions=[] if joins else None if owned is None else self._by_id(sorted(owned)),
        )
        answer = self.ask(request, 1)
        if not answer.error_code:
            self.generation = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {n for topic in answer.assignment.topic_partitions for n in topic.partitions}
        return ErrorCode(answer.error_code)

    def settle(self) -> None:
        """Report what this member has until the coordinator has nothing new to say."""
        before = None
        while before != (self.generation, self.assigned):
            before = self.generation, self.assigned
            assert not self.heartbeat(None if self.generation == 0 else self.assigned)

    def leave(self) -> None:
        """Leave the group. The epoch stays as it is: to forget it is the test's business."""
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1)
        self.ask(request, 1)

    def _by_id(self, numbers: Sequence[int]) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self.topics[0].topic_id, partitions=list(numbers))] if numbers else []
