"""Reading of partitions as a group member or by manual assignment, and commits."""

import asyncio
import inspect
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kohort.client.arguments import names_of, partition_of
from kohort.client.consume.callbacks import RebalanceCallbacks
from kohort.client.consume.commits import Commits
from kohort.client.consume.partition_events import OffsetsCallback, Partitions
from kohort.client.consume.partition_reader import PartitionReader
from kohort.client.consume.topic_patterns import TopicMatcher
from kohort.client.error_table import Operation, Reaction, reaction
from kohort.client.failures import ClosedError, NotAssignedError
from kohort.client.loops import check_loop
from kohort.client.membership.committed import committed_offsets, positions_of
from kohort.client.membership.driver import MemberDriver
from kohort.client.membership.membership import member_config
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata, Phase
from kohort.member.callbacks import CallbackKind
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

LEAVE_TIMEOUT = 30.0
"""Default timeout for leaving a group, in seconds."""
_STARTS_WITHIN = 5.0
"""Maximum time that on_assigned waits for the committed offsets, in seconds.

An unavailable broker must not delay the group.
"""
_NO_GROUP = "group_id is missing: only a group has committed offsets."


class GroupReader(PartitionReader):
    """Base of the consumer: everything except returning records and closing."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._driver: MemberDriver | None = None
        self._matcher: TopicMatcher | None = None
        self._topics: frozenset[str] = frozenset()
        self._callbacks: dict[CallbackKind, OffsetsCallback | None] = {}
        self._rebalances = RebalanceCallbacks(self._carry_out, self._carried_out, self._news.set)
        self._commits = Commits(self.cluster, self._options, self._to_commit)
        self._looked_through = self.cluster.metadata
        self._committing_s = 0.0
        """Duration of the automatic commit before a callback, in seconds."""
        self._leaving = False
        self._closed = False

    # -- subscription and assignment

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: OffsetsCallback | None = None,
        on_revoked: OffsetsCallback | None = None,
        on_lost: OffsetsCallback | None = None,
    ) -> None:
        """Subscribe to these topics in place of the previous subscription, and share them with the group.

        A pattern covers all topics whose whole names match it, including topics created later. The
        client looks for them every metadata_max_age_ms and before a rebalance. The broker evaluates
        a SubscriptionPattern.
        """
        self._check_open()
        wanted = topics if isinstance(topics, re.Pattern | SubscriptionPattern) else names_of(topics)
        expression = wanted.checked(self._options) if isinstance(wanted, SubscriptionPattern) else None
        if not wanted:
            raise ConfigError("subscribe needs at least one topic; call unsubscribe to stop reading.")
        if self._driver is None:
            if self._fetcher.states:
                raise KohortError(
                    "partitions were assigned manually, which excludes subscribe: call unsubscribe first."
                )
            self._driver = self._commits.driver = MemberDriver(
                self.cluster, member_config(self._options), self._rebalances.begin, self._member_changed
            )
        self._callbacks = {
            CallbackKind.ASSIGN: on_assigned,
            CallbackKind.REVOKE: on_revoked,
            CallbackKind.LOST: on_lost or on_revoked,
        }
        self._stop_matching()
        if isinstance(wanted, SubscriptionPattern):
            self._topics = frozenset()
            self._driver.subscribe(self._topics, expression)
        elif isinstance(wanted, re.Pattern):
            internal = not self._options.exclude_internal_topics
            self._matcher = TopicMatcher(self.cluster, wanted, self._subscribe_to, internal=internal)
        else:
            self._subscribe_to(wanted)

    def _subscribe_to(self, topics: frozenset[str]) -> None:
        assert self._driver is not None
        self._topics = topics
        self._driver.subscribe(topics)

    def _stop_matching(self) -> None:
        if self._matcher is not None:
            self._matcher.close()
            self._matcher = None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume exactly these partitions, without joining a group. Retained partitions keep their positions."""
        self._check_open()
        if self._driver is not None:
            raise KohortError("the consumer has subscribed, which excludes assign: call unsubscribe first.")
        self._set_assignment({partition_of(partition) for partition in partitions})

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the manual assignment."""
        self.assign(self._fetcher.states.keys() | {partition_of(partition) for partition in partitions})

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the manual assignment."""
        gone = {partition_of(partition) for partition in partitions}
        for partition in gone:
            self._state(partition)
        self.assign(self._fetcher.states.keys() - gone)

    async def unsubscribe(self) -> None:
        """Release all partitions (`on_revoked` runs) and leave the group, or clear the manual assignment."""
        if self._rebalances.inside:
            raise KohortError("a callback cannot unsubscribe its consumer: do so after poll.")
        self._stop_matching()
        if self._driver is not None:
            await self._leave("the application unsubscribed", LEAVE_TIMEOUT)
            await self._driver.close()
            self._driver = self._commits.driver = None
        self._topics = frozenset()
        self._drop(list(self._fetcher.states))

    def set_weight(self, weight: float) -> None:
        """Set the member's weight at run time; group_member_weight sets the initial weight.

        With the broker's assignor `weighted`, a member of weight 2 gets twice as much as one of
        weight 1. Weight 0 drains the member under any assignor: it stays in the group without
        partitions until another weight is set. Requires group_protocol consumer, a subscription and
        a Kohort broker. Weights set by an operator take precedence.
        """
        self._check_open()
        if self._driver is None:
            raise KohortError("only a consumer that subscribed has a weight: subscribe first.")
        self._driver.weigh(weight)

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Ask the group to compute its assignment again (KIP-568), because the assignor's inputs
        have changed.

        Returns immediately; the rebalance proceeds as any other. In a consumer group this works
        only if its members compute the assignment (`group_local_assignors`).
        """
        self._rejoin(reason)

    def tell_user_data(self) -> None:
        """Send this member's current assignor user data immediately, without requesting a rebalance.

        In a classic group, members send it at every rebalance, and this method does nothing.
        """
        self._rejoin(None)

    def _rejoin(self, reason: str | None) -> None:
        self._check_open()
        if self._driver is None:
            raise KohortError("only a consumer that subscribed has a group: subscribe first.")
        self._driver.rejoin(reason)

    @property
    def subscription(self) -> frozenset[str]:
        """Subscribed topics; for a pattern, the topics that currently match."""
        return self._topics

    @property
    def member_id(self) -> str:
        """Member ID assigned by the coordinator; "" if there is none."""
        return self._driver.member.member_id if self._driver else ""

    @property
    def generation(self) -> int | None:
        """Group generation or member epoch; None while this consumer is not a member."""
        return self._driver.member.generation if self._driver else None

    @property
    def state(self) -> Phase:
        """Phase of the group membership."""
        return self._driver.member.phase if self._driver else Phase.UNSUBSCRIBED

    # -- commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Commit these offsets, or the positions of all assigned partitions, and wait until they are durable.

        Raises CommitFailedError, which names the rejected partitions, and NotAssignedError for
        partitions that are not assigned to this consumer.
        """
        self._check_open()
        if not self._options.group_id:
            raise ConfigError(_NO_GROUP)
        if offsets is not None and self._driver is not None:
            others = {partition_of(partition) for partition in offsets} - self._fetcher.states.keys()
            if others:
                raise NotAssignedError(others)
        await self._commits.commit(None if offsets is None else self._of_topics(offsets), timeout)

    def _of_topics(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Add the IDs of the topics read, so that a commit never applies to a new topic of the same name."""
        positions = positions_of(offsets)
        for partition, state in self._fetcher.states.items():
            position = positions.get(partition)
            if position is not None and position.topic_id is None:
                positions[partition] = position._replace(topic_id=state.topic_id)
        return positions

    def _to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        states = self._fetcher.states
        return {
            partition: OffsetAndMetadata(position, "", states[partition].leader_epoch, states[partition].topic_id)
            for partition, position in self.positions().items()
        }

    def commit_nowait(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> "asyncio.Task[None]":
        """Start a commit as `commit` does, without waiting. The returned task holds the result."""
        return self._commits.in_passing(self.commit(offsets))

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition, or None where there is none."""
        if not self._options.group_id:
            raise ConfigError(_NO_GROUP)
        return await committed_offsets(self.cluster, self._options.group_id, partitions)

    # -- rebalances

    async def _carry_out(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        if kind is CallbackKind.ASSIGN:
            await self._take_over(partitions)
            return
        try:
            if kind is CallbackKind.REVOKE:
                began = self._loop.time()
                await self._commits.commit_automatically()
                self._committing_s = self._loop.time() - began
            positions = self.positions()
            await self._call_back(kind, {partition: positions.get(partition) for partition in partitions})
        finally:
            self._drop(partitions)

    async def _take_over(self, partitions: frozenset[TopicPartition]) -> None:
        self._fetcher.add(partitions)
        try:
            if self._callbacks.get(CallbackKind.ASSIGN) is not None:
                await self._call_back(CallbackKind.ASSIGN, await self._committed_starts(partitions))
        finally:
            # Start this only after the callback: an application that seeks where nothing is
            # committed must not get NoOffsetError first.
            self._positioner.go_on()

    async def _committed_starts(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return committed offsets and start fetching from them.

        The value is None for partitions without a committed offset or whose offset is not known in
        time.
        """
        try:
            async with asyncio.timeout(_STARTS_WITHIN):
                committed = await self.committed(partitions)
        except (KafkaError, TimeoutError) as problem:
            _log.warning("on_assigned gets no committed offsets: group=%s %s", self._options.group_id, problem)
            return dict.fromkeys(partitions)
        for partition, position in committed.items():
            state = self._fetcher.states.get(partition)
            if state is not None and position is not None and state.position is None and state.reset is None:
                state.move(position.offset, position.leader_epoch)
        self._fetcher.go_on()
        return {partition: position and position.offset for partition, position in committed.items()}

    async def _call_back(self, kind: CallbackKind, offsets: Mapping[TopicPartition, int | None]) -> None:
        callback = self._callbacks.get(kind)
        if callback is not None and inspect.isawaitable(result := callback(Partitions(offsets))):
            await result

    def _carried_out(self) -> None:
        assert self._driver is not None
        took, self._committing_s = self._committing_s, 0.0
        self._driver.callback_done(own=took)

    def _member_changed(self) -> None:
        if self._driver is None:
            return
        if self._driver.error is not None:
            self._news.set()
        if self._matcher is not None and self._driver.member.phase is Phase.PREPARING:
            # The other members look now, too. A new topic then causes one rebalance instead of one
            # per member.
            self._matcher.look()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        super()._drop(gone)
        self._commits.forget(gone)

    async def _leave(self, reason: str, timeout: float) -> None:  # noqa: ASYNC109
        assert self._driver is not None
        self._leaving = True
        self._commits.patience = min(self._commits.patience, timeout)
        try:
            self._rebalances.start_at_once(True)
            await self._driver.leave(reason, int(timeout * 1000))
        finally:
            self._rebalances.start_at_once(False)
            self._leaving = False

    def _raise_errors(self) -> None:
        self._rebalances.raise_error()
        self._raise_problem()  # it is more specific than the member's error
        if self._driver is not None and self._driver.error is not None:
            raise self._driver.error
        if self.cluster.metadata is not self._looked_through:
            self._raise_refused_topic()
        super()._raise_errors()

    def _raise_refused_topic(self) -> None:
        """Raise a subscribed topic's permanent metadata error, once per metadata response, as Java's client does."""
        self._looked_through = self.cluster.metadata
        known = self._looked_through
        errors = {name: known.topics[name].error for name in sorted(self._topics & known.topics.keys())}
        errors |= {f"the assigned topic {topic_id}": code for topic_id, code in known.refused_ids.items()}
        for name, code in errors.items():
            if code is not ErrorCode.NONE and reaction(Operation.METADATA, code) is Reaction.RAISE:
                raise KafkaError(code, f"{name}: {code.sentence}")

    def _check_open(self) -> None:
        check_loop(self._loop, "consumer")
        if self._closed and not self._leaving:
            raise ClosedError("the consumer is closed.")


def check_callbacks(topics: tuple[str, ...], *callbacks: object) -> None:
    """Raise ConfigError if callbacks are given without topics, because there is no subscription yet."""
    if not topics and any(callback is not None for callback in callbacks):
        raise ConfigError("on_assigned, on_revoked and on_lost go with topics: name some, or give them to subscribe.")
