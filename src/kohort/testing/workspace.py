"""What one test has of a kit's brokers: topics and groups under a prefix of its own, and what happened to them."""

import itertools
import logging
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from kohort.errors import KohortError
from kohort.recorder import RebalanceRecord
from kohort.testing.broker import Broker, Cluster, FaultHandle
from kohort.testing.group import Group
from kohort.testing.last_requests import LastRequests
from kohort.testing.rules import Selectors
from kohort.testing.topic import Topic
from kohort.testing.verdict import VerdictError

log = logging.getLogger("kohort.testing")

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")
_LONGEST_NAME = 60
_numbers = itertools.count(1)
_closed: set[str] = set()
"""Prefixes of the tests that are over."""


def check(broker: Broker | Cluster) -> None:
    """Raise VerdictError if a client of the present test broke what must always hold."""
    __tracebackhide__ = True
    violations = broker._take_violations(lambda violation: True)
    for violation in violations:
        if violation.group.startswith(tuple(_closed)):
            log.warning("A client that an earlier test did not close goes on: %s", violation)
    own = [violation for violation in violations if not violation.group.startswith(tuple(_closed))]
    if own:
        raise VerdictError(own)


class Workspace:
    """A test's own topics and groups, on brokers that other tests use before and after it.

    topic(name, partitions)    creates a topic and returns its whole name, with methods (`Topic`)
    group(name)                returns a whole group ID, with methods (`Group`)
    bootstrap_servers          for clients
    broker                     the `Broker` or `Cluster`, for everything else
    """

    def __init__(self, broker: Broker | Cluster, name: str, *, partitions: int = 1) -> None:
        """`partitions` is the number for topics that do not say it."""
        self.broker = broker
        short = _NOT_IN_NAMES.sub("-", name)[:_LONGEST_NAME].strip("-")
        self.prefix = f"{next(_numbers)}-{short}-"
        """The beginning of all names of this test. The number is first, so that none begins as that of another test."""
        self._partitions = partitions
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, Group] = {}
        self._lock = threading.Lock()
        self._allowed = broker._allowed()
        self._last_requests = LastRequests()
        broker.observe(self._last_requests.observe)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers, as clients take them: HOST:PORT,..."""
        return self.broker.bootstrap_servers

    def fault(self, **selectors: Unpack[Selectors]) -> FaultHandle:
        """Let requests fail, or their answers be lost or late, until the test ends; see `Broker.fault`."""
        return self.broker.fault(**selectors)

    def topic(
        self,
        name: str = "topic",
        partitions: int | None = None,
        *,
        configs: Mapping[str, str] | None = None,
        replicas: int = 1,
    ) -> Topic:
        """Return the test's topic of that name, created at the first call. Raise KafkaError."""
        with self._lock:
            found = self._topics.get(name)
            if found is None:
                count = self._partitions if partitions is None else partitions
                self.broker.create_topic(self.prefix + name, count, configs=configs, replicas=replicas)
                found = self._topics[name] = self.broker.topic(self.prefix + name)
                return found
        if partitions is not None and found.partitions != partitions:
            raise KohortError(f"Topic {name} of this test has {found.partitions} partitions, not {partitions}.")
        return found

    def group(self, name: str = "group") -> Group:
        """Return the ID of the test's group of that name. The group exists as soon as a client joins it or commits."""
        return self._groups.setdefault(name, self.broker.group(self.prefix + name))

    @property
    def rebalances(self) -> list[RebalanceRecord]:
        """The rebalances of all groups whose IDs begin with the prefix, the earliest first."""
        return [record for record in self.broker.rebalances if record.group_id.startswith(self.prefix)]

    @property
    def last_requests(self) -> str:
        """The last requests of each client, with what the broker answered, as text."""
        return str(self._last_requests)

    def check(self) -> None:
        """Raise VerdictError if a client of this test broke what must always hold."""
        __tracebackhide__ = True  # pytest shows the test, not this function
        check(self.broker)

    def draw(self, directory: Path) -> list[Path]:
        """Write a picture of each group's partitions over time, and return the files. Raise KohortError."""
        from kohort.recorder.views import draw

        files = []
        records = self.rebalances
        for group_id in dict.fromkeys(record.group_id for record in records):
            directory.mkdir(parents=True, exist_ok=True)
            files.append(directory / f"{_NOT_IN_NAMES.sub('-', group_id)}.png")
            draw([record for record in records if record.group_id == group_id], files[-1])
        return files

    def close(self) -> None:
        """Remove all faults, undo what the test took away, let time pass as it does, and delete the test's topics.

        Its groups stay, without effect on others. What the test allowed is no longer allowed.
        """
        _closed.add(self.prefix)
        self.broker.clear_faults()
        self.broker.undo_all()
        self.broker._allow_only(self._allowed)
        self.broker.scale_time(1)
        self.broker.unobserve(self._last_requests.observe)
        self.broker._run(self._delete_topics)
        self.broker._forget(self._topics.values(), self._groups.values())

    def _delete_topics(self) -> None:
        node = self.broker.nodes[0]
        for name in self._topics.values():
            topic = node.topics.named(name)
            if topic is not None:  # otherwise the test has deleted it
                node.delete_topic(topic)
