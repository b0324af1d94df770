"""Virtual time: one agenda for the whole world, and an event loop for each process on it.

The broker's and the client's shells run as they are, on an `asyncio` loop that has no clock but the agenda and no
socket but those of the simulated network. A process that is killed runs nothing any more, one that is stopped catches
up when it goes on: both are properties of its loop.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.sim.network import Network

_T = TypeVar("_T")


class Resting(Exception):
    """The work of a thread sleeps for so many seconds, and is then to be called again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Handle(list[Any]):
    """One thing to do: whose loop it is of, what to call, and with what. Without a call it is cancelled.

    A list, because no other object with a method is made as cheaply, and each event makes one. It stands in for
    asyncio's own handles, whose constructors format tracebacks and copy contexts that nobody here looks at.
    """

    __slots__ = ()

    def cancel(self) -> None:
        self[1] = None

    def cancelled(self) -> bool:
        return self[1] is None


class Agenda:
    """All that is to be done, in the order of virtual time and, within an instant, of asking."""

    def __init__(self, start: float) -> None:
        self.now = start
        """Seconds."""
        self.events = 0
        """Calls made so far."""
        self.halted = False
        """Somebody has seen enough: `run` returns after the call under way."""
        self.ready: deque[Handle] = deque()
        """To be done in this instant, in this order."""
        self._later: list[tuple[float, int, Handle]] = []
        self._order = 0

    def later(self, at: float, handle: Handle) -> None:
        """At that time of the world, which may be now."""
        self._order += 1
        heapq.heappush(self._later, (at, self._order, handle))

    def clear(self) -> None:
        """Nothing more will happen."""
        self.ready.clear()
        self._later.clear()

    def run(self, until: float) -> None:
        """Do what is due up to that time, unless it is halted."""
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
                if loop.stands is not None:
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
                except BaseException as problem:  # noqa: BLE001  what a real loop would log, the world judges
                    loop.failed(problem)
        finally:
            self.events += events
            set_loop(None)


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one process."""

    def __init__(
        self,
        agenda: Agenda,
        name: str,
        network: Network | None = None,
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`failed` is told what escapes a callback; without it, the exception ends the run."""
        super().__init__()
        self.name = name
        self.stands: str | None = None
        """Why nothing runs: the process is "stopped", or it is "dead" for good."""
        self.rate = 1.0
        """How fast its clock goes; the world's is 1."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Those that are not done."""
        self.blocking: Callable[[Callable[[], Any]], tuple[float, Callable[[], Any]]] = lambda call: (0.0, call)
        """How long work for a thread takes, and what it comes to."""
        self._agenda = agenda
        self._instant = agenda.ready
        self._network = network
        self._failed = failed
        self._backlog: list[Handle] = []
        self._since = agenda.now

    # Life of the process

    def die(self) -> None:
        """Nothing of it runs any more."""
        self.stands = "dead"
        self._backlog.clear()

    def stop_running(self) -> None:
        """SIGSTOP: what becomes due waits."""
        assert self.stands is None
        self.stands = "stopped"

    def go_on(self) -> None:
        """SIGCONT: what waited runs now, in its order."""
        if self.stands != "stopped":
            return
        self.stands = None
        backlog, self._backlog = self._backlog, []
        self._instant.extend(backlog)

    def postpone(self, handle: Handle) -> None:
        """Keep for later what came while the process stands."""
        if self.stands == "stopped":
            self._backlog.append(handle)

    def failed(self, problem: BaseException) -> None:
        """Something escaped a callback."""
        if self._failed is None:
            raise problem
        self._failed(problem)

    # What asyncio asks of a loop

    def time(self) -> float:
        return self._since + (self._agenda.now - self._since) * self.rate

    # The types of the callbacks' arguments would buy nothing here.

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
        # What a network or a broker caused is its awaiter's; anything else is a bug, whoever awaits it.
        if problem is not None and not isinstance(problem, KohortError | OSError):
            self.failed(problem)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """The work of a thread: its effect and its result come together, after the time that it takes."""
        future = self.create_future()
        delay, work = self.blocking(lambda: func(*args))

        def done() -> None:
            try:
                result = work()
            except Resting as rest:
                self.call_later(rest.seconds, done)
            except Exception as problem:  # noqa: BLE001  it is the future's
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

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self._network is not None
        return self._network.listen(self, protocol_factory, host, port)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # What a garbage collection finds ("was never retrieved") comes at no certain time, so it is no event.
        if isinstance(problem := context.get("exception"), BaseException) and "never" not in context["message"]:
            self.failed(problem)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """There is none."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def __del__(self) -> None:
        """Nothing is open that would have to be closed."""
