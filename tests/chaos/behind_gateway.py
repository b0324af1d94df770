"""A cluster behind `kohort gateway`: the gateway is killed, too, and started again at the same address."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.history import History
from tests.gateway.ports import consecutive_free_ports
from tests.interop.kohort import kohort
from tests.interop.process import ServerProcess

if TYPE_CHECKING:
    from tests.chaos.storm import NewSite, Site

_KILLS = 0.3
"""Part of the faults that hit the gateway."""
_AWAY_S = 2.0
"""Longest time until it is started again."""
_UP_PER_AWAY = 2.0
"""A gateway that was away is up for at least so many times as long.

It starts slowly on a busy machine. Clients wait up to 10 s between two attempts to connect, and one whose gateway is
always away at that moment does not learn that its session has ended.
"""
_READY_S = 30.0


class Uptime:
    """How long the gateway has been up and away, in seconds of one clock."""

    def __init__(self, now: float) -> None:
        """It is away until it has started."""
        self._away_since = self._up_since = now

    def killed(self, now: float) -> None:
        self._away_since = now

    def ready(self, now: float) -> None:
        self._up_since = now

    def is_due(self, now: float) -> bool:
        """Return whether it has been up for so long that it may be killed."""
        return now - self._up_since >= _UP_PER_AWAY * (self._up_since - self._away_since)


class BehindGateway:
    """The faults of another site, and those of its gateway. Clients know the address of the gateway only."""

    def __init__(
        self, site: Site, bootstrap: str, start: Callable[[], ServerProcess], chance: random.Random, history: History
    ) -> None:
        self.bootstrap = bootstrap
        self._site = site
        self._start = start
        self._chance = chance
        self._history = history
        self._killed = 0
        self._uptime = Uptime(time.monotonic())
        self.process = self._started()

    @property
    def failovers(self) -> int:
        """How often others led what a broker led, or the gateway was replaced."""
        return self._site.failovers + self._killed

    def inject_fault(self) -> None:
        """Kill the gateway and start it again after a while, or do something to a broker."""
        if self._chance.random() >= _KILLS or not self._uptime.is_due(time.monotonic()):
            self._site.inject_fault()
            return
        self._history.note("fault", what="kill_gateway", node=0)
        self.process.kill()
        self._uptime.killed(time.monotonic())
        if self._chance.random() < 0.5:
            self._site.inject_fault()  # both at once
        time.sleep(self._chance.uniform(0.0, _AWAY_S))  # as long as a supervisor may take
        self.process = self._started()
        self._killed += 1

    def settle(self, brokers: int) -> None:
        """Wait until all brokers are there and lead their shares."""
        self._site.settle(brokers)

    def _started(self) -> ServerProcess:
        process = self._start()
        self._uptime.ready(time.monotonic())
        self._history.note("ready", what="gateway")
        return process


def behind_gateway(site_of: NewSite) -> NewSite:
    """Return the sites of that kind, each behind a gateway."""

    @contextmanager
    def site(
        directory: Path, brokers: int, settings: Mapping[str, str], chance: random.Random, history: History
    ) -> Iterator[Site]:
        with site_of(directory, brokers, settings, chance, history) as inner:
            port = consecutive_free_ports(1 + brokers)
            options = ("--listen", f"127.0.0.1:{port}", "--node-ids", f"1-{brokers}")
            command = kohort("gateway", "--upstream", inner.bootstrap, *options)
            logged = ["sh", "-c", 'exec "$@" 2>>"$0"', str(directory / "gateway.log"), *command]

            def start() -> ServerProcess:
                process = ServerProcess(logged)
                process.wait_for("^ready ", _READY_S)
                return process

            outer = BehindGateway(inner, f"127.0.0.1:{port}", start, chance, history)
            try:
                yield outer
            finally:
                outer.process.stop()

    return site
