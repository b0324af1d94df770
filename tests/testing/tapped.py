"""A tapped broker inside the test's event loop, and its events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Unpack

from kohort.broker import BrokerOptions
from kohort.testing import CoordinatorStarted, Event, TappedBroker
from kohort.testing.faults import FaultSet
from kohort.testing.rules import Selectors, rule_of
from tests.broker.conftest import QUICK


class Seen(list[Event]):
    """The events so far."""

    def of(self, kind: Any) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self]


@asynccontextmanager
async def tapped(
    settings: dict[str, str] | None = None, data: Path | None = None
) -> AsyncIterator[tuple[TappedBroker, Seen]]:
    """Start a broker with one topic of two partitions, in memory unless a directory is given."""
    seen = Seen()
    options = BrokerOptions(port=0, data=data, settings={**QUICK, **(settings or {})})
    async with TappedBroker(options, observers=[seen.append]) as broker:
        broker.topics.create("orders", 2)
        started = [event.partition for event in seen.of(CoordinatorStarted)]
        assert started == list(range(len(seen)))
        seen.clear()
        yield broker, seen
        assert broker.failures == []


def add(broker: TappedBroker, **selectors: Unpack[Selectors]) -> FaultSet:
    """Add a fault with one rule."""
    return broker.faults.add([rule_of(**selectors)])
