"""Partitions read as a member of a group, or because the application named them; and commits."""

import asyncio
import inspect
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kohort.client.arguments import names_of, partition_of
from kohort.client.commits import Commits
from kohort.client.committed import committed_offsets, positions_of
from kohort.client.driver import MemberDriver
from kohort.client.error_table import Operation, Reaction, reaction
from kohort.client.failures import ClosedError, NotAssignedError
from kohort.client.loops import check_loop
from kohort.client.matching import TopicMatcher
from kohort.client.membership import member_config
from kohort.client.partition_reader import PartitionReader
from kohort.client.partitions import OffsetsCallback, Partitions
from kohort.client.rebalances import Rebalances
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata, Phase
from kohort.member.callbacks import CallbackKind
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

LEAVE_TIMEOUT = 30.0
"""Seconds."""
_STARTS_WITHIN = 5.0
"""Seconds that on_assigned waits to be told what is committed; a broker that is away must not hold the group up."""
_NO_GROUP = "group_id is missing: only a group has committed offsets."


class GroupReader(PartitionReader):
    """What a consumer is but for handing out records and its end."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._driver: MemberDriver | None = None
        self._matcher: TopicMatcher | None = None
        self._topics: frozenset[str] = frozenset()
        self._callbacks: dict[CallbackKind, OffsetsCallback | None] = {}
        self._rebalances = Rebalances(self._carry_out, self._carried_out, self._news.set)
        self._commits = Commits(self.cluster, self._options, self._to_commit)
        self._looked_through = self.cluster.metadata
        self._leaving = False
        self._closed = False

    # -- what to consume

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: OffsetsCallback | None = None,
        on_revoked: OffsetsCallback | None = None,
        on_lost: OffsetsCallback | None = None,
    ) -> None:
        """Share these topics with the other members of the group, instead of what was subscribed before.

        A pattern stands for all topics whose whole names match it, also those to come: they are looked for every
        metadata_max_age_ms, and before a rebalance. A SubscriptionPattern is looked after by the broker.
        """
        self._check_open()
        wanted = topics if isinstance(topics, re.Pattern | SubscriptionPattern) else names_of(topics)
        expression = wanted.checked(self._options) if isinstance(wanted, SubscriptionPattern) else None
        if not wanted:
            raise ConfigError("subscribe needs at least one topic; unsubscribe to want none.")
        if self._driver is None:
            if self._fetcher.states:
                raise KohortError("partitions were assigned by hand: a consumer does either that or subscribe.")
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
        """Consume exactly these partitions, without being a member. Those kept keep their positions."""
        self._check_open()
        if self._driver is not None:
            raise KohortError("the consumer subscribed: it does either that or assign; unsubscribe first.")
        self._set_assignment({partition_of(partition) for partition in partitions})

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these too, beside what was assigned by hand before."""
        self.assign(self._fetcher.states.keys() | {partition_of(partition) for partition in partitions})

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Of what was assigned by hand, consume these no longer."""
        gone = {partition_of(partition) for partition in partitions}
        for partition in gone:
            self._state(partition)
        self.assign(self._fetcher.states.keys() - gone)

    async def unsubscribe(self) -> None:
        """Give everything up (`on_revoked` runs) and leave the group; or forget what was assigned by hand."""
        if self._rebalances.inside:
            raise KohortError("a callback cannot unsubscribe its consumer, which would wait for it: do so after poll.")
        self._stop_matching()
        if self._driver is not None:
            await self._leave("the application unsubscribed", LEAVE_TIMEOUT)
            await self._driver.close()
            self._driver = self._commits.driver = None
        self._topics = frozenset()
        self._drop(list(self._fetcher.states))

    def set_weight(self, weight: float) -> None:
        """Want this much beside the other members, while the group runs (group_member_weight says it from the start).

        Under the broker's assignor `weighted` a member of weight 2 gets twice what one of weight 1 gets. 0 drains the
        member under any assignor: it stays in the group and gets nothing, until another weight is set. Needs
        group_protocol consumer, a subscription, and a broker of Kohort; an operator's weights go before.
        """
        self._check_open()
        if self._driver is None:
            raise KohortError("only a consumer that subscribed has a weight: subscribe first.")
        self._driver.weigh(weight)

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Have the group compute its assignment once more (KIP-568), as what an assignor goes by has changed.

        Returns at once; the rebalance comes as any other does. In a consumer group only where its members compute
        (`group_local_assignors`).
        """
        self._rejoin(reason)

    def tell_user_data(self) -> None:
        """Let whoever computes the assignment know at once what this member's assignor tells of it, without asking for
        a rebalance. In a classic group that is told at every rebalance, and here nothing is done."""
        self._rejoin(None)

    def _rejoin(self, reason: str | None) -> None:
        self._check_open()
        if self._driver is None:
            raise KohortError("only a consumer that subscribed has a group: subscribe first.")
        self._driver.rejoin(reason)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that it subscribed to; of a pattern those that match now."""
        return self._topics

    @property
    def member_id(self) -> str:
        """As the coordinator named it; "" for none."""
        return self._driver.member.member_id if self._driver else ""

    @property
    def generation(self) -> int | None:
        """None while the group does not count this consumer."""
        return self._driver.member.generation if self._driver else None

    @property
    def state(self) -> Phase:
        """Where it stands in its group."""
        return self._driver.member.phase if self._driver else Phase.UNSUBSCRIBED

    # -- commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Commit these offsets, or the positions of all that is assigned, and wait until they are on disk.

        Raises CommitFailedError, which names the partitions that were refused; NotAssignedError for partitions that
        the group has not given to this consumer.
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
        """With the ids of the topics that were read, so that a commit never lands on another topic of the same name."""
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
        """As `commit`, without waiting; the task tells how it ended."""
        return self._commits.in_passing(self.commit(offsets))

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing."""
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
                await self._commits.commit_automatically()
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
            # Not earlier: an application that seeks where nothing is committed must not be told that there is nothing.
            self._positioner.go_on()

    async def _committed_starts(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The committed offsets, where fetching begins at once; None for those that have none or are not known yet."""
        try:
            async with asyncio.timeout(_STARTS_WITHIN):
                committed = await self.committed(partitions)
        except (KafkaError, TimeoutError) as problem:
            _log.warning("on_assigned is not told what is committed: group=%s %s", self._options.group_id, problem)
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
        self._driver.callback_done()

    def _member_changed(self) -> None:
        if self._driver is None:
            return
        if self._driver.error is not None:
            self._news.set()
        if self._matcher is not None and self._driver.member.phase is Phase.PREPARING:
            # As the others of the group do now: one rebalance for a new topic, instead of one for each who finds it.
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
        self._raise_problem()  # it says more than what the member makes of it
        if self._driver is not None and self._driver.error is not None:
            raise self._driver.error
        if self.cluster.metadata is not self._looked_through:
            self._raise_refused_topic()
        super()._raise_errors()

    def _raise_refused_topic(self) -> None:
        """As Java's: once for each time that brokers say of a subscribed topic that no waiting will help."""
        self._looked_through = self.cluster.metadata
        for name in sorted(self._topics & self._looked_through.topics.keys()):
            code = self._looked_through.topics[name].error
            if code is not ErrorCode.NONE and reaction(Operation.METADATA, code) is Reaction.RAISE:
                raise KafkaError(code, f"{name}: {code.sentence}")

    def _check_open(self) -> None:
        check_loop(self._loop, "consumer")
        if self._closed and not self._leaving:
            raise ClosedError("the consumer is closed.")


def check_callbacks(topics: tuple[str, ...], *callbacks: object) -> None:
    """Callbacks belong to a subscription: without topics there is none yet. Raises ConfigError."""
    if not topics and any(callback is not None for callback in callbacks):
        raise ConfigError("on_assigned, on_revoked and on_lost go with topics: name some, or give them to subscribe.")
