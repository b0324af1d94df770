"""Keeps a client's metadata fresh, and tells who watches topics when something of them changed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import replace

from kohort.client.backoff import back_off
from kohort.client.checks import check
from kohort.client.connections import closed_error
from kohort.client.error_table import Operation, Reaction, explained, reaction
from kohort.client.failure_log import NEVER, FailureLog
from kohort.client.metadata import ClusterMetadata
from kohort.client.options import ClientOptions
from kohort.client.strangers import copied
from kohort.errors import ErrorCode, KafkaError
from kohort.model import UUID
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_log = logging.getLogger(__name__)

Watcher = Callable[[Mapping[str, int], frozenset[str]], None]
"""Told the partition counts of the topics that exist, and all that it watches."""

WatcherOfAll = Callable[[ClusterMetadata], None]
"""Told everything, whenever it was asked for anew."""


class Refresher:
    """`ask` puts the request to some broker; `on_fresh` is awaited before anybody is told of its answer.

    It asks when someone wants it, and otherwise every metadata.max.age.ms; for the topics that someone watches or
    keeps, or for all while someone watches all. A topic that is only wanted is asked for once: a broker creates topics
    that clients ask for, so a client that no longer uses a topic must not ask for it.
    """

    def __init__(
        self,
        options: ClientOptions,
        ask: Callable[[MetadataRequest], Awaitable[MetadataResponse]],
        on_fresh: Callable[[ClusterMetadata], Awaitable[None]],
    ) -> None:
        self.metadata = ClusterMetadata()
        self.problem: KafkaError | None = None
        """Of the last attempt."""
        self._options = options
        self._ask = ask
        self._on_fresh = on_fresh
        self._loop = asyncio.get_running_loop()
        self._watchers: dict[object, tuple[frozenset[str], Watcher]] = {}
        self._watchers_of_all: dict[object, WatcherOfAll] = {}
        self._ids: dict[object, frozenset[UUID]] = {}
        self._kept: dict[object, frozenset[str]] = {}
        self._wanted_once: set[str] = set()
        """Topics of the next refresh that need not be watched or kept."""
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._look_again: asyncio.TimerHandle | None = None
        self._closed = False
        self._failures = FailureLog(_log, self._loop.time, "no broker answers", "a broker answers again")
        self._unknown = FailureLog(_log, self._loop.time, "no metadata", "metadata found", quiet_s=NEVER)
        """Of topics."""

    def watch(self, who: object, topics: frozenset[str], watcher: Watcher, ids: frozenset[UUID] = frozenset()) -> None:
        """Tell `watcher` soon, and from then on after every refresh; find the topics of these ids, too."""
        self._watchers[who] = (topics, watcher)
        self._ids[who] = ids
        self.want()

    def watch_all(self, who: object, watcher: WatcherOfAll) -> None:
        """As `watch`, of all topics that there are."""
        self._watchers_of_all[who] = watcher
        self.want()

    def unwatch(self, who: object) -> None:
        """Stop telling."""
        self._watchers.pop(who, None)
        self._ids.pop(who, None)
        self._watchers_of_all.pop(who, None)

    def want(self, topics: Iterable[str] = ()) -> None:
        """Refresh soon, and ask for these topics, too, this once."""
        self._wanted_once.update(topics)
        self._wanted.set()
        if (self._task is None or self._task.done()) and not self._closed:
            self._task = self._loop.create_task(self._keep_fresh(), name="kohort-metadata")

    def keep(self, who: object, topics: Set[str]) -> None:
        """Have these topics in every refresh, instead of those that `who` kept before; refresh soon for new ones."""
        before = self._lasting()
        if topics:
            self._kept[who] = frozenset(topics)
        else:
            self._kept.pop(who, None)
        if not topics <= before:
            self.want()

    async def refresh(self, topics: Iterable[str] = ()) -> ClusterMetadata:
        """Metadata that was asked for after this call. Raises KafkaError where no broker can be asked."""
        if self._closed:
            raise closed_error()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        self.want(topics)
        await future
        return self.metadata

    async def close(self) -> None:
        """Stop, and fail those who wait."""
        self._closed = True
        if self._look_again is not None:
            self._look_again.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for future in self._waiting:
            if not future.done():
                future.set_exception(closed_error())
        self._waiting.clear()

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
                        future.set_exception(copied(problem))
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
        # KIP-516: no topics at all is asked for by an empty list, all topics by null.
        everything = bool(self._watchers_of_all)
        names = self._lasting() | self._wanted_once
        self._wanted_once.clear()
        topics = None if everything else [MetadataRequestTopic(name=name) for name in sorted(names)]
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=self._options.allow_auto_create_topics and bool(topics)
        )
        answer = await self._ask(request)
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            _log.warning("a broker asks this client to connect to its bootstrap servers again (KIP-1102)")
            self.metadata = replace(self.metadata, brokers={})
            answer = await self._ask(request)
        check(answer.error_code, "metadata")
        self.metadata = self.metadata.merged(answer, of_all=names if everything else None)
        for name in names & self.metadata.topics.keys():
            error = self.metadata.topics[name].error
            if error is ErrorCode.NONE:
                self._unknown.succeeded([f"topic={name}"])
            else:
                self._unknown.failed([f"topic={name}"], error, explained(error))
        if nameless := self._nameless():
            # A request that names some topics by id names none by name: Kafka would leave those out.
            by_id = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(nameless)]
            request = MetadataRequest(topics=by_id, allow_auto_topic_creation=False)
            self.metadata = self.metadata.merged(await self._ask(request))
        await self._on_fresh(self.metadata)

    def _lasting(self) -> set[str]:
        """The topics that every refresh asks for."""
        return set[str]().union(*(topics for topics, _ in self._watchers.values()), *self._kept.values())

    def _nameless(self) -> set[UUID]:
        """The ids that somebody wants a name for and that have none yet."""
        return set[UUID]().union(*self._ids.values()) - self.metadata.names.keys()

    def _tell_watchers(self, *, fresh: bool) -> None:
        if fresh:
            for tell in list(self._watchers_of_all.values()):
                tell(self.metadata)
        unsettled = bool(self._nameless())
        for topics, watcher in list(self._watchers.values()):
            known = [self.metadata.topics.get(topic) for topic in topics]
            if any(topic is None for topic in known):
                self._wanted.set()
                continue
            unsettled |= any(topic is not None and _may_end(topic.error) for topic in known)
            watcher({topic.name: len(topic.leaders) for topic in known if topic is not None and topic.exists}, topics)
        if unsettled and self._look_again is None:
            # A topic that is being made, or has no leader, is looked at again before metadata.max.age.ms.
            self._look_again = self._loop.call_later(self._options.retry_backoff_max_ms / 1000, self._time_to_look)

    def _time_to_look(self) -> None:
        self._look_again = None
        self._wanted.set()


def _may_end(error: ErrorCode) -> bool:
    return error is not ErrorCode.NONE and reaction(Operation.METADATA, error) is Reaction.RETRY
