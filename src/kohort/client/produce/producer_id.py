"""Producer ID for numbering batches, so that brokers discard duplicates (KIP-98)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kohort.client.net import FailureLog, back_off
from kohort.client.options import ProducerOptions
from kohort.errors import KafkaError
from kohort.requests import ProducerId, producer_id_request, read_producer_id
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_log = logging.getLogger(__name__)


class ProducerIdAssignment:
    """Assignment of a producer ID by the cluster.

    `ask` sends a request to any broker. `on_done` is called when the requests end, with or without
    an ID. `on_failure` is called with each failure and returns whether any batch still waits for an
    ID.
    """

    def __init__(
        self,
        ask: Callable[[InitProducerIdRequest], Awaitable[InitProducerIdResponse]],
        options: ProducerOptions,
        on_done: Callable[[], None],
        on_failure: Callable[[KafkaError], bool],
    ) -> None:
        self.current: ProducerId | None = None
        self._ask_cluster = ask
        self._options = options
        self._on_done = on_done
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None
        clock = asyncio.get_running_loop().time
        self._failures = FailureLog(_log, clock, "no producer id", "a producer id was given out")

    def discard(self, used: ProducerId | None) -> None:
        """Discard this producer ID, so that no further batches use it."""
        if used == self.current:
            self.current = None

    def ask(self) -> None:
        """Request a producer ID from the cluster."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._ask(), name="kohort-producer-id")

    async def close(self) -> None:
        """Cancel the request."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self) -> None:
        request = producer_id_request()
        failures = 0
        while self.current is None:
            try:
                self.current = read_producer_id(await self._ask_cluster(request))
                self._failures.succeeded([f"client={self._options.client_id}"])
            except KafkaError as problem:
                self._failures.failed([f"client={self._options.client_id}"], problem.code, problem.sentence)
                if not self._on_failure(problem) or not problem.retriable:
                    break
                failures += 1
                await asyncio.sleep(back_off(self._options, failures))
        self._on_done()
