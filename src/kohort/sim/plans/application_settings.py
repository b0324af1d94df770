"""Settings of a simulated application, as a plan stores them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kohort.model import Millis


@dataclass(slots=True)
class ApplicationSettings:
    """Settings of one application. Times are in milliseconds, as in Kafka's configs."""

    group: str
    topics: tuple[str, ...]
    assignors: str = "range"
    instance: str | None = None
    session: Millis = 10_000
    heartbeat: Millis = 3_000
    max_poll: Millis = 30_000
    poll_every: Millis = 1_000
    commit_every: Millis = 5_000
    callback: Millis = 0
    """Duration of a callback, in addition to its commit."""
    batch: int = 10
    """Maximum number of records processed between two polls."""
    protocol: str = "classic"
    pattern: str = ""
    """Regular expression of the topics to subscribe to, instead of names.

    This setting and those below apply to the consumer protocol only.
    """
    remote: str = ""
    """Server-side assignor that it requests."""
    local: str = ""
    """Client-side assignors with which it offers to compute the group's assignment."""
    weight: int = 0
    """Weight relative to other members; 0 to send none."""

    def wants(self, topic: str) -> bool:
        """Return whether it subscribes to that topic."""
        return re.fullmatch(self.pattern, topic) is not None if self.pattern else topic in self.topics
