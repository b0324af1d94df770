"""The last requests of each client, and their answers: what a failing test shows of what its clients did."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.testing.events import AnswerLost, AnswerSent, ConnectionClosed, Event, RequestReceived
from kohort.wire.codec import Struct

_OF_EACH_CLIENT = 8
_MOST_CLIENTS = 50
_SHOWN = (
    "group_id",
    "group_instance_id",
    "instance_id",
    "member_id",
    "generation_id",
    "member_epoch",
    "transactional_id",
)


@dataclass(slots=True)
class _Line:
    at: Millis
    text: str
    outcome: str = "no answer yet"
    count: int = 1

    def __str__(self) -> str:
        clock = datetime.fromtimestamp(self.at / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{clock} {self.text}: {self.outcome}{times}"


@dataclass(slots=True)
class LastRequests:
    """Keeps the last requests of each client ID. Equal ones behind each other are one line with their number."""

    _lines: dict[str, deque[_Line]] = field(default_factory=dict)
    _waiting: dict[int, tuple[str, _Line]] = field(default_factory=dict)
    _clients: dict[int, str] = field(default_factory=dict)

    def observe(self, event: Event) -> None:
        """Take one event of the brokers."""
        match event:
            case RequestReceived():
                line = _Line(event.at, described(event))
                self._clients[event.connection] = event.client_id
                self._lines_of(event.client_id).append(line)
                self._waiting[event.request_id] = (event.client_id, line)
            case AnswerSent():
                codes = sorted({ErrorCode(code).name for code in _error_codes(event.response) if code})
                self._settle(event.request_id, ", ".join(codes) or "ok")
            case AnswerLost():
                self._settle(event.request_id, f"the answer was lost: {event.reason}")
            case ConnectionClosed():
                client_id = self._clients.pop(event.connection, None)
                if client_id is not None:
                    by = "the broker" if event.by_broker else "the client"
                    self._lines_of(client_id).append(_Line(event.at, "connection", f"closed by {by}"))
            case _:
                pass

    def _lines_of(self, client_id: str) -> deque[_Line]:
        lines = self._lines.pop(client_id, None) or deque(maxlen=_OF_EACH_CLIENT)
        self._lines[client_id] = lines  # the client that spoke last is the last
        if len(self._lines) > _MOST_CLIENTS:
            del self._lines[next(iter(self._lines))]
        return lines

    def _settle(self, request_id: int, outcome: str) -> None:
        client_id, line = self._waiting.pop(request_id, ("", None))
        if line is None:
            return
        line.outcome = outcome
        lines = self._lines.get(client_id)
        if lines is not None and len(lines) > 1 and lines[-1] is line:
            before = lines[-2]
            if (before.text, before.outcome) == (line.text, line.outcome):
                before.count += 1
                before.at = line.at
                lines.pop()

    def __str__(self) -> str:
        return "\n".join(
            f"client {client_id or '(without ID)'}\n" + "\n".join(f"  {line}" for line in lines)
            for client_id, lines in self._lines.items()
        )


def described(event: RequestReceived) -> str:
    """Return the request's name and version, and the IDs in it."""
    request = event.request
    name = type(request).__name__.removesuffix("Request")
    shown = ((each, getattr(request, each, None)) for each in _SHOWN)
    return " ".join(
        [f"{name} v{event.version}", *(f"{each}={value}" for each, value in shown if value not in (None, ""))]
    )


def _error_codes(struct: Struct) -> Iterator[int]:
    """Yield all error codes of a response, at any depth."""
    for each in struct.FIELDS:
        value = getattr(struct, each.name)
        if each.name == "error_code" or each.name.endswith("_error_code"):
            yield value
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, Struct):
                yield from _error_codes(part)
