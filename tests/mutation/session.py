"""Run the tests against mutants inside one pytest session.

The session collects once. Then each mutant gets a child of its own by `fork`: the child replaces the code of one
function, runs the tests that call that function (the quickest first) until one fails, and exits. The system stops a
test that does not end because of the mutant; that counts as a failure. Processes that a test starts find the same
mutant through `site/sitecustomize.py`.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import NoReturn

import pytest

from tests.mutation.mutants import Mutant, mutated_code, mutated_tree

SITE = Path(__file__).parent / "site"
_EXIT_SURVIVED, _EXIT_KILLED, _EXIT_NOT_APPLIED = 0, 1, 2

_TIMES = 10.0
"""How many times its time without a mutant each test may take, in addition to what the session grants."""

FunctionKey = tuple[str, str]
"""File name and qualified name of an outermost function."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a mutant."""

    mutant: Mutant
    killed_by: str | None
    """Node id of the failed test, `timeout`, `processor time`, `not applicable`, or None if the mutant survived."""


@dataclass(slots=True)
class Coverage:
    """Functions that each test calls, and the duration of each test."""

    tests: dict[FunctionKey, list[int]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[int, float] = field(default_factory=dict)
    starts_processes: set[int] = field(default_factory=set)
    failed: list[int] = field(default_factory=list)


class MutationSession:
    """A pytest plugin that replaces the run of the tests by one run per mutant."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        *,
        workers: int,
        budget_s: float,
        report: Callable[[Verdict], None],
        processor_s: float = 10.0,
        wall_s: float = 30.0,
    ) -> None:
        """`budget_s` bounds what the chosen tests of one mutant may take, by their times without a mutant.

        Beyond ten times its own time, each test of a mutant may compute for `processor_s` and take `wall_s` in all.
        On a busy machine, a loop without an end needs more of the second to use up the first.
        """
        self.problem: str | None = None
        self._mutants = mutants
        self._workers = workers
        self._budget_s = budget_s
        self._report = report
        self._processor_s = processor_s
        self._wall_s = wall_s

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the coverage in one child, then run every mutant in another."""
        if session.testsfailed:
            self.problem = "collection failed"
            return True
        coverage = _measured(session)
        if coverage is None or coverage.failed:
            names = [session.items[index].nodeid for index in coverage.failed] if coverage else ["the run ended early"]
            self.problem = "tests fail without any mutant: " + ", ".join(names)
            return True
        waiting = list(reversed(self._mutants))
        running: dict[int, _Running] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._workers:
                    mutant = waiting.pop()
                    chosen = self._chosen(coverage, mutant)
                    if chosen:
                        limit = self._wall_s + _TIMES * sum(coverage.seconds[index] for index in chosen)
                        child = _start(session, mutant, chosen, self._bounds(coverage, chosen), limit)
                        running[child.pid] = child
                    else:
                        self._report(Verdict(mutant, None))
                self._reap(running)
        finally:
            for child in running.values():
                child.kill()
        return True

    def _bounds(self, coverage: Coverage, chosen: Sequence[int]) -> dict[int, _Bound]:
        """Return what each of these tests may take."""
        times = {index: _TIMES * coverage.seconds[index] for index in chosen}
        return {index: _Bound(self._processor_s + time, self._wall_s + time) for index, time in times.items()}

    def _chosen(self, coverage: Coverage, mutant: Mutant) -> list[int]:
        calls = set(coverage.tests.get((str(mutant.path.resolve()), mutant.function), ()))
        ordered = sorted(calls, key=lambda index: coverage.seconds[index])
        # Whether a started process calls the function is not known, so these tests come last.
        ordered += sorted(coverage.starts_processes - calls, key=lambda index: coverage.seconds[index])
        chosen: list[int] = []
        total = 0.0
        for index in ordered:
            total += coverage.seconds[index]
            if chosen and total > self._budget_s:
                break
            chosen.append(index)
        return chosen

    def _reap(self, running: dict[int, _Running]) -> None:
        for pid, child in list(running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                child.kill_what_it_started()
                del running[pid]
                self._report(Verdict(child.mutant, child.killed_by(os.waitstatus_to_exitcode(status))))
            elif time.monotonic() > child.until:
                child.kill()
                del running[pid]
                self._report(Verdict(child.mutant, "timeout"))
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class _Bound:
    processor_s: float
    wall_s: float

    def set(self) -> None:
        """Have the system end this process if it takes more from now on.

        A test's own limit does not suffice: a loop without an end in a callback swallows what a signal handler raises.
        Processes that the test starts inherit neither bound; they are killed after this one has ended.
        """
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, self.processor_s)
        faulthandler.dump_traceback_later(self.wall_s, exit=True, file=2)


@dataclass(frozen=True, slots=True)
class _Running:
    pid: int
    mutant: Mutant
    until: float
    pipe: int

    def killed_by(self, exit_code: int) -> str | None:
        with os.fdopen(self.pipe, encoding="utf-8") as pipe:
            told = pipe.read()
        if exit_code == _EXIT_SURVIVED:
            return None
        if exit_code == -signal.SIGPROF:
            return "processor time"
        if exit_code == _EXIT_KILLED:
            return told or "timeout"  # the bound on the wall clock exits with this code and tells nothing
        return "not applicable" if exit_code == _EXIT_NOT_APPLIED else told or f"exit code {exit_code}"

    def kill_what_it_started(self) -> None:
        # A child that the system stops ends none of the processes that its tests started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        self.kill_what_it_started()
        os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self.pipe)


def _forked(work: Callable[[int], int]) -> tuple[int, int]:
    """Run `work` in a child with the end of a pipe to write to; return its pid and the other end."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _child(work, writing)
    os.close(writing)
    return pid, reading


def _child(work: Callable[[int], int], writing: int) -> NoReturn:
    code = 3
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        code = work(writing)
    finally:
        with contextlib.suppress(OSError):
            os.close(writing)
        os._exit(code)


def _start(
    session: pytest.Session, mutant: Mutant, chosen: Sequence[int], bounds: Mapping[int, _Bound], limit_s: float
) -> _Running:
    def work(pipe: int) -> int:
        if not _plant(mutant):
            return _EXIT_NOT_APPLIED
        failed = _run(session, chosen, stop_at_first=True, on_each=lambda index: bounds[index].set())
        if failed:
            os.write(pipe, session.items[failed[0]].nodeid.encode())
        return _EXIT_KILLED if failed else _EXIT_SURVIVED

    pid, pipe = _forked(work)
    return _Running(pid, mutant, time.monotonic() + limit_s, pipe)


def _run(
    session: pytest.Session, chosen: Sequence[int], *, stop_at_first: bool, on_each: Callable[[int], None] | None = None
) -> list[int]:
    """Run these of the collected tests as pytest does; return those that failed."""
    failures: set[str] = set()

    class Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failures.add(report.nodeid)

    session.config.pluginmanager.register(Listener())
    failed = []
    for place, index in enumerate(chosen):
        item = session.items[index]
        if on_each is not None:
            on_each(index)
        following = session.items[chosen[place + 1]] if place + 1 < len(chosen) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.nodeid in failures:
            failed.append(index)
            if stop_at_first:
                with contextlib.suppress(Exception):  # the mutant may break the teardown, too
                    session._setupstate.teardown_exact(None)
                break
    return failed


# -- coverage


def _measured(session: pytest.Session) -> Coverage | None:
    """Run every test once without a mutant, in a child."""

    def work(pipe: int) -> int:
        with os.fdopen(os.dup(pipe), "w", encoding="utf-8") as told:
            json.dump(_observe(session), told)
        return 0

    pid, reading = _forked(work)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    if not text:
        return None
    coverage = Coverage()
    observed = json.loads(text)
    coverage.failed = observed["failed"]
    coverage.starts_processes = set(observed["starts_processes"])
    coverage.seconds = dict(enumerate(observed["seconds"]))
    for index, calls in enumerate(observed["calls"]):
        for file_name, function in calls:
            coverage.tests[file_name, function].append(index)
    return coverage


def _observe(session: pytest.Session) -> dict[str, object]:
    count = len(session.items)
    calls: list[set[CodeType]] = [set() for _ in range(count)]
    seconds = [0.0] * count
    starts: set[int] = set()
    current, began = 0, time.monotonic()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[current].add(frame.f_code)

    def audit(event: str, _arguments: tuple[object, ...]) -> None:
        if event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
            starts.add(current)

    def on_each(index: int) -> None:
        nonlocal current, began
        now = time.monotonic()
        seconds[current] += now - began
        current, began = index, now

    sys.addaudithook(audit)
    threading.setprofile(profile)
    sys.setprofile(profile)
    failed = _run(session, range(count), stop_at_first=False, on_each=on_each)
    sys.setprofile(None)
    on_each(current)
    # A session's broker is started by the first test that uses it; the others use it by the same fixture.
    fixtures = {name for index in starts for name in _shared_fixtures(session.items[index])}
    starts |= {index for index, item in enumerate(session.items) if fixtures & set(_shared_fixtures(item))}
    return {
        "failed": failed,
        "starts_processes": sorted(starts),
        "seconds": seconds,
        # A thread that a test left behind is still profiled and adds to its set: a copy is made in one step.
        "calls": [sorted({_key(code) for code in codes.copy()}) for codes in calls],
    }


def _shared_fixtures(item: pytest.Item) -> list[str]:
    names = getattr(item, "fixturenames", [])
    return [name for name in names if name.endswith(("broker", "kafka"))]


def _key(code: CodeType) -> FunctionKey:
    return os.path.realpath(code.co_filename), code.co_qualname.split(".<locals>")[0]


# -- planting


def _plant(mutant: Mutant) -> bool:
    """Put the mutant's code into the running function, and tell processes that a test starts of it."""
    path = mutant.path.resolve()
    loaded = [name for name, module in list(sys.modules.items()) if _file(module) == path]
    for name in loaded:
        for function in _functions(sys.modules[name], mutant.function):
            if function.__code__.co_firstlineno == mutant.first_line:
                code = mutated_code(mutant, function.__code__.co_filename)
                if code is None or code.co_freevars != function.__code__.co_freevars:
                    return False
                function.__code__ = code
    source = Path(os.environ["KOHORT_MUTATION_DIRECTORY"]) / f"{os.getpid()}.py"
    source.write_text(ast.unparse(mutated_tree(mutant)), encoding="utf-8")
    os.environ["KOHORT_MUTANT_SOURCE"] = str(source)
    os.environ["KOHORT_MUTANT_MODULE"] = ".".join(path.with_suffix("").parts[path.parts.index("src") + 1 :])
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return True


def _file(module: object) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if isinstance(name, str) else None


def _functions(module: object, qualified_name: str) -> Iterator[FunctionType]:
    """Yield the functions of that name, below whatever decorates them."""
    *scopes, name = qualified_name.split(".")
    holder = module
    for scope in scopes:
        holder = getattr(holder, scope, None)
    with contextlib.suppress(AttributeError):
        yield from _unwrapped(inspect.getattr_static(holder, name))


def _unwrapped(found: object) -> Iterator[FunctionType]:
    if isinstance(found, FunctionType):
        yield found
        found = getattr(found, "__wrapped__", None)
        if found is not None:
            yield from _unwrapped(found)
        return
    for attribute in ("__func__", "fget", "fset", "func", "__wrapped__"):
        inner = getattr(found, attribute, None)
        if inner is not None:
            yield from _unwrapped(inner)
