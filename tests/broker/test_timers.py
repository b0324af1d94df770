"""Timers: each key fires once, at its last time."""

import asyncio

from kohort.broker.timers import Timers
from kohort.model import Millis


class Clock:
    """A clock that the test sets; the loop's own delays are kept at nothing by setting it past what is due."""

    def __init__(self) -> None:
        self.now: Millis = 0

    def __call__(self) -> Millis:
        return self.now


async def test_the_last_time_wins_and_each_key_fires_once() -> None:
    clock, fired, all_fired = Clock(), list[tuple[str, Millis]](), asyncio.Event()
    timers = Timers(asyncio.get_running_loop(), clock)

    def fire(name: str) -> None:
        fired.append((name, clock.now))
        if name == "last":
            all_fired.set()

    timers.set("a", 1_000_000, lambda now: fire("a at its first time"))
    timers.set("b", 20, lambda now: fire("b"))
    timers.set("cancelled", 15, lambda now: fire("cancelled"))
    timers.set("a", 10, lambda now: fire("a"))
    timers.set("cancelled", None, lambda now: None)
    timers.set("last", 30, lambda now: fire("last"))
    clock.now = 40
    timers.set("now", 0, lambda now: fire("now"))
    async with asyncio.timeout(10):
        await all_fired.wait()
    assert [name for name, _ in fired] == ["now", "a", "b", "last"]
    timers.close()


async def test_a_timer_may_set_another_while_it_fires() -> None:
    clock, done = Clock(), asyncio.Event()
    timers = Timers(asyncio.get_running_loop(), clock)
    clock.now = 10
    timers.set("first", 5, lambda now: timers.set("second", now - 1, lambda now: done.set()))
    async with asyncio.timeout(10):
        await done.wait()
    timers.close()


async def test_what_is_set_again_and_again_does_not_pile_up() -> None:
    timers = Timers(asyncio.get_running_loop(), lambda: 0)
    for round_ in range(1_000):
        for key in range(10):
            timers.set(key, 1_000_000 + round_, lambda now: None)
    assert len(timers._heap) < 200
    timers.close()
