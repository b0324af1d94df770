"""The language of the transcripts: commands of named clients to one coordinator, and what they hear.

A client is known by its name: `join a` sends what client `a` would, with the member id and generation that it was
last told. Options override that: `gen=3`, `member=x`, `v=2` (the request's version). Each method `_do_...` below is a
command and says how it is written; a transcript begins with the rule that it shows.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Hashable, Iterator, Set
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from kohort.coordinator import Effects, GroupConfig, GroupSettings, MigrationPolicy
from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.wire.codec import Message, encode
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
    encode_assignment,
)
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.shell import Shell
from tests.scenarios import consumer_hearing, hearing
from tests.scenarios.consumer_commands import ConsumerCommands, Topics

_UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATIONS = {
    "initial-delay": "initial_rebalance_delay_ms",
    "retention": "offsets_retention_ms",
    "check-interval": "offsets_retention_check_interval_ms",
}

_NUMBERS = {
    "max-size": "max_size",
    "consumer-max-size": "consumer_max_size",
    "max-pending": "max_pending_members",
    "max-metadata": "offset_metadata_max_bytes",
    "max-subscription": "max_subscription_bytes",
}


def milliseconds(text: str) -> int:
    """`3s`, `500ms`, `7d`."""
    matched = re.fullmatch(r"(\d+)(ms|s|min|h|d)", text)
    assert matched, f"{text} is no duration"
    return int(matched[1]) * _UNITS[matched[2]]


def partition(text: str) -> TopicPartition:
    """`orders-3`."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


class Coordinator(Topics, Protocol):
    """Receiver of the requests: `Shell`, or a real broker."""

    @property
    def now(self) -> Millis: ...

    @property
    def waiting(self) -> Set[Hashable]: ...

    def handle(self, request: Message, token: Hashable, version: int, client_id: str = "") -> Effects: ...

    def wait(self, duration: Millis) -> Iterator[Effects]: ...

    def disconnect(self, token: Hashable) -> Effects: ...


@dataclass
class Client:
    """State of a client between its requests."""

    name: str
    member_id: str = ""
    generation: int = -1
    protocol: tuple[str, str] = ("consumer", "range")
    options: dict[str, str] = field(default_factory=dict)
    """What its last join said, so that the next says the same."""


class Conversation:
    """One transcript being played, to a shard or to a broker."""

    def __init__(self, coordinator: Coordinator | None = None) -> None:
        self._shell = Shell(settings=GroupSettings(assignment_interval_ms=0))
        self._coordinator = self.topics = coordinator or self._shell
        self._consumer = ConsumerCommands(self)
        self._clients: dict[str, Client] = {}
        self._tokens = count()

    def play(self, command: str) -> list[str]:
        """Run one command; return its output."""
        name, *words = shlex.split(command)
        if name == "lost:":
            return [*self._lost(" ".join(words))]
        options = dict(word.split("=", 1) for word in words if re.match(r"[a-z-]+=", word))
        targets = [word for word in words if not re.match(r"[a-z-]+=", word)]
        method: Callable[[list[str], dict[str, str]], Iterator[str]] = getattr(self, f"_do_{name.replace('-', '_')}")
        return list(method(targets, options))

    def _lost(self, command: str) -> Iterator[str]:
        """`lost: join b`: the records of that command are not appended, so the broker loads the log again."""
        self._shell.log_is_broken = True
        self.play(command)
        return self._do_failover([], {})

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    def send(self, client: str, request: Message, version: int) -> Iterator[str]:
        """Send a client's request; return the output."""
        token = (client, type(request).__name__.removesuffix("Request"), next(self._tokens))
        yield from self.heard(self._coordinator.handle(request, token, version, client))
        if token in self._coordinator.waiting:
            yield f"{client} waits"

    # Commands that set the scene

    def _do_config(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`config initial-delay=3s migration=disabled ...`: begin anew with these settings, on the same log."""
        policy = MigrationPolicy(options.pop("migration", "bidirectional"))
        settings = {_DURATIONS[key]: milliseconds(value) for key, value in options.items() if key in _DURATIONS}
        settings |= {_NUMBERS[key]: int(value) for key, value in options.items() if key in _NUMBERS}
        assert len(settings) == len(options), options
        self._shell.config = GroupConfig(**settings, consumer_migration_policy=policy)
        return self._do_failover(targets, {})

    def _do_settings(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`settings session=45s heartbeat=5s interval=1s assignor=range`: of every consumer group, from now on."""
        self._shell.settings = GroupSettings(
            session_timeout_ms=milliseconds(options.get("session", "45s")),
            heartbeat_interval_ms=milliseconds(options.get("heartbeat", "5s")),
            assignment_interval_ms=milliseconds(options.get("interval", "0ms")),
            assignor=options.get("assignor"),
        )
        shard = self._shell.shard
        yield from self.heard(self._shell.apply(shard.settings_changed(list(shard.consumer_groups), self._shell.now)))

    def _do_failover(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`failover`: another broker loads the log."""
        yield from self.heard(self._shell.fail_over())
        yield from self._states()

    def _do_wait(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`wait 3s`: virtual time."""
        start = self._coordinator.now
        for effects in self._coordinator.wait(milliseconds(targets[0])):
            heard = list(self.heard(effects))
            if heard:
                yield f"after {(self._coordinator.now - start) / 1000:g}s:"
                yield from (f"  {line}" for line in heard)

    def _do_disconnect(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`disconnect a`: the connection of what `a` waits for breaks."""
        waiting = self._coordinator.waiting
        for token in [token for token in waiting if isinstance(token, tuple) and token[0] == targets[0]]:
            yield from self.heard(self._coordinator.disconnect(token))

    def _do_forget(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`forget a`: the client's process restarts: it knows neither its member id nor its generation."""
        for name in targets:
            client = self._client(name)
            client.member_id, client.generation = "", -1
        yield from ()

    def _do_delete_topic(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`delete-topic orders`: the broker has deleted these topics."""
        yield from self.heard(self._shell.apply(self._shell.shard.topics_deleted(targets, self._shell.now)))

    def _do_state(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`state`: every group."""
        yield from self._states()

    # Consumer groups (KIP-848): see consumer_commands

    def _do_topics(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        return self._consumer.topics(targets, options)

    def _do_unseen(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`unseen topics orders=1`: topics change while the coordinator is down; `failover` follows."""
        self._shell.is_down = True
        yield from self._consumer.topics([word for word in targets if word != "topics"], options)
        self._shell.is_down = False

    def _do_beat(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        return self._consumer.beat(targets, options)

    def _do_quit(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        for name in targets:
            yield from self._consumer.leave(name, -1, options)

    def _do_pause(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        for name in targets:
            yield from self._consumer.leave(name, -2, options)

    def _do_restart(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        return self._consumer.restart(targets)

    def _do_describe_consumer(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        return self._consumer.describe(targets)

    # Requests

    def _do_join(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`join a b topics=orders protocols=range owned=orders-0 instance=i session=10s rebalance=60s v=9`."""
        for name in targets:
            client = self._client(name)
            client.options |= options
            said = client.options
            request = JoinGroupRequest(
                group_id=said.get("group", "g"),
                session_timeout_ms=milliseconds(said.get("session", "10s")),
                rebalance_timeout_ms=milliseconds(said.get("rebalance", "60s")),
                member_id=said.pop("member", client.member_id),
                group_instance_id=said.get("instance"),
                protocol_type=said.get("type", "consumer"),
                protocols=list(_protocols(said)),
                reason=said.pop("reason", None),
            )
            yield from self.send(name, request, int(said.get("v", "9")))

    def _do_sync(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`sync a a:orders-0,orders-1 b:orders-2`: the first named is who sends; shares make it the leader's."""
        name, *shares = targets
        client = self._client(name)
        assignments = []
        for share in shares:
            member, _, partitions = share.partition(":")
            owned = [partition(word) for word in partitions.split(",") if word]
            member_id = self._client(member).member_id if member in self._clients else member
            assignments.append(
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(Assignment(owned)))
            )
        request = SyncGroupRequest(
            group_id=options.get("group", client.options.get("group", "g")),
            generation_id=int(options.get("gen", client.generation)),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance", client.options.get("instance")),
            protocol_type=None if options.get("type") == "" else options.get("type", client.protocol[0]),
            protocol_name=None if options.get("protocol") == "" else options.get("protocol", client.protocol[1]),
            assignments=assignments,
        )
        yield from self.send(name, request, int(options.get("v", "5")))

    def _do_heartbeat(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`heartbeat a b`."""
        for name in targets:
            client = self._client(name)
            request = HeartbeatRequest(
                group_id=options.get("group", client.options.get("group", "g")),
                generation_id=int(options.get("gen", client.generation)),
                member_id=options.get("member", client.member_id),
                group_instance_id=options.get("instance", client.options.get("instance")),
            )
            yield from self.send(name, request, 4)

    def _do_leave(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`leave a b reason="..."`: in one batch; `leave admin instance=i` as an admin does."""
        version = int(options.get("v", "5"))
        group_id = options.get("group", "g")
        if "instance" in options and targets == ["admin"]:
            identities = [MemberIdentity(group_instance_id=options["instance"], reason=options.get("reason"))]
        else:
            identities = [
                MemberIdentity(
                    member_id=options.get("member", self._client(name).member_id),
                    group_instance_id=options.get("instance"),
                    reason=options.get("reason"),
                )
                for name in targets
            ]
        if version < 3:
            request = LeaveGroupRequest(group_id=group_id, member_id=identities[0].member_id)
        else:
            request = LeaveGroupRequest(group_id=group_id, members=identities)
        yield from self.send(targets[0], request, version)

    def _do_commit(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`commit a orders-0=5 metadata=x`: as member, or with `gen=-1 member=` as a simple consumer."""
        name = targets[0]
        client = self._client(name)
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for word in targets[1:]:
            place, _, offset = word.partition("=")
            topic, number = partition(place)
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=int(offset),
                    committed_metadata=options.get("metadata", ""),
                    committed_leader_epoch=int(options.get("epoch", "-1")),
                )
            )
        topic_id = UUID(int=int(options["topic-id"])) if "topic-id" in options else NO_TOPIC_ID
        request = OffsetCommitRequest(
            group_id=options.get("group", client.options.get("group", "g")),
            generation_id_or_member_epoch=int(options.get("gen", client.generation)),
            member_id=options.get("member", client.member_id),
            group_instance_id=options.get("instance", client.options.get("instance")),
            retention_time_ms=milliseconds(options.get("retention", "0ms")) or int(options.get("retention-ms", "-1")),
            topics=[OffsetCommitRequestTopic(name=t, topic_id=topic_id, partitions=p) for t, p in topics.items()],
        )
        yield from self.send(name, request, _version(options))

    def _do_fetch(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`fetch orders-0 orders-1` or `fetch all`; `as=a epoch=2` as a member of a consumer group."""
        version = _version(options)
        group_id = options.get("group", "g")
        wanted: dict[str, list[int]] = {}
        for topic, number in (partition(target) for target in targets if target != "all"):
            wanted.setdefault(topic, []).append(number)
        if version >= 8:
            topic_id = UUID(int=int(options["topic-id"])) if "topic-id" in options else NO_TOPIC_ID
            topics = [
                OffsetFetchRequestTopics(name=t, topic_id=topic_id, partition_indexes=p) for t, p in wanted.items()
            ]
            group = OffsetFetchRequestGroup(group_id=group_id, topics=None if targets == ["all"] else topics)
            if "as" in options:
                group.member_id = options["as"]
                group.member_epoch = self._client(options["as"]).generation
            if "epoch" in options:
                group.member_epoch = int(options["epoch"])
            request = OffsetFetchRequest(groups=[group])
        else:
            old = [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in wanted.items()]
            request = OffsetFetchRequest(group_id=group_id, topics=None if targets == ["all"] else old)
        yield from self.send("admin", request, version)

    def _do_describe(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`describe g`."""
        yield from self.send("admin", DescribeGroupsRequest(groups=targets), int(options.get("v", "6")))

    def _do_list(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`list states=stable types=classic`."""
        request = ListGroupsRequest(
            states_filter=options["states"].split(",") if "states" in options else [],
            types_filter=options["types"].split(",") if "types" in options else [],
        )
        yield from self.send("admin", request, 5)

    def _do_delete(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`delete g`."""
        yield from self.send("admin", DeleteGroupsRequest(groups_names=targets), 2)

    def _do_delete_offsets(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`delete-offsets orders-0`."""
        topics = [
            OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p)])
            for t, p in map(partition, targets)
        ]
        yield from self.send("admin", OffsetDeleteRequest(group_id=options.get("group", "g"), topics=topics), 0)

    # Output

    def heard(self, effects: Effects) -> Iterator[str]:
        """Return the events, records and responses."""
        names = self.topics.names
        yield from (f"event: {hearing.event(event)}" for event in effects.events)
        yield from hearing.written(effects)
        yield from consumer_hearing.written(effects, names)
        for token, response in effects.replies.items():
            assert isinstance(token, tuple)
            self._remember(self._client(token[0]), response)
            self._consumer.remember(token, response)
            lines = consumer_hearing.reply(response, names) or hearing.reply(response)
            yield from (f"{token[0]} {line}" for line in lines)

    def _remember(self, client: Client, response: Message) -> None:
        if isinstance(response, JoinGroupResponse):
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                client.member_id = response.member_id
            if response.error_code == ErrorCode.NONE:
                client.generation = response.generation_id
                client.protocol = (
                    response.protocol_type or client.options.get("type", "consumer"),
                    response.protocol_name or "",
                )

        if isinstance(response, ConsumerGroupHeartbeatResponse) and response.error_code == ErrorCode.NONE:
            client.member_id, client.generation = response.member_id or "", response.member_epoch

    def _states(self) -> Iterator[str]:
        groups = self._shell.shard.groups.values()
        consumer_groups = self._shell.shard.consumer_groups.values()
        yield from (hearing.state(group) for group in groups)
        yield from (consumer_hearing.state(group, self.topics.names) for group in consumer_groups)
        if not groups and not consumer_groups:
            yield "no groups"


def _version(options: dict[str, str]) -> int:
    """Topic ids are in version 10 of OffsetCommit and OffsetFetch."""
    return int(options.get("v", "10" if "topic-id" in options else "9"))


def _protocols(said: dict[str, str]) -> Iterator[JoinGroupRequestProtocol]:
    metadata = bytes.fromhex(said["raw"]) if "raw" in said else _subscription(said)
    for name in said.get("protocols", "range").split(","):
        if name:
            yield JoinGroupRequestProtocol(name=name, metadata=metadata)


def _subscription(said: dict[str, str]) -> bytes:
    owned = [partition(word) for word in said.get("owned", "").split(",") if word]
    topics = [topic for topic in said.get("topics", "orders").split(",") if topic]
    # Not by encode_subscription, which sorts: some clients do not.
    body = ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=[
            ConsumerProtocolPartitions(topic=topic, partitions=[number for name, number in owned if name == topic])
            for topic in dict.fromkeys(name for name, _ in owned)
        ],
    )
    return b"\0\3" + encode(body, 3)
