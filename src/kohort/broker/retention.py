"""What retention.ms and retention.bytes no longer keep is dropped every log.retention.check.interval.ms."""

import asyncio
import logging
from typing import TYPE_CHECKING

from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.broker.server import Broker

log = logging.getLogger("kohort.broker")


class Retention:
    """One task of a running broker; it looks at one partition at a time, so that requests pass between them."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Look no more."""
        self._task.cancel()

    async def apply(self) -> None:
        """Look at every partition once, those that nobody has opened since the start included."""
        topics = self._broker.topics
        for topic in list(topics.all().values()):
            for partition in range(topic.partitions):
                try:
                    if (found := topics.log(topic, partition)) is not None:  # None once the topic is deleted
                        start = found.start_offset
                        found.apply_retention(self._broker.now())
                        if found.start_offset != start:
                            self._broker.parked_fetches.moved((found,))
                except (OSError, KohortError) as error:
                    log.error("retention of %s-%d: %s", topic.name, partition, error)
                await asyncio.sleep(0)
        self._broker.writer.current()  # it deletes the files, in its own time

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._broker.config.number("log.retention.check.interval.ms") / 1000)
            await self.apply()
