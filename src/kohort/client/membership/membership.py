"""Group membership without fetching: assigned partitions, rebalance callbacks and commits."""

import asyncio
import inspect
import logging
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Self
from uuid import uuid4

from kohort.assignor import Assignor, find_assignors
from kohort.client.arguments import seconds
from kohort.client.failures import ClosedError
from kohort.client.keywords import MembershipKeywords
from kohort.client.loops import warn_unclosed
from kohort.client.membership.committed import committed_offsets, positions_of
from kohort.client.membership.driver import MemberDriver
from kohort.client.net import Cluster, run_to_end
from kohort.client.options import GroupOptions
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, KafkaError
from kohort.member import CallbackKind, ConsumerMemberConfig, MemberConfig, OffsetAndMetadata, Phase, PollEnded
from kohort.model import UUID, TopicPartition

_log = logging.getLogger(__name__)

PartitionsCallback = Callable[[frozenset[TopicPartition]], Awaitable[None] | None]
"""Callback, plain or async, that receives the assigned, revoked or lost partitions.

While it runs, heartbeats continue and commits work.
"""


def member_config(options: GroupOptions) -> MemberConfig | ConsumerMemberConfig:
    """Return the member configuration that the options define. Raises ConfigError."""
    if not options.group_id:
        raise ConfigError("group_id is missing: a member needs the name of its group.")
    if options.group_protocol == "consumer":
        return ConsumerMemberConfig(
            group_id=options.group_id,
            member_id=_new_member_id(),
            instance_id=options.group_instance_id,
            server_assignor=options.group_remote_assignor,
            client_assignors=_assignors(options.group_local_assignors) if options.group_local_assignors else (),
            weight=options.group_member_weight,
            max_poll_interval_ms=options.max_poll_interval_ms,
            retry_backoff_ms=options.retry_backoff_ms,
            retry_backoff_max_ms=options.retry_backoff_max_ms,
            rack_id=options.client_rack or None,
        )
    if options.heartbeat_interval_ms >= options.session_timeout_ms:
        raise ConfigError("heartbeat_interval_ms must be below session_timeout_ms, usually a third of it.")
    return MemberConfig(
        group_id=options.group_id,
        assignors=_assignors(options.partition_assignment_strategy),
        instance_id=options.group_instance_id,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        max_poll_interval_ms=options.max_poll_interval_ms,
        retry_backoff_ms=options.retry_backoff_ms,
        retry_backoff_max_ms=options.retry_backoff_max_ms,
        rack_id=options.client_rack or None,
    )


def _assignors(named: str | Sequence[str | Assignor]) -> tuple[Assignor, ...]:
    return tuple(find_assignors(named.replace(" ", "").split(",") if isinstance(named, str) else named))


def _new_member_id() -> str:
    """Return a new member ID (KIP-1082), in the format of Kafka's UUIDs."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


async def call_back(callback: PartitionsCallback | None, partitions: frozenset[TopicPartition]) -> None:
    """Run a callback, plain or async."""
    if callback is None:
        return
    result = callback(partitions)
    if inspect.isawaitable(result):
        await result


class Membership:
    """Membership of a group, started by `join` and ended by `leave`.

    Callbacks run in a task of the membership, one at a time. `on_revoked` receives the partitions
    to stop processing. Until it returns, no other member gets those partitions, and commits for
    them work, so it may take up to max_poll_interval_ms. `on_lost` receives the partitions that
    others may already process (default: `on_revoked`). `on_assigned` receives the newly assigned
    partitions, an empty set if a rebalance added none. An exception in a callback ends that
    callback; it is stored in `failure` and raised by `leave`.

    All methods belong to the event loop of the cluster. A membership that is not ended by `leave`
    emits a ResourceWarning when it is garbage collected, which happens once its loop has ended. The
    coordinator removes the member after session_timeout_ms.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: GroupOptions,
        *,
        on_revoked: PartitionsCallback | None = None,
        on_assigned: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
        on_change: Callable[["Membership"], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._callbacks = {
            CallbackKind.REVOKE: on_revoked,
            CallbackKind.LOST: on_lost or on_revoked,
            CallbackKind.ASSIGN: on_assigned,
        }
        self._on_change = on_change
        self._driver = MemberDriver(cluster, member_config(options), self._begin_callback, self._changed)
        self._loop = asyncio.get_running_loop()
        self._callback: asyncio.Task[None] | None = None
        self._settled: asyncio.Future[None] | None = None
        self._left = False
        self._closing = False
        self.failure: Exception | None = None
        """First exception raised by a callback."""

    @classmethod
    async def join(
        cls,
        cluster: Cluster,
        group_id: str,
        topics: Iterable[str] | SubscriptionPattern,
        options: MembershipKeywords | None = None,
        *,
        on_revoked: PartitionsCallback | None = None,
        on_assigned: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
        on_change: Callable[["Membership"], None] | None = None,
    ) -> Self:
        """Join a group and wait for the first assignment, including `on_assigned`. Raises KafkaError.

        `options` are the group-related options of a consumer. `on_change` is called on every change
        of the member and must return immediately.
        """
        given = {"bootstrap_servers": cluster.options.bootstrap_servers, "group_id": group_id, **(options or {})}
        membership = cls(
            cluster,
            GroupOptions.read(given),
            on_revoked=on_revoked,
            on_assigned=on_assigned,
            on_lost=on_lost,
            on_change=on_change,
        )
        try:
            membership.subscribe(topics)
            await membership.settled()
        except BaseException:
            await membership.leave(timeout=1.0)
            raise
        return membership

    def __del__(self) -> None:
        if not getattr(self, "_left", True):
            warn_unclosed(self)

    # -- state

    @property
    def group_id(self) -> str:
        return self._driver.member.config.group_id

    @property
    def member_id(self) -> str:
        """Member ID assigned by the coordinator; "" before the assignment."""
        return self._driver.member.member_id

    @property
    def generation(self) -> int | None:
        """Generation, or member epoch under the consumer protocol; None while not a member of the group."""
        return self._driver.member.generation

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that the application may process: assigned and not yet revoked or lost."""
        return self._driver.member.owned

    def topic_id(self, topic: str) -> UUID | None:
        """Return the ID of the assigned topic of this name; None if no partition of it is assigned.

        A topic that is deleted and created again has another ID. Its records belong to this member
        only after the coordinator has assigned the new topic, so do not read it before: compare
        this ID with that of the metadata. In a classic group, which assigns names, it is always
        None.
        """
        return self._driver.topic_id(topic)

    @property
    def state(self) -> Phase:
        """Phase of the membership."""
        return self._driver.member.phase

    @property
    def reason(self) -> str:
        """Reason for the last join."""
        return self._driver.member.reason

    @property
    def is_leader(self) -> bool:
        """Whether this member computes the group's assignment."""
        return self._driver.member.is_leader

    @property
    def error(self) -> KafkaError | None:
        """Error that permanently excludes the member from the group."""
        return self._driver.error

    # -- operations

    def subscribe(self, topics: Iterable[str] | SubscriptionPattern) -> None:
        """Replace the subscription.

        The broker evaluates a SubscriptionPattern, which requires the consumer protocol.
        """
        if isinstance(topics, SubscriptionPattern):
            self._driver.subscribe(frozenset(), topics.checked(self._options))
            return
        wanted = frozenset([topics] if isinstance(topics, str) else topics)
        if not wanted:
            raise ConfigError("a member needs at least one topic; leave the group to read none.")
        self._driver.subscribe(wanted)

    def set_weight(self, weight: float) -> None:
        """Set the member's weight; see `kohort.Consumer.set_weight`."""
        self._driver.weigh(weight)

    async def settled(self) -> None:
        """Wait until the member is stable and no callback runs.

        Raises the KafkaError that ended the membership.
        """
        while not self._is_settled():
            if self.error is not None:
                raise self.error
            if self._left:
                raise ClosedError("the member has left its group.")
            if self._settled is None:
                self._settled = self._loop.create_future()
            await asyncio.shield(self._settled)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Commit these positions (the next offsets to read) and wait until they are durable.

        Raises CommitFailedError, which names the rejected partitions.
        """
        milliseconds = self._options.default_api_timeout_ms
        if timeout is not None:
            milliseconds = int(seconds("timeout", timeout) * 1000)
        await self._driver.commit(positions_of(offsets), milliseconds)

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition, or None where there is none.

        The offset of an assigned partition is that of the assigned topic, even if another topic has
        its name now.
        """
        return await committed_offsets(self._cluster, self.group_id, partitions, granted=self._driver.member.ids)

    def alive(self) -> None:
        """Report that the application is still processing.

        After the first call, it must be called again within max_poll_interval_ms.
        """
        self._driver.handle(PollEnded())

    async def leave(self, *, timeout: float = 30.0, for_good: bool = False) -> None:  # noqa: ASYNC109
        """Release all partitions (`on_revoked` runs) and leave the group. Leaving twice is allowed.

        A static member keeps its assignment for session_timeout_ms unless it leaves `for_good`.
        """
        timeout_s = seconds("timeout", timeout)
        if self._left:
            return
        self._left = True
        try:
            await self._driver.leave("the member leaves", int(timeout_s * 1000), for_good=for_good)
        finally:
            await run_to_end(self._clean_up())
        if self.failure is not None:
            raise self.failure

    async def _clean_up(self) -> None:
        self._closing = True
        if self._callback is not None:
            self._callback.cancel()
            await asyncio.gather(self._callback, return_exceptions=True)
        await self._driver.close()
        self._wake()

    # -- callbacks

    def _begin_callback(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        self._callback = self._loop.create_task(
            self._run_callback(kind, partitions), name=f"kohort-{kind.value} {self.group_id}"
        )

    async def _run_callback(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        try:
            await call_back(self._callbacks[kind], partitions)
        except Exception as problem:  # noqa: BLE001  the application's exception; leave raises it again
            _log.exception("the %s callback failed: group=%s", kind.value, self.group_id)
            self.failure = self.failure or problem
        finally:
            # Run this however the callback ended: a member that waited for it forever could not
            # even leave.
            self._callback = None
            if not self._closing:
                self._driver.callback_done()

    def _is_settled(self) -> bool:
        return self._driver.member.is_answered and not self._driver.callback_runs

    def _changed(self) -> None:
        if self._is_settled() or self.error is not None:
            self._wake()
        if self._on_change is not None:
            self._on_change(self)

    def _wake(self) -> None:
        if self._settled is not None:
            self._settled.set_result(None)
        self._settled = None
