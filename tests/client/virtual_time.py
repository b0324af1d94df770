"""Coroutines in virtual time: hours pass in a moment, and times are exact."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kohort.sim.environment.loop import Agenda, VirtualLoop

_T = TypeVar("_T")


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, _T]], hours: float = 24.0) -> _T:
    """Run `work` in a loop whose time passes at once while everything waits; return its result."""
    agenda = Agenda(1_000.0)
    loop = VirtualLoop(agenda, "test")
    task = loop.create_task(work())
    task.add_done_callback(lambda _: setattr(agenda, "halted", True))
    agenda.run(agenda.now + hours * 3_600)
    assert task.done(), "it waits for something that never comes"
    return task.result()
