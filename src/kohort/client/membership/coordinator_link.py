"""A member's link to its group's coordinator: discovery, a dedicated connection, request results."""

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Any

from kohort.client.membership.group_metrics import GroupMetrics
from kohort.client.metrics import Sampling
from kohort.client.net import BrokerConnection, Cluster, FailureLog
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member import UNKNOWN_TOPIC, CoordinatorFound, CoordinatorUnavailable, Event, RequestFailed, Responded, Send
from kohort.wire.codec import EncodeError, Message
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.sync_group import SyncGroupRequest

_log = logging.getLogger(__name__)

_links = count(1)

_HELD_BACK = (JoinGroupRequest, SyncGroupRequest)


class CoordinatorLink:
    """Link of one member to its coordinator.

    `handle` receives the events, never before the call that causes them has returned.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        handle: Callable[[Event], None],
        metrics: GroupMetrics | None = None,
    ) -> None:
        self._metrics = metrics or GroupMetrics(Sampling())
        self._cluster = cluster
        self._group_id = group_id
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._purpose = f"member {next(_links)}"
        self._connection: BrokerConnection | None = None
        self._finding: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._held_back: set[int] = set()
        self._concurrent: set[asyncio.Task[None]] = set()
        self._failures = FailureLog(_log, self._loop.time, "no coordinator", "the coordinator answers again")
        self._refused: type[Message] | None = None
        """Type of the last response that reported an unavailable coordinator."""

    def find(self) -> None:
        """Look up the coordinator. CoordinatorFound or CoordinatorUnavailable follows."""
        self._finding = self._loop.create_task(self._find(), name=f"kohort-find {self._group_id}")

    def send(self, send: Send) -> None:
        """Send a request. Responded or RequestFailed follows."""
        connection = self._connection
        if connection is None:
            self._loop.call_soon(self._handle, RequestFailed(send.request))
            return
        if self._held_back:
            # When a member leaves during a rebalance, the last commit and the LeaveGroup would wait
            # on this connection behind the JoinGroup, which is answered only after the rebalance.
            task = self._loop.create_task(self._send_concurrently(send, connection.peer), name="kohort-aside")
            self._concurrent.add(task)
            task.add_done_callback(self._concurrent.discard)
            return
        try:
            answer = connection.send(send.message, send.timeout_ms)
        except (KafkaError, EncodeError) as problem:
            self._loop.call_soon(self._handle, RequestFailed(send.request, _code(problem)))
            return
        if isinstance(send.message, _HELD_BACK):
            self._held_back.add(send.request)
        self._answers[send.request] = answer
        sent_at = self._loop.time()
        self._metrics.sent(send.message, sent_at)
        answer.add_done_callback(lambda done: self._answered(send, done, sent_at))

    async def stop(self) -> None:
        """Cancel the lookup and drop the results of pending requests."""
        self._answers.clear()
        tasks = [*self._concurrent, *([self._finding] if self._finding else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()

    async def _find(self) -> None:
        try:
            connection = await self._cluster.coordinator(self._group_id, self._purpose)
        except KafkaError as problem:
            self._failed(problem.code, problem.sentence)
            self._handle(CoordinatorUnavailable(problem.code))
            return
        if connection is not self._connection and self._connection is not None:
            self._connection.abort("the group's coordinator moved")
        self._connection = connection
        self._handle(CoordinatorFound())

    def _answered(self, send: Send, done: asyncio.Future[Any], sent_at: float) -> None:
        request = send.request
        self._held_back.discard(request)
        problem = done.exception()
        if self._answers.pop(request, None) is None:
            return
        if problem is None:
            now = self._loop.time()
            self._metrics.answered(send.message, now - sent_at, now)
            self._heard(done.result())
            self._handle(Responded(request, done.result()))
        else:
            assert isinstance(problem, KafkaError)
            self._failed(problem.code, problem.sentence)
            self._handle(RequestFailed(request, problem.code))

    def _heard(self, response: Message) -> None:
        """Log errors that prevent the coordinator from working. The member handles its own errors."""
        unable = [code for code in _codes(response) if code.retriable]
        for code in unable:
            self._refused = type(response)
            self._failed(code, code.sentence)
        # A successful heartbeat does not show that commits work.
        if not unable and self._refused in (None, type(response)):
            self._refused = None
            self._failures.succeeded([f"group={self._group_id}"])

    def _failed(self, code: ErrorCode, why: str) -> None:
        self._failures.failed([f"group={self._group_id}"], code, f"{why}; the member looks for it and asks again")

    async def _send_concurrently(self, send: Send, peer: tuple[str, int]) -> None:
        try:
            connection = await self._cluster.connection_to(peer, f"{self._purpose} aside")
            response = await connection.send(send.message, send.timeout_ms)
        except (KafkaError, EncodeError) as problem:
            self._handle(RequestFailed(send.request, _code(problem)))
        else:
            self._handle(Responded(send.request, response))


def _code(problem: KafkaError | EncodeError) -> ErrorCode:
    # A request cannot be encoded if the broker's version of it lacks a field, such as a
    # subscription regex, which Kafka 3.9 does not support.
    return problem.code if isinstance(problem, KafkaError) else ErrorCode.UNSUPPORTED_VERSION


def _codes(response: Message) -> set[ErrorCode]:
    """Return the error codes of a response, including those of partitions in a commit response."""
    if isinstance(response, OffsetCommitResponse):
        return {error_code(entry.error_code) for topic in response.topics for entry in topic.partitions} - UNKNOWN_TOPIC
    return {error_code(getattr(response, "error_code", 0))}
