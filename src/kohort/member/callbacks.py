"""The application's callbacks: one at a time, in order; each must complete before the next one starts."""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from kohort.model import TopicPartition

NOTHING: frozenset[TopicPartition] = frozenset()


class CallbackKind(Enum):
    """Kind of callback."""

    REVOKE = "revoke"
    LOST = "lost"
    ASSIGN = "assign"


@dataclass(frozen=True, slots=True)
class Callback:
    """One callback for the application."""

    kind: CallbackKind
    partitions: frozenset[TopicPartition]
    deleted: bool = False
    """Whether the partitions are lost because their topics were deleted, so that they have no owner."""


class Callbacks:
    """Queue of callbacks. The application executes `running`; the others wait for it."""

    def __init__(self) -> None:
        self.running: Callback | None = None
        self._waiting: deque[Callback] = deque()

    @property
    def idle(self) -> bool:
        """Whether no callback runs or waits."""
        return self.running is None and not self._waiting

    @property
    def only_assigning(self) -> bool:
        """Whether no callback but an assign runs, and none waits; a cooperative member may then join."""
        return not self._waiting and (self.running is None or self.running.kind is CallbackKind.ASSIGN)

    @property
    def about_to_assign(self) -> frozenset[TopicPartition]:
        """Partitions that the application will get before any callback that is added now."""
        return frozenset().union(
            *(callback.partitions for callback in self._waiting if callback.kind is CallbackKind.ASSIGN)
        )

    def add(self, kind: CallbackKind, partitions: frozenset[TopicPartition], *, deleted: bool = False) -> None:
        """Add a callback behind those that wait."""
        self._waiting.append(Callback(kind, partitions, deleted))

    def forget_waiting(self) -> None:
        """Discard the waiting callbacks, which are no longer valid."""
        self._waiting.clear()

    def start_next(self) -> Callback | None:
        """Start the next callback and return it; None if one runs or none waits."""
        if self.running is None and self._waiting:
            self.running = self._waiting.popleft()
            return self.running
        return None

    def done(self) -> Callback:
        """Complete the running callback and return it."""
        assert self.running is not None, "CallbackDone without a callback"
        done, self.running = self.running, None
        return done
