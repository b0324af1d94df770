"""Timers: each key fires once, at its last time."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from kohort.broker import Clock
from kohort.broker.groups.timers import Timers
from kohort.model import Millis
from kohort.sim.environment.loop import Agenda, VirtualLoop
from kohort.sim.environment.network import Network


class Time:
    """A clock that the test sets; the loop's own delays are kept at nothing by setting it past what is due."""

    def __init__(self) -> None:
        self.now: Millis = 0

    def __call__(self) -> Millis:
        return self.now


async def test_the_last_time_wins_and_each_key_fires_once() -> None:
    clock, fired, all_fired = Time(), list[tuple[str, Millis]](), asyncio.Event()
    timers = Timers(asyncio.get_running_loop(), Clock(clock))

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
    clock, done = Time(), asyncio.Event()
    timers = Timers(asyncio.get_running_loop(), Clock(clock))
    clock.now = 10
    timers.set("first", 5, lambda now: timers.set("second", now - 1, lambda now: done.set()))
    async with asyncio.timeout(10):
        await done.wait()
    timers.close()


async def test_setting_a_timer_repeatedly_keeps_one_entry() -> None:
    timers = Timers(asyncio.get_running_loop(), Clock(lambda: 0))
    for round_ in range(1_000):
        for key in range(10):
            timers.set(key, 1_000_000 + round_, lambda now: None)
    assert len(timers._heap) < 200
    timers.close()


class Virtual:
    """Timers in virtual time, which notes what fires and when."""

    def __init__(self, kind: type[Timers] = Timers) -> None:
        self.agenda = Agenda(1_000.0)
        network = Network(self.agenda, Random(1), lambda end, data: None)
        self.loop = VirtualLoop(self.agenda, "timers", network)
        self.timers = kind(self.loop, Clock(self.now))
        self.fired: list[tuple[str, Millis]] = []

    def now(self) -> Millis:
        return round(self.loop.time() * 1000)

    def set(self, name: str, after: Millis) -> None:
        self.timers.set(name, self.now() + after, self.fires(name))

    def fires(self, name: str) -> Callable[[Millis], None]:
        def note(now: Millis) -> None:
            assert now == self.now()
            self.fired.append((name, now - 1_000_000))

        return note

    def let_pass(self, milliseconds: Millis) -> None:
        self.agenda.run(self.agenda.now + milliseconds / 1000)


def test_each_timer_fires_at_its_time() -> None:
    world = Virtual()
    world.set("late", 3_600_000)
    world.set("early", 5)
    world.set("between", 60_000)
    world.set("with it", 60_000)
    world.set("first", 1)
    world.let_pass(7_200_000)
    assert world.fired == [
        ("first", 1), ("early", 5), ("between", 60_000), ("with it", 60_000), ("late", 3_600_000)
    ]  # fmt: skip
    world.set("again", 100)
    world.let_pass(1_000)
    assert world.fired[-1] == ("again", 7_200_100)
    assert not world.timers._due


def test_due_timers_fire_before_timers_that_they_set() -> None:
    world = Virtual()
    world.timers.set("one", world.now() + 10, lambda now: world.set("later", 10))
    world.set("two", 20)
    world.let_pass(100)
    assert world.fired == [("two", 20), ("later", 20)]


def test_an_earlier_timer_takes_the_place_of_the_one_that_is_awaited() -> None:
    world = Virtual()
    world.set("late", 1_000)
    awaited = world.timers._handle
    world.set("early", 10)
    assert awaited is not None and awaited.cancelled()
    world.let_pass(2_000)
    assert world.fired == [("early", 10), ("late", 1_000)]


def test_nothing_fires_after_the_end() -> None:
    Virtual().timers.close()
    world = Virtual()
    world.set("a", 10)
    awaited = world.timers._handle
    world.timers.close()
    assert awaited is not None and awaited.cancelled()
    world.timers.set("ends all", world.now() + 10, lambda now: world.timers.close())
    world.set("with it", 10)
    world.let_pass(1_000)
    assert world.fired == []
    assert world.timers._handle is None


class Counted(Timers):
    """Counts how often all entries are looked at."""

    looks = 0

    def _drop_stale(self) -> None:
        self.looks += 1
        super()._drop_stale()


def test_those_that_were_set_again_and_again_fire_once_each_at_their_last_time() -> None:
    world = Virtual(Counted)
    for round_ in range(100):
        for name in "dcba":
            world.set(name, 1_000 + round_ + 200 * "dcba".index(name))
    assert isinstance(world.timers, Counted)
    assert 1 <= world.timers.looks <= 400 / 16, "once for many"
    world.let_pass(10_000)
    assert world.fired == [("d", 1_099), ("c", 1_299), ("b", 1_499), ("a", 1_699)]


def test_timers_that_are_all_of_use_are_not_looked_at_each_time() -> None:
    world = Virtual(Counted)
    for number in range(1_000):
        world.set(f"{number}", 1_000 + number)
    for number in range(10):
        world.timers.set(f"{number}", None, lambda now: None)
    assert isinstance(world.timers, Counted)
    assert world.timers.looks == 0
    few = Virtual(Counted)
    for _ in range(60):
        few.set("one", 10)
    assert isinstance(few.timers, Counted)
    assert few.timers.looks == 0


@pytest.mark.parametrize("seed", range(8))
def test_timers_that_are_set_again_and_again_take_no_other_along(seed: int) -> None:
    world, random = Virtual(Counted), Random(seed)
    last: dict[str, Millis] = {}
    for number in range(40):
        for busy in range(9):
            name = f"busy {busy % 3}"
            last[name] = random.randrange(1, 10_000)
            world.set(name, last[name])
        last[f"{number}"] = random.randrange(1, 10_000)
        world.set(f"{number}", last[f"{number}"])
    assert isinstance(world.timers, Counted)
    assert world.timers.looks
    world.let_pass(10_000)
    assert dict(world.fired) == last
    assert [at for _, at in world.fired] == sorted(last.values())


def test_overdue_timers_fire_at_once() -> None:
    world = Virtual()
    world.set("now", 0)
    world.set("before", -1_000)
    world.let_pass(0)
    assert world.fired == [("before", 0), ("now", 0)]


def test_timers_that_a_jump_of_the_clock_makes_due_fire_at_once_in_order_of_time() -> None:
    world = Virtual()
    ahead = 0
    timers = Timers(world.loop, Clock(lambda: world.now() + ahead))
    fired: list[tuple[str, Millis]] = []
    for name, after in (("late", 60_000), ("early", 10_000), ("after it", 100_000)):
        timers.set(name, world.now() + after, lambda now, name=name: fired.append((name, now)))  # type: ignore[misc]
    ahead = 70_000
    timers.clock_changed()
    assert fired == [("early", 1_070_000), ("late", 1_070_000)]
    world.let_pass(29_999)
    assert len(fired) == 2
    world.let_pass(1)
    assert fired[2:] == [("after it", 1_100_000)]


def test_postponed_timers_fire_later_and_the_others_do_not() -> None:
    world = Virtual()
    for name, after in (("a", 10), ("b", 20), ("c", 30), ("a", 15)):
        world.set(name, after)
    world.timers.set("c", None, lambda now: None)
    world.timers.postpone({"a", "c", "never set"}, 100)
    world.let_pass(1_000)
    assert world.fired == [("b", 20), ("a", 115)]
