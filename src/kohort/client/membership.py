"""A member of a group without fetching: it holds partitions, tells when they come and go, and commits."""

import asyncio
import inspect
import logging
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Self
from uuid import uuid4

from kohort.assignor import Assignor, find_assignors
from kohort.client.arguments import seconds
from kohort.client.closing import undisturbed
from kohort.client.cluster import Cluster
from kohort.client.committed import committed_offsets, positions_of
from kohort.client.driver import MemberDriver
from kohort.client.failures import ClosedError
from kohort.client.loops import warn_unclosed
from kohort.client.options import GroupOptions, read_options
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, KafkaError
from kohort.member import ConsumerMemberConfig, MemberConfig, OffsetAndMetadata, Phase, PollEnded
from kohort.member.callbacks import CallbackKind
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

PartitionsCallback = Callable[[frozenset[TopicPartition]], Awaitable[None] | None]
"""Told the partitions that come or go; plain or async. While it runs, heartbeats go on and commits work."""


def member_config(options: GroupOptions) -> MemberConfig | ConsumerMemberConfig:
    """What the options say of membership. Raises ConfigError."""
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
    """KIP-1082: as Kafka prints an id of its own."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


async def call_back(callback: PartitionsCallback | None, partitions: frozenset[TopicPartition]) -> None:
    """Run a callback, plain or async."""
    if callback is None:
        return
    result = callback(partitions)
    if inspect.isawaitable(result):
        await result


class Membership:
    """Made by `join`; ended by `leave`. Callbacks run in a task of the membership, one at a time.

    `on_revoked` is told what to stop processing: until it returns, nobody else gets those partitions and commits of
    them work, so it may take as long as max_poll_interval_ms. `on_lost` is told what others may process already
    (default: `on_revoked`). `on_assigned` is told what is newly won, an empty set where a rebalance brought nothing.
    An exception in a callback counts as its end; it is kept in `failure` and raised by `leave`.

    All methods belong to the event loop of its cluster. One that nobody ends by `leave` warns (ResourceWarning) when it
    is garbage, which it is once its loop has ended; its group misses it when session_timeout_ms has passed.
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
        self._was_assigned = False
        self._left = False
        self._closing = False
        self.failure: Exception | None = None
        """What a callback raised, the first time."""

    @classmethod
    async def join(
        cls,
        cluster: Cluster,
        group_id: str,
        topics: Iterable[str] | SubscriptionPattern,
        options: Mapping[str, Any] | None = None,
        *,
        on_revoked: PartitionsCallback | None = None,
        on_assigned: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
        on_change: Callable[["Membership"], None] | None = None,
    ) -> Self:
        """Join and wait for the first assignment, `on_assigned` included. Raises KafkaError.

        `options` are a consumer's that concern groups. `on_change` is called whenever something of the member changed,
        and must return at once.
        """
        given = {"bootstrap_servers": cluster.options.bootstrap_servers, "group_id": group_id, **(options or {})}
        membership = cls(
            cluster,
            read_options(GroupOptions, given),
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

    # -- what the member is

    @property
    def group_id(self) -> str:
        return self._driver.member.config.group_id

    @property
    def member_id(self) -> str:
        """As the coordinator named it; "" before it did."""
        return self._driver.member.member_id

    @property
    def generation(self) -> int | None:
        """The generation, or the member epoch of the consumer protocol; None while the group does not count it."""
        return self._driver.member.generation

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What it may process: all that was assigned and is not yet revoked or lost."""
        return self._driver.member.owned

    @property
    def state(self) -> Phase:
        """Where it stands."""
        return self._driver.member.phase

    @property
    def reason(self) -> str:
        """Why it last joined."""
        return self._driver.member.reason

    @property
    def is_leader(self) -> bool:
        """Whether it computes the group's assignment."""
        return self._driver.member.is_leader

    @property
    def error(self) -> KafkaError | None:
        """Why it is out of the group for good."""
        return self._driver.error

    # -- what it does

    def subscribe(self, topics: Iterable[str] | SubscriptionPattern) -> None:
        """Want these topics from now on. A pattern is the broker's matter, under the consumer protocol only."""
        if isinstance(topics, SubscriptionPattern):
            self._driver.subscribe(frozenset(), topics.checked(self._options))
            return
        wanted = frozenset([topics] if isinstance(topics, str) else topics)
        if not wanted:
            raise ConfigError("a member needs at least one topic; to want none is to leave.")
        self._driver.subscribe(wanted)

    def set_weight(self, weight: float) -> None:
        """Want this much beside other members from now on: see `kohort.Consumer.set_weight`."""
        self._driver.weigh(weight)

    async def settled(self) -> None:
        """Wait until the member is stable with no callback running. Raises the KafkaError that put it out."""
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
        """Commit these positions (the next offset to read) and wait until the coordinator has them on disk.

        Raises CommitFailedError, which names the partitions that were refused.
        """
        milliseconds = self._options.default_api_timeout_ms
        if timeout is not None:
            milliseconds = int(seconds("timeout", timeout) * 1000)
        await self._driver.commit(positions_of(offsets), milliseconds)

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing."""
        return await committed_offsets(self._cluster, self.group_id, partitions)

    def alive(self) -> None:
        """Say that the application still processes. Once said, it must be said again within max_poll_interval_ms."""
        self._driver.handle(PollEnded())

    async def leave(self, *, timeout: float = 30.0, for_good: bool = False) -> None:  # noqa: ASYNC109
        """Give everything up (`on_revoked` runs) and leave. Leaving twice is fine.

        A static member keeps its place for session_timeout_ms, unless it leaves `for_good`.
        """
        patience = seconds("timeout", timeout)
        if self._left:
            return
        self._left = True
        try:
            await self._driver.leave("the member leaves", int(patience * 1000), for_good=for_good)
        finally:
            await undisturbed(self._clean_up())
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
        except Exception as problem:  # noqa: BLE001  the application's own, handed back to it by leave
            _log.exception("the %s callback failed: group=%s", kind.value, self.group_id)
            self.failure = self.failure or problem
        finally:
            # Whatever ended it: a member that waited for it for ever could not even leave.
            self._was_assigned |= kind is CallbackKind.ASSIGN
            self._callback = None
            if not self._closing:
                self._driver.callback_done()

    def _is_settled(self) -> bool:
        return self._driver.member.is_answered and self._was_assigned and not self._driver.callback_runs

    def _changed(self) -> None:
        if self._is_settled() or self.error is not None:
            self._wake()
        if self._on_change is not None:
            self._on_change(self)

    def _wake(self) -> None:
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)
        self._settled = None
