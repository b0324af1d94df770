"""Interface of a broker for tests, Kohort or Apache Kafka."""

from __future__ import annotations

from typing import Protocol


class Broker(Protocol):
    """Any running broker."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int: ...
