"""The application's callbacks: one at a time, in order, each answered before the next is given."""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from kohort.model import TopicPartition

NOTHING: frozenset[TopicPartition] = frozenset()


class CallbackKind(Enum):
    """What the application is told."""

    REVOKE = "revoke"
    LOST = "lost"
    ASSIGN = "assign"


@dataclass(frozen=True, slots=True)
class Callback:
    """One thing to tell the application."""

    kind: CallbackKind
    partitions: frozenset[TopicPartition]


class Callbacks:
    """`running` is with the application, the others wait for it."""

    def __init__(self) -> None:
        self.running: Callback | None = None
        self._waiting: deque[Callback] = deque()

    @property
    def idle(self) -> bool:
        """The application owes nothing and has nothing to be told."""
        return self.running is None and not self._waiting

    @property
    def only_assigning(self) -> bool:
        """The application at most prepares what it has won: no reason for a cooperative member not to join."""
        return not self._waiting and (self.running is None or self.running.kind is CallbackKind.ASSIGN)

    @property
    def about_to_assign(self) -> frozenset[TopicPartition]:
        """What the application will have before it is told anything that is added now."""
        return frozenset().union(*(one.partitions for one in self._waiting if one.kind is CallbackKind.ASSIGN))

    def add(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        """Tell it when what came before is done."""
        self._waiting.append(Callback(kind, partitions))

    def forget_waiting(self) -> None:
        """What was to be told is no longer true."""
        self._waiting.clear()

    def start_next(self) -> Callback | None:
        """The next to be given to the application, if it is free."""
        if self.running is None and self._waiting:
            self.running = self._waiting.popleft()
            return self.running
        return None

    def done(self) -> Callback:
        """The application completed it."""
        assert self.running is not None, "CallbackDone without a callback"
        done, self.running = self.running, None
        return done
