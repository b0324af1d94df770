"""Combination of the answers of several shards into one."""

from collections.abc import Callable
from typing import Generic, TypeVar

from kohort.wire.codec import Message

_M = TypeVar("_M", bound=Message)


class Gather(Generic[_M]):
    """Collector of answers: it calls `done` with all of them, in the order of their places, after the last one."""

    def __init__(self, expected: int, done: Callable[[list[_M]], None], kind: type[_M]) -> None:
        self._answers: list[_M | None] = [None] * expected
        self._missing = expected
        self._done = done
        self._kind = kind
        if expected == 0:
            done([])

    def waiter(self, place: int, request: Message, version: int) -> "GatherWaiter[_M]":
        """Return the waiter for the answer of that place."""
        return GatherWaiter(self, place, request, version)

    def arrived(self, place: int, response: Message) -> None:
        """Store the answer of one place. Called by the waiters."""
        assert isinstance(response, self._kind)
        assert self._answers[place] is None
        self._answers[place] = response
        self._missing -= 1
        if self._missing == 0:
            self._done([answer for answer in self._answers if answer is not None])


class GatherWaiter(Generic[_M]):
    """The waiter for one place of a Gather; a token of the coordinator."""

    __slots__ = ("_gather", "_place", "request", "version")

    def __init__(self, gather: Gather[_M], place: int, request: Message, version: int) -> None:
        self._gather = gather
        self._place = place
        self.request = request
        self.version = version

    def reply(self, response: Message, /) -> None:
        """Pass on the answer."""
        self._gather.arrived(self._place, response)
