"""Virtual time: one agenda for the whole world, and an event loop on it for each process.

The shells of broker and client run unchanged, on an `asyncio` loop whose only clock is the agenda
and whose only sockets are those of the simulated network. A killed process runs nothing any more,
and a stopped one catches up when it is resumed: both are properties of its loop.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from enum import Enum
from typing import Any, Protocol, TypeVar, cast

from kohort.errors import KohortError

_T = TypeVar("_T")


class SleepRequest(Exception):
    """Signal from a thread's work that it sleeps for `seconds`, and must be called again afterwards."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Handle(list[Any]):
    """Scheduled call: its loop, the function, and the arguments. Without a function it is cancelled.

    It is a list because no other object with methods is as cheap to create, and each event creates
    one. It replaces asyncio's own handles, whose constructors format tracebacks and copy contexts
    that the simulation does not use.
    """

    __slots__ = ()

    def cancel(self) -> None:
        self[1] = None

    def cancelled(self) -> bool:
        return self[1] is None


class Agenda:
    """Schedule of all calls, ordered by virtual time and, within an instant, by the order of scheduling."""

    def __init__(self, start: float) -> None:
        self.now = start
        """Current time in seconds."""
        self.events = 0
        """Number of calls made so far."""
        self.halted = False
        """Whether `run` returns after the current call."""
        self.ready: deque[Handle] = deque()
        """Calls scheduled for the current instant, in order."""
        self._later: list[tuple[float, int, Handle]] = []
        self._order = 0

    def later(self, at: float, handle: Handle) -> None:
        """Schedule a call at that time of the world, which may be the current time."""
        self._order += 1
        heapq.heappush(self._later, (at, self._order, handle))

    def clear(self) -> None:
        """Remove all scheduled calls."""
        self.ready.clear()
        self._later.clear()

    def run(self, until: float) -> None:
        """Execute what is due up to that time, unless it is halted."""
        ready, later = self.ready, self._later
        set_loop = _set_running_loop
        running: VirtualLoop | None = None
        events = 0
        try:
            while not self.halted:
                if not ready:
                    if not later or later[0][0] > until:
                        self.now = max(self.now, until)
                        return
                    at, _, handle = heapq.heappop(later)
                    self.now = max(self.now, at)
                else:
                    handle = ready.popleft()
                loop, call, values = handle
                if call is None:
                    continue
                if loop.halted is not None:
                    loop.postpone(handle)
                    continue
                if loop is not running:
                    set_loop(loop)
                    running = loop
                events += 1
                try:
                    call(*values)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as problem:  # noqa: BLE001  a real loop would log it; the world decides
                    loop.failed(problem)
        finally:
            self.events += events
            set_loop(None)


class Halted(Enum):
    """Reason why a loop runs nothing."""

    SUSPENDED = "suspended"
    DEAD = "dead"


class LoopNetwork(Protocol):
    """Network as a loop uses it."""

    async def connect(
        self, loop: VirtualLoop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect to a port."""
        ...

    def listen(self, loop: VirtualLoop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> object:
        """Accept connections to that port."""
        ...


class VirtualLoop(asyncio.BaseEventLoop):
    """Event loop of one process."""

    def __init__(
        self,
        agenda: Agenda,
        name: str,
        network: LoopNetwork | None = None,
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Create the loop. `failed` receives exceptions that escape a callback; without it, they end the run."""
        super().__init__()
        self.name = name
        self.halted: Halted | None = None
        """Reason why nothing runs; None while the process runs."""
        self.rate = 1.0
        """Rate of its clock relative to that of the world."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Tasks that are not done."""
        self.blocking: Callable[[Callable[[], Any]], tuple[float, Callable[[], Any]]] = lambda call: (0.0, call)
        """Function that returns the duration of a thread's work, and the work to do."""
        self._agenda = agenda
        self._instant = agenda.ready
        self._network = network
        self._failed = failed
        self._backlog: list[Handle] = []
        self._since = agenda.now

    # State of the process

    def die(self) -> None:
        """Stop forever: nothing of the process runs any more."""
        self.halted = Halted.DEAD
        self._backlog.clear()

    def stop_running(self) -> None:
        """Stop on SIGSTOP: calls that become due wait."""
        assert self.halted is None
        self.halted = Halted.SUSPENDED

    def resume(self) -> None:
        """Resume on SIGCONT: the waiting calls run now, in order."""
        if self.halted != Halted.SUSPENDED:
            return
        self.halted = None
        backlog, self._backlog = self._backlog, []
        self._instant.extend(backlog)

    def postpone(self, handle: Handle) -> None:
        """Keep a call that became due while the process is stopped."""
        if self.halted == Halted.SUSPENDED:
            self._backlog.append(handle)

    def failed(self, problem: BaseException) -> None:
        """Handle an exception that escaped a callback."""
        if self._failed is None:
            raise problem
        self._failed(problem)

    # Interface of asyncio's loops

    def time(self) -> float:
        return self._since + (self._agenda.now - self._since) * self.rate

    # Types for the callbacks' arguments would have no benefit here.

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        handle = Handle((self, callback, args))
        self._instant.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_soon(callback, *args)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self._at_world(self._agenda.now + max(delay, 0.0) / self.rate, callback, args)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self._at_world(self._agenda.now + max(when - self.time(), 0.0) / self.rate, callback, args)

    def _at_world(self, at: float, callback: Callable[..., object], args: tuple[Any, ...]) -> Handle:
        handle = Handle((self, callback, args))
        self._agenda.later(at, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[_T]:
        task: asyncio.Task[_T] = asyncio.Task(cast("Coroutine[Any, Any, _T]", coro), loop=self, name=str(name))
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a killed process's tasks hang, which is no news
        self.tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self.tasks[task]
        problem = None if task.cancelled() else task.exception()
        # Errors of a network or a broker concern the awaiter; any other error is a bug, whether or not it is
        # awaited.
        if problem is not None and not isinstance(problem, KohortError | OSError):
            self.failed(problem)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Execute a thread's work: its effect and its result occur together, after its duration."""
        future = self.create_future()
        delay, work = self.blocking(lambda: func(*args))

        def done() -> None:
            try:
                result = work()
            except SleepRequest as rest:
                self.call_later(rest.seconds, done)
            except Exception as problem:  # noqa: BLE001  it belongs to the future
                if not future.done():
                    future.set_exception(problem)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(delay, done)
        return future

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self._network is not None
        return await self._network.connect(self, protocol_factory, host, port)

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        assert self._network is not None
        if sock is not None:
            host, port = sock.getsockname()
        return self._network.listen(self, protocol_factory, host, port)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # A garbage collection reports "was never retrieved" at unpredictable times, so it is not an event.
        if isinstance(problem := context.get("exception"), BaseException) and "never" not in context["message"]:
            self.failed(problem)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Ignore: there is no debug mode."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def __del__(self) -> None:
        """Do nothing: no resource needs closing."""
