"""Refreshing of a client's metadata, and notification of the watchers of topics."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import replace
from math import nan

from kohort.client.error_table import Operation, Reaction, explained, reaction
from kohort.client.net.backoff import back_off
from kohort.client.net.connections import closed_error
from kohort.client.net.failure_log import NEVER, FailureLog
from kohort.client.net.not_kafka import copied_error
from kohort.client.options import ClientOptions
from kohort.errors import ErrorCode, KafkaError
from kohort.model import UUID
from kohort.requests import ClusterMetadata, check, metadata_request
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_log = logging.getLogger(__name__)

Watcher = Callable[[Mapping[str, int], frozenset[str]], None]
"""Callback that receives the partition counts of existing topics and the set of watched topics."""

WatcherOfAll = Callable[[ClusterMetadata], None]
"""Callback that receives the whole metadata after every refresh."""


class Refresher:
    """Refresher of a client's metadata.

    `ask` sends the request to any broker; `on_fresh` is awaited before the watchers are notified.

    It refreshes on request, and otherwise every metadata.max.age.ms. A refresh covers the topics
    that are watched or kept, or all topics while all are watched. A topic that is only wanted is
    requested once: brokers create the topics that clients request, so a client must not request a
    topic that it no longer uses.
    """

    def __init__(
        self,
        options: ClientOptions,
        ask: Callable[[MetadataRequest], Awaitable[MetadataResponse]],
        on_fresh: Callable[[ClusterMetadata], Awaitable[None]],
    ) -> None:
        self.metadata = ClusterMetadata()
        self.problem: KafkaError | None = None
        """Error of the last refresh; None if it succeeded."""
        self.refreshed_at = nan
        """Loop time of the last refresh that succeeded; NaN before the first."""
        self._options = options
        self._ask = ask
        self._on_fresh = on_fresh
        self._loop = asyncio.get_running_loop()
        self._watchers: dict[object, tuple[frozenset[str], Watcher]] = {}
        self._watchers_of_all: dict[object, WatcherOfAll] = {}
        self._ids: dict[object, frozenset[UUID]] = {}
        self._kept: dict[object, frozenset[str]] = {}
        self._wanted_once: set[str] = set()
        """Topics to include in the next refresh only, unless they are watched or kept."""
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._refresh_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._failures = FailureLog(_log, self._loop.time, "no broker answers", "a broker answers again")
        self._unknown = FailureLog(_log, self._loop.time, "no metadata", "metadata found", quiet_s=NEVER)
        """Failures of single topics."""

    def watch(
        self, owner: object, topics: frozenset[str], watcher: Watcher, ids: frozenset[UUID] = frozenset()
    ) -> None:
        """Call `watcher` soon and after every refresh. Look up the names of these topic IDs, too."""
        self._watchers[owner] = (topics, watcher)
        self._ids[owner] = ids
        self.want()

    def watch_all(self, owner: object, watcher: WatcherOfAll) -> None:
        """Call `watcher` with all existing topics soon and after every refresh."""
        self._watchers_of_all[owner] = watcher
        self.want()

    def unwatch(self, owner: object) -> None:
        """Stop calling the watchers registered under `owner`."""
        self._watchers.pop(owner, None)
        self._ids.pop(owner, None)
        self._watchers_of_all.pop(owner, None)

    def want(self, topics: Iterable[str] = ()) -> None:
        """Refresh soon, and include these topics once."""
        self._wanted_once.update(topics)
        self._wanted.set()
        if (self._task is None or self._task.done()) and not self._closed:
            self._task = self._loop.create_task(self._keep_fresh(), name="kohort-metadata")

    def keep(self, owner: object, topics: Set[str]) -> None:
        """Include these topics in every refresh, in place of the topics that `owner` kept before.

        New topics cause a refresh soon.
        """
        before = self._lasting()
        if topics:
            self._kept[owner] = frozenset(topics)
        else:
            self._kept.pop(owner, None)
        if not topics <= before:
            self.want()

    async def refresh(self, topics: Iterable[str] = ()) -> ClusterMetadata:
        """Return metadata requested after this call. Raises KafkaError if no broker answers."""
        if self._closed:
            raise closed_error()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        self.want(topics)
        await future
        return self.metadata

    async def close(self) -> None:
        """Stop, and fail pending refreshes."""
        self._closed = True
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for future in self._waiting:
            if not future.done():
                future.set_exception(closed_error())

    async def _keep_fresh(self) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(self._options.metadata_max_age_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            try:
                await self._refresh()
                failures, self.problem = 0, None
                self._failures.succeeded([self._cluster_name])
            except asyncio.CancelledError:
                self._waiting += waiting
                waiting = []
                raise
            except KafkaError as problem:
                failures += 1
                self._failed(problem)
                for future in waiting:
                    if not future.done():
                        future.set_exception(copied_error(problem))
                if self._watchers or self._watchers_of_all:
                    self._wanted.set()
            finally:
                for future in waiting:
                    if not future.done():
                        future.set_result(None)
            self._tell_watchers(fresh=not failures)
            await asyncio.sleep(
                back_off(self._options, failures) if failures else self._options.retry_backoff_ms / 2000
            )

    def _failed(self, problem: KafkaError) -> None:
        self._failures.failed([self._cluster_name], problem.code, problem.sentence)
        self.problem = problem

    @property
    def _cluster_name(self) -> str:
        return f"bootstrap_servers={self._options.bootstrap_servers}"

    async def _refresh(self) -> None:
        everything = bool(self._watchers_of_all)
        names = self._lasting() | self._wanted_once
        self._wanted_once.clear()
        create = self._options.allow_auto_create_topics and bool(names) and not everything
        request = metadata_request(None if everything else sorted(names), create=create)
        answer = await self._ask(request)
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            if self.problem is None or self.problem.code is not ErrorCode.REBOOTSTRAP_REQUIRED:
                _log.warning("a broker asks this client to connect to its bootstrap servers again (KIP-1102)")
            self.metadata = replace(self.metadata, brokers={})
            answer = await self._ask(request)
        check(answer.error_code, "metadata")
        self.metadata = self.metadata.merged(answer, asked=names, of_all=everything)
        self.refreshed_at = self._loop.time()
        for name in names:
            self._note(f"topic={name}", self.metadata.topics[name].error)
        if nameless := self._nameless():
            await self._find_names(nameless)
        await self._on_fresh(self.metadata)

    async def _find_names(self, ids: Set[UUID]) -> None:
        # A request with topic IDs contains no names, because Kafka would ignore those.
        by_id = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(ids)]
        answer = await self._ask(MetadataRequest(topics=by_id, allow_auto_topic_creation=False))
        self.metadata = known = self.metadata.merged(answer)
        for topic_id in ids:
            left_out = ErrorCode.NONE if topic_id in known.names else ErrorCode.UNKNOWN_TOPIC_ID
            self._note(f"topic id={topic_id}", known.refused_ids.get(topic_id, left_out))

    def _note(self, topic: str, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._unknown.succeeded([topic])
        else:
            self._unknown.failed([topic], error, explained(error))

    def _lasting(self) -> set[str]:
        """Return the topics that every refresh includes."""
        return set[str]().union(*(topics for topics, _ in self._watchers.values()), *self._kept.values())

    def _nameless(self) -> set[UUID]:
        """Return the watched topic IDs that have no name yet."""
        return set[UUID]().union(*self._ids.values()) - self.metadata.names.keys()

    def _tell_watchers(self, *, fresh: bool) -> None:
        if fresh:
            for tell in list(self._watchers_of_all.values()):
                tell(self.metadata)
        unsettled = bool(self._nameless())
        for topics, watcher in list(self._watchers.values()):
            if not topics <= self.metadata.topics.keys():
                continue  # it was added during the request; the next one asks for its topics
            known = [self.metadata.topics[topic] for topic in topics]
            unsettled |= any(_may_end(topic.error) for topic in known)
            watcher({topic.name: len(topic.leaders) for topic in known if topic.exists}, topics)
        if unsettled and self._refresh_timer is None:
            # Check a topic that is being created, or has no leader, again before
            # metadata.max.age.ms.
            self._refresh_timer = self._loop.call_later(self._options.retry_backoff_max_ms / 1000, self._refresh_again)

    def _refresh_again(self) -> None:
        self._refresh_timer = None
        self._wanted.set()


def _may_end(error: ErrorCode) -> bool:
    return error is not ErrorCode.NONE and reaction(Operation.METADATA, error) is Reaction.RETRY
