"""Requests of AdminClient, which run one after another in a thread."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

from kohort.compat.confluent.clients import LimitedAdmin
from kohort.compat.confluent.configuration import read_configuration
from kohort.compat.confluent.errors import invalid, raising

T = TypeVar("T")


class Requests:
    """Client whose methods start requests and return futures."""

    def __init__(self, *configuration: Any, **options: Any) -> None:
        self._configuration = read_configuration(configuration, options, "admin")
        with raising():
            self._client = LimitedAdmin(**self._configuration.kohort)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="kohort-admin")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._worker.shutdown()
        self._client.close()

    def poll(self, timeout: float | None = -1) -> int:
        """Return 0: the client has no callbacks, and its futures complete without `poll`."""
        return 0

    def soon(self, limit_s: float | None, work: Callable[[LimitedAdmin], T]) -> "Future[T]":
        """Run `work` in the thread, for up to `limit_s` seconds."""

        def run() -> T:
            with raising():
                return work(self._client.within(limit_s))

        return self._worker.submit(run)

    def now(self, limit_s: float | None, work: Callable[[LimitedAdmin], T]) -> T:
        """Run `work` in the thread and wait for it."""
        return self.soon(limit_s, work).result()


def not_twice(names: Iterable[str]) -> None:
    """Raise an error for an empty list, or one that has a name twice."""
    listed = list(names)
    if not listed:
        raise ValueError("expected a list that is not empty")
    if len(set(listed)) < len(listed):
        raise invalid("a name is in the list twice")
