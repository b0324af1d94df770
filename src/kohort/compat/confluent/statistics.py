"""Statistics for stats_cb: librdkafka's document, as far as Kohort's clients know it."""

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from kohort.compat.confluent.configuration import Configuration

_MOST = 100
"""Maximum number of documents that wait for a poll."""


class Statistics:
    """Documents of one client, which the thread that polls passes to stats_cb.

    `options` makes Kohort's client write them. `adjust` changes what only the adapter knows.
    """

    def __init__(self, configuration: Configuration, adjust: Callable[[dict[str, Any]], None]) -> None:
        self._callback = configuration.stats_cb
        self._adjust = adjust
        self._texts: deque[str] = deque(maxlen=_MOST)
        every_s = configuration.statistics_interval_s
        self.wanted = self._callback is not None and every_s > 0
        self.options: dict[str, Any] = {}
        if self.wanted:
            every_ms = max(1, int(every_s * 1000))
            self.options = {"on_statistics": self._texts.append, "statistics_interval_ms": every_ms}

    def serve(self) -> None:
        """Call stats_cb with each document that is due."""
        while self._texts:
            document = json.loads(self._texts.popleft())
            self._adjust(document)
            assert self._callback is not None
            self._callback(json.dumps(document))
