"""Subscription of a consumer: its membership in the group, if it has one, and the work of each rebalance."""

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Mapping

from kohort.client.arguments import names_of
from kohort.client.consume.assigned_partitions import AssignedPartitions
from kohort.client.consume.callbacks import RebalanceCallbacks
from kohort.client.consume.commits import Commits
from kohort.client.consume.partition_events import OffsetsCallback, Partitions
from kohort.client.consume.topic_patterns import TopicMatcher
from kohort.client.consume.ungrouped_subscription import UngroupedSubscription
from kohort.client.error_table import Operation, Reaction, reaction
from kohort.client.membership import MemberDriver, member_config
from kohort.client.net import Cluster
from kohort.client.options import ConsumerOptions
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.member import CallbackKind, Phase
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

_START_OFFSETS_TIMEOUT = 5.0
"""Maximum time that on_assigned waits for the committed offsets, in seconds.

An unavailable broker must not delay the group.
"""


class GroupSubscription:
    """Subscription of one consumer. `on_news` wakes a waiting poll.

    Partitions that the group assigns are added to `partitions`; their positions are committed by
    `commits` before they are released.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        partitions: AssignedPartitions,
        commits: Commits,
        on_news: Callable[[], None],
    ) -> None:
        self.driver: MemberDriver | None = None
        """Driver of the group member; None without a subscription."""
        self.topics: frozenset[str] = frozenset()
        """Subscribed topics; for a pattern, the topics that currently match."""
        self.leaving = False
        self.rebalances = RebalanceCallbacks(self._carry_out, self._carried_out, on_news)
        self._cluster = cluster
        self._options = options
        self._partitions = partitions
        self._commits = commits
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._matcher: TopicMatcher | None = None
        self._ungrouped: UngroupedSubscription | None = None
        self._callbacks: dict[CallbackKind, OffsetsCallback | None] = {}
        self._checked_metadata = cluster.metadata
        """Metadata whose errors of subscribed topics have been raised."""
        self._committing_s = 0.0
        """Duration of the automatic commit before a callback, in seconds."""

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        on_assigned: OffsetsCallback | None,
        on_revoked: OffsetsCallback | None,
        on_lost: OffsetsCallback | None,
    ) -> None:
        """Subscribe to these topics in place of the previous subscription."""
        wanted = topics if isinstance(topics, re.Pattern | SubscriptionPattern) else names_of(topics)
        expression = wanted.checked(self._options) if isinstance(wanted, SubscriptionPattern) else None
        if not wanted:
            raise ConfigError("subscribe needs at least one topic; call unsubscribe to stop reading.")
        if not self.subscribed and self._partitions.all():
            raise KohortError("partitions were assigned manually, which excludes subscribe: call unsubscribe first.")
        if self._options.group_id is None and not isinstance(wanted, SubscriptionPattern):
            if on_assigned or on_revoked or on_lost:
                raise ConfigError("group_id is missing: only a member of a group has callbacks.")
            self._subscribe_ungrouped(wanted)
            return
        if self.driver is None:
            self.driver = self._commits.driver = MemberDriver(
                self._cluster,
                member_config(self._options),
                self.rebalances.begin,
                self._member_changed,
                self._commits.metrics,
            )
        self._callbacks = {
            CallbackKind.ASSIGN: on_assigned,
            CallbackKind.REVOKE: on_revoked,
            CallbackKind.LOST: on_lost or on_revoked,
        }
        self.stop_matching()
        if isinstance(wanted, SubscriptionPattern):
            self.topics = frozenset()
            self.driver.subscribe(self.topics, expression)
        elif isinstance(wanted, re.Pattern):
            internal = not self._options.exclude_internal_topics
            self._matcher = TopicMatcher(self._cluster, wanted, self._subscribe_to, internal=internal)
        else:
            self._subscribe_to(wanted)

    @property
    def subscribed(self) -> bool:
        """Whether the consumer has subscribed, with or without a group."""
        return self.driver is not None or self._ungrouped is not None

    def _subscribe_ungrouped(self, topics: frozenset[str] | re.Pattern[str]) -> None:
        def found_topics(found: frozenset[str]) -> None:
            self.topics = found

        if self._ungrouped is None:
            self._ungrouped = UngroupedSubscription(self._cluster, found_topics, self._partitions.replace)
        self._ungrouped.subscribe(topics, internal=not self._options.exclude_internal_topics)

    def _subscribe_to(self, topics: frozenset[str]) -> None:
        assert self.driver is not None
        self.topics = topics
        self.driver.subscribe(topics)

    def stop_matching(self) -> None:
        """Stop looking for topics that match the pattern."""
        if self._matcher is not None:
            self._matcher.close()
            self._matcher = None
        if self._ungrouped is not None:
            self._ungrouped.close()

    async def unsubscribe(self, timeout: float) -> None:  # noqa: ASYNC109
        """Leave the group, if there is one."""
        self.stop_matching()
        self._ungrouped = None
        if self.driver is not None:
            await self.leave("the application unsubscribed", timeout)
            await self.driver.close()
            self.driver = self._commits.driver = None
        self.topics = frozenset()

    async def leave(self, reason: str, timeout: float) -> None:  # noqa: ASYNC109
        """Release all partitions and leave the group. Only for a subscribed consumer."""
        assert self.driver is not None
        self.leaving = True
        self._commits.timeout = min(self._commits.timeout, timeout)
        try:
            self.rebalances.start_at_once(True)
            await self.driver.leave(reason, int(timeout * 1000))
        finally:
            self.rebalances.start_at_once(False)
            self.leaving = False

    def required_driver(self, purpose: str) -> MemberDriver:
        """Return the driver of the group member. Raises KohortError if the consumer has not subscribed."""
        if self.driver is None:
            raise KohortError(f"only a consumer that subscribed has {purpose}: subscribe first.")
        return self.driver

    def raise_error(self) -> None:
        """Raise the error that ended the membership, or a permanent error of a subscribed topic."""
        if self.driver is not None and self.driver.error is not None:
            raise self.driver.error
        if self._cluster.metadata is not self._checked_metadata:
            self._raise_refused_topic()

    def _raise_refused_topic(self) -> None:
        """Raise a subscribed topic's permanent metadata error, once per metadata response, as Java's client does."""
        self._checked_metadata = known = self._cluster.metadata
        errors = {name: known.topics[name].error for name in sorted(self.topics & known.topics.keys())}
        errors |= {f"the assigned topic {topic_id}": code for topic_id, code in known.refused_ids.items()}
        for name, code in errors.items():
            if code is not ErrorCode.NONE and reaction(Operation.METADATA, code) is Reaction.RAISE:
                raise KafkaError(code, f"{name}: {code.sentence}")

    async def close(self) -> None:
        """Stop callbacks and disconnect the member without leaving the group."""
        await self.rebalances.close()
        if self.driver is not None:
            await self.driver.close()

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
            positions = self._partitions.positions()
            await self._call_back(kind, {partition: positions.get(partition) for partition in partitions})
        finally:
            self._partitions.remove(partitions)
            self._commits.forget(partitions)

    async def _take_over(self, partitions: frozenset[TopicPartition]) -> None:
        assert self.driver is not None
        self._partitions.fetcher.add(partitions, self.driver.topic_id)
        try:
            if self._callbacks.get(CallbackKind.ASSIGN) is not None:
                await self._call_back(CallbackKind.ASSIGN, await self._committed_starts(partitions))
        finally:
            # Start this only after the callback: an application that seeks where nothing is
            # committed must not get NoOffsetError first.
            self._partitions.find_positions()

    async def _committed_starts(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return committed offsets and start fetching from them.

        The value is None for partitions without a committed offset or whose offset is not known in
        time.
        """
        try:
            async with asyncio.timeout(_START_OFFSETS_TIMEOUT):
                committed = await self._commits.committed_positions(partitions)
        except (KafkaError, TimeoutError) as problem:
            _log.warning("on_assigned gets no committed offsets: group=%s %s", self._options.group_id, problem)
            return dict.fromkeys(partitions)
        for partition, position in committed.items():
            if position is not None:
                self._partitions.start_at(partition, position)
        self._partitions.fetcher.fetch_more()
        return {partition: position and position.offset for partition, position in committed.items()}

    async def _call_back(self, kind: CallbackKind, offsets: Mapping[TopicPartition, int | None]) -> None:
        callback = self._callbacks.get(kind)
        if callback is None:
            return
        began = self._loop.time()
        try:
            if inspect.isawaitable(result := callback(Partitions(offsets))):
                await result
        finally:
            now = self._loop.time()
            self._commits.metrics.called_back(kind, now - began, now)

    def _carried_out(self) -> None:
        assert self.driver is not None
        took, self._committing_s = self._committing_s, 0.0
        self.driver.callback_done(own=took)

    def _member_changed(self) -> None:
        if self.driver is None:
            return
        if self.driver.error is not None:
            self._on_news()
        if self._matcher is not None and self.driver.member.phase is Phase.PREPARING:
            # The other members look now, too. A new topic then causes one rebalance instead of one
            # per member.
            self._matcher.look()


def check_callbacks(topics: tuple[str, ...], *callbacks: object) -> None:
    """Raise ConfigError if callbacks are given without topics, because there is no subscription yet."""
    if not topics and any(callback is not None for callback in callbacks):
        raise ConfigError(
            "on_assigned, on_revoked and on_lost need topics: name some, or pass the callbacks to subscribe."
        )
