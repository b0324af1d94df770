"""Which connection makes room for another one, when too many are not authenticated."""

from __future__ import annotations

from kohort.broker.net.newcomers import Newcomers


class Line:
    """Connections that are named by their host and a number, and a clock."""

    def __init__(self, *names: str) -> None:
        self.now = 100.0
        self.newcomers = Newcomers(lambda: self.now)
        self.dropped: list[str] = []
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self.newcomers.add(name, name[0], lambda _: self.dropped.append(name))


def test_there_is_room_until_there_are_too_many() -> None:
    line = Line("a1", "b1")
    assert line.newcomers.make_room("a", 3)
    assert not line.newcomers.make_room("a", 2)
    line.newcomers.remove("a1")
    line.newcomers.remove("a1")
    assert line.newcomers.make_room("a", 2)
    assert line.dropped == []


def test_a_host_with_many_connections_does_not_keep_another_one_out() -> None:
    line = Line("b1", "a1", "a2", "a3")
    assert line.newcomers.make_room("c", 4)
    assert line.dropped == ["a1"]
    line.add("c1")
    assert line.newcomers.make_room("d", 4)
    assert line.dropped == ["a1", "a2"]
    line.add("d1")
    # One of each host: they are equal now.
    assert not line.newcomers.make_room("e", 4)


def test_a_host_does_not_drop_its_own_connections_that_have_just_begun() -> None:
    # In a storm of clients that come back, each would otherwise end another one, and none would get in.
    line = Line("a1", "a2", "b1")
    line.now += 1.9
    line.add("a3")
    assert not line.newcomers.make_room("a", 4)
    line.now += 0.2
    assert line.newcomers.make_room("a", 4)
    assert line.newcomers.make_room("a", 3) and len(line.newcomers) == 2
    assert line.dropped == ["a1", "a2"]


def test_connections_that_take_too_long_are_dropped() -> None:
    line = Line("a1")
    line.now += 5
    line.add("a2")
    line.now += 5
    line.newcomers.expire(10)
    assert line.dropped == ["a1"]
    assert len(line.newcomers) == 1
