"""Options of the clients that watch a cluster, and what their errors mean."""

import asyncio
import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from kohort.client import Admin, AdminOptions, ClientOptions, Cluster, Consumer, ConsumerOptions, ErrorCode, KafkaError
from kohort.model import Millis

_TIMEOUT_MS = 15_000
"""Longest time for which a question is repeated before the source counts as failed."""
_LOG = {
    "group_id": None,
    # A position that the log does not have any more is behind its start: nothing later was read.
    "auto_offset_reset": "earliest",
    # A transaction's commits count when it is committed, as for the members of the group.
    "isolation_level": "read_committed",
    # Commits arrive in a steady stream. To fetch them together costs a tenth of fetching each.
    "fetch_min_bytes": 1 << 20,
    "fetch_max_wait_ms": 250,
    # A group's rebalance in one record can be larger than the default size of a fetch.
    "max_partition_fetch_bytes": 4 << 20,
    # Of a long history, one response is decoded while the next is on its way, and none takes long.
    "fetch_max_bytes": 16 << 20,
}

_UNREAD = {
    "group_id": None,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
    "max_partition_fetch_bytes": 1,
    "fetch_max_bytes": 1,
    # A fetch that finds nothing must not hold up the next one, which is of another partition.
    "fetch_max_wait_ms": 50,
}

DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


def admin(options: Mapping[str, Any]) -> Admin:
    """Return an admin client with those of the options that it has."""
    return Admin(**_for(AdminOptions, options))


def cluster(options: Mapping[str, Any]) -> Cluster:
    """Return a client for single requests with those of the options that it has."""
    return Cluster(ClientOptions.read(_for(ClientOptions, options)))


async def cluster_id(options: Mapping[str, Any]) -> str:
    """Return the cluster's ID, once it answers; empty if it has none. Errors that repetition cannot end are raised."""
    async with admin(options) as asked:
        while True:
            try:
                return (await asked.describe_cluster()).cluster_id or ""
            except KafkaError as problem:
                if not problem.code.retriable:
                    raise
                await asyncio.sleep(1.0)


def log_consumer(options: Mapping[str, Any]) -> Consumer:
    """Return a consumer of a log, which is in no group and has no partitions yet."""
    return Consumer(**(_for(ConsumerOptions, options) | _LOG))


def unread_consumer(options: Mapping[str, Any]) -> Consumer:
    """Return a consumer that fetches one batch at a time."""
    return Consumer(**(_for(ConsumerOptions, options) | _UNREAD))


def _for(kind: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    known = {"default_api_timeout_ms": _TIMEOUT_MS, **options}
    return {name: value for name, value in known.items() if name in kind.__dataclass_fields__}


def columns_are_installed() -> bool:
    """Return whether logs can be read as columns."""
    return os.environ.get("KOHORT_FAST") != "0" and all(find_spec(name) for name in ("numba", "numpy", "pyarrow"))


def sentence(problem: KafkaError) -> str:
    """Return what went wrong as a sentence."""
    text = str(problem)
    return text if text.endswith(".") else f"{text}."


class ClockJumps:
    """Notices that the clock was set, by the time that passed on another one. Also a machine that slept is noticed."""

    def __init__(self) -> None:
        self._difference: float | None = None

    def jumped(self, now: Millis, monotonic_s: float) -> bool:
        """Return whether the clock was set by a second or more since the last call."""
        before, self._difference = self._difference, now - 1_000 * monotonic_s
        return before is not None and abs(self._difference - before) >= 1_000


def clock() -> Millis:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
