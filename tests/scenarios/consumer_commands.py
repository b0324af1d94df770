"""The commands of transcripts about consumer groups (KIP-848).

A client is its member id from version 1 on, and remembers its member epoch, what it was given and what it last said it
subscribes to. `beat a` sends what a client would: everything when it joins, afterwards only what the command names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kohort.coordinator import Effects
from kohort.errors import ErrorCode
from kohort.model import UUID, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


class Topics(Protocol):
    """Topics of a transcript, which its commands change."""

    @property
    def names(self) -> Mapping[UUID, str]: ...

    def topic_id(self, name: str) -> UUID: ...

    def set_topics(self, topics: Mapping[str, int]) -> Effects: ...


class Sender(Protocol):
    """Methods of `Conversation` for its commands."""

    @property
    def topics(self) -> Topics: ...

    def send(self, client: str, request: Message, version: int) -> Iterator[str]: ...

    def heard(self, effects: Effects) -> Iterator[str]: ...


@dataclass
class Standing:
    """State of a member of a consumer group."""

    name: str
    member_id: str
    epoch: int = 0
    owned: list[TopicPartition] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    """Its options, so that it says the same when it joins again."""


class ConsumerCommands:
    """Commands that play members of consumer groups."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._members: dict[str, Standing] = {}

    def member(self, name: str) -> Standing:
        """The client of that name."""
        return self._members.setdefault(name, Standing(name, name))

    def topics(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`topics orders=4 payments=2`: these are the topics now; one that is not named is deleted."""
        numbers = (word.partition("=") for word in [*targets, *(f"{name}={n}" for name, n in options.items())])
        return self._sender.heard(self._sender.topics.set_topics({name: int(n) for name, _, n in numbers}))

    def beat(self, targets: list[str], options: dict[str, str]) -> Iterator[str]:
        """`beat a b topics=orders regex=o.* owns=orders-0,orders-1 epoch=3 instance=i rack=r assignor=range full=yes`.

        `owns=all` reports what it was given last; `topics=` subscribes to nothing; `epoch=0` joins again.
        """
        for name in targets:
            member = self.member(name)
            epoch = int(options.get("epoch", member.epoch))
            if epoch == 0:
                member.owned = []
            member.said |= {key: value for key, value in options.items() if key not in ("epoch", "owns", "full")}
            said = member.said if epoch == 0 or "full" in options else options
            request = self._request(member, epoch, said, is_full=epoch == 0 or "full" in options)
            if "owns" in options:
                request.topic_partitions = self._owned(member, options["owns"])
            yield from self._sender.send(name, request, int(member.said.get("v", "1")))

    def _request(
        self, member: Standing, epoch: int, said: dict[str, str], *, is_full: bool
    ) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=member.said.get("group", "g"),
            member_id=said.get("member", member.member_id),
            member_epoch=epoch,
            instance_id=member.said.get("instance"),
            rack_id=said.get("rack"),
            server_assignor=said.get("assignor"),
            subscribed_topic_regex=said.get("regex"),
        )
        if "topics" in said or (is_full and "regex" not in said):
            request.subscribed_topic_names = [topic for topic in said.get("topics", "orders").split(",") if topic]
        if is_full:
            request.rebalance_timeout_ms = int(said.get("rebalance", "60")) * 1_000
            request.topic_partitions = self._owned(member, "all")
        return request

    def leave(self, name: str, epoch: int, options: dict[str, str]) -> Iterator[str]:
        """`quit a` for good, `pause a` of a static member that will be back."""
        member = self.member(name)
        request = ConsumerGroupHeartbeatRequest(
            group_id=member.said.get("group", "g"),
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=options.get("instance", member.said.get("instance")),
        )
        return self._sender.send(name, request, 1)

    def restart(self, targets: list[str]) -> Iterator[str]:
        """`restart a`: its process ends and begins again; it makes itself another member id."""
        for name in targets:
            member = self.member(name)
            member.member_id, member.epoch, member.owned = f"{member.member_id}'", 0, []
        yield from ()

    def describe(self, targets: list[str]) -> Iterator[str]:
        """`describe-consumer g`."""
        return self._sender.send("admin", ConsumerGroupDescribeRequest(group_ids=targets), 1)

    def _owned(self, member: Standing, owned: str) -> list[TopicPartitions]:
        partitions = member.owned
        if owned != "all":
            words = [word.rpartition("-") for word in owned.split(",") if word]
            partitions = [TopicPartition(topic, int(number)) for topic, _, number in words]
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        return [
            TopicPartitions(topic_id=self._sender.topics.topic_id(topic), partitions=numbers)
            for topic, numbers in by_topic.items()
        ]

    def remember(self, token: Hashable, response: Message) -> None:
        """A client learns from its answer."""
        if not isinstance(response, ConsumerGroupHeartbeatResponse) or response.error_code != ErrorCode.NONE:
            return
        assert isinstance(token, tuple)
        member = self.member(token[0])
        member.member_id, member.epoch = response.member_id or member.member_id, max(response.member_epoch, 0)
        if response.assignment is not None:
            names = self._sender.topics.names
            given = response.assignment.topic_partitions
            member.owned = sorted(TopicPartition(names[t.topic_id], p) for t in given for p in t.partitions)
