"""Retention: delete what exceeds retention.ms or retention.bytes, every log.retention.check.interval.ms."""

import asyncio
import logging
from typing import Protocol

from kohort.broker.clock import Clock
from kohort.broker.config import BrokerConfig
from kohort.broker.fetch import WaitingFetches
from kohort.broker.groups import Timers
from kohort.broker.logs import Topics, Writer
from kohort.errors import KohortError


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    waiting_fetches: WaitingFetches
    timers: Timers
    topics: Topics
    writer: Writer
    clock: Clock


log = logging.getLogger("kohort.broker")


class Retention:
    """The retention task of a running broker; it yields to requests after each partition."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._is_due = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Stop the task."""
        self._task.cancel()

    async def apply(self) -> None:
        """Apply retention once to every partition, including those not opened since the start."""
        topics = self._broker.topics
        for topic in list(topics.all().values()):
            for partition in range(topic.partitions):
                try:
                    if (found := topics.log(topic, partition)) is not None:  # None once the topic is deleted
                        start = found.start_offset
                        found.apply_retention(self._broker.clock.written_before)
                        if found.start_offset != start:
                            self._broker.waiting_fetches.moved((found,))
                except (OSError, KohortError) as error:
                    log.error("retention of %s-%d: %s", topic.name, partition, error)
                await asyncio.sleep(0)
        self._broker.writer.current()  # the writer deletes the files later

    async def _run(self) -> None:
        while True:
            interval = self._broker.config.number("log.retention.check.interval.ms")
            self._is_due.clear()
            self._broker.timers.set(self, self._broker.clock.now() + interval, lambda _: self._is_due.set())
            await self._is_due.wait()
            await self.apply()
