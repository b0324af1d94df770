"""Future of kafka-python: `get`, and callbacks for the value or the error."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Self, TypeVar

from kohort.compat.kafka_python.errors import KafkaTimeoutError

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Future(Generic[_T]):
    """Result that arrives later. Callbacks run in the client's thread; their exceptions are logged."""

    def __init__(self) -> None:
        self.value: _T | None = None
        self.exception: BaseException | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[_T], object]] = []
        self._errbacks: list[Callable[[BaseException], object]] = []

    @property
    def is_done(self) -> bool:
        """Whether there is a value or an error."""
        return self._done.is_set()

    def succeeded(self) -> bool:
        """Return whether there is a value."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Return whether there is an error."""
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Return whether there is an error after which the same call may succeed."""
        return self.is_done and bool(getattr(self.exception, "retriable", False))

    def success(self, value: _T) -> Self:
        """Set the value and run the callbacks."""
        self.value = value
        for callback in self._end(self._callbacks):
            run(callback, value)
        return self

    def failure(self, error: BaseException) -> Self:
        """Set the error and run the errbacks."""
        self.exception = error
        for errback in self._end(self._errbacks):
            run(errback, error)
        return self

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call `f(*args, value, **kwargs)` when there is a value."""
        if self._added(self._callbacks, call := partial(f, *args, **kwargs)) and self.exception is None:
            run(call, self.value)
        return self

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call `f(*args, error, **kwargs)` when there is an error."""
        if self._added(self._errbacks, call := partial(f, *args, **kwargs)) and self.exception is not None:
            run(call, self.exception)
        return self

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call `f` when there is a value or an error."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)

    def get(self, timeout: float | None = None) -> _T:
        """Wait for up to `timeout` seconds. Return the value or raise the error."""
        if not self._done.wait(timeout):
            raise KafkaTimeoutError(f"Timeout after waiting for {timeout} secs.")
        if self.exception is not None:
            raise self.exception
        return self.value  # type: ignore[return-value]  # it is set, perhaps to None, which _T allows then

    def _end(self, calls: list[Callable[[Any], object]]) -> list[Callable[[Any], object]]:
        with self._lock:
            self._done.set()
            return calls

    def _added(self, calls: list[Callable[[Any], object]], call: Callable[[Any], object]) -> bool:
        """Add a call for later. Return whether it is too late, and the caller runs it if it applies."""
        with self._lock:
            if self.is_done:
                return True
            calls.append(call)
            return False


def run(call: Callable[[Any], object], argument: Any) -> None:
    """Run a callback, and log its exception."""
    try:
        call(argument)
    except Exception:  # noqa: BLE001  it is logged, and the other callbacks run
        _log.exception("a callback of a future failed")
