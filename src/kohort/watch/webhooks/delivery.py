"""Delivery of documents to a webhook, in order, from a thread of its own: the caller never waits."""

import json
import logging
import random
import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kohort.errors import ConfigError
from kohort.watch.webhooks.payload import signed
from kohort.watch.webhooks.settings import WebhookSettings

_log = logging.getLogger("kohort.watch.webhook")
_USER_AGENT = "kohort-watch"
_LONGEST_LINE = 300
_LATER = (408, 425, 429)
"""Answers of the 4xx kind that ask for another attempt; so does every 5xx."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the delivery. Times are in seconds."""

    queue: int = 500
    """Maximum number of documents that wait. Further ones are dropped, and a line in the log says so."""
    per_minute: int = 60
    """Maximum number of requests in a minute, and of those that follow each other at once."""
    timeout_s: float = 10.0
    attempts: int = 8
    """Maximum number of attempts for one document."""
    wait_s: float = 1.0
    """Time before the second attempt; it doubles with each further one."""
    most_wait_s: float = 60.0
    """Longest time between two attempts, also if the answer asks for more (Retry-After)."""
    close_s: float = 0.3
    """Time that `close` waits for documents that are on their way."""


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is a failure: it could send the document and its headers to somebody else."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Message:
    body: bytes
    text: str
    """What a line about it says: an event that is dropped is in the log at least."""
    message_id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")


class Delivery:
    """Sender of documents to one webhook. Use it as a context manager."""

    def __init__(self, settings: WebhookSettings, limits: Limits | None = None) -> None:
        """Create the sender. Raises ConfigError if the certificates cannot be read."""
        self.dropped = 0
        """Number of documents that were never sent."""
        self.sent = 0
        self._settings = settings
        self._limits = limits or Limits()
        self._waiting: deque[_Message] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._dropping = False
        self._failing = False
        self._allowance = float(self._limits.per_minute)
        self._counted_at = time.monotonic()
        self._opener = build_opener(_NoRedirects(), HTTPSHandler(context=_context(settings.ca)))
        self._thread = threading.Thread(target=self._run, name="kohort-webhook", daemon=True)

    def __enter__(self) -> "Delivery":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(self._limits.close_s)
        if left := len(self._waiting):
            _log.warning("%d events for the webhook at %s were not sent.", left, self._settings.place)

    def send(self, document: Mapping[str, Any]) -> None:
        """Queue a document. It never blocks."""
        wanted = {"text": document["text"]} if self._settings.text_only else document
        message = _Message(json.dumps(wanted, separators=(",", ":")).encode(), str(document["text"])[:_LONGEST_LINE])
        with self._changed:
            if len(self._waiting) >= self._limits.queue:
                self.dropped += 1
                if not self._dropping:
                    self._dropping = True
                    _log.warning(
                        "%d events wait for the webhook at %s; further ones are dropped.",
                        len(self._waiting),
                        self._settings.place,
                    )
                return
            self._waiting.append(message)
            self._changed.notify()

    # -- the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                message = self._waiting[0]
            if not self._deliver(message):
                return
            with self._changed:
                self._waiting.popleft()
                if self._dropping and len(self._waiting) <= self._limits.queue // 2:
                    self._dropping = False
                    _log.warning(
                        "%d events for the webhook at %s were dropped so far.", self.dropped, self._settings.place
                    )

    def _deliver(self, message: _Message) -> bool:
        """Send one document. Returns False if the sender was closed meanwhile."""
        for attempt in range(self._limits.attempts):
            if not self._pause(self._until_allowed()):
                return False
            problem, again, asked_s = self._attempt(message)
            if problem is None:
                self.sent += 1
                self._note_answer()
                return True
            if not again or attempt == self._limits.attempts - 1:
                break
            if self._closed:
                return False  # a line has said, or will say, how many events were not sent
            self._note_failure(problem)
            usual = self._limits.wait_s * 2**attempt * random.uniform(0.5, 1.0)
            if not self._pause(min(self._limits.most_wait_s, max(usual, asked_s))):
                return False
        self.dropped += 1
        _log.warning(
            "The webhook at %s did not take an event, which is dropped: %s The event: %s",
            self._settings.place,
            problem,
            message.text,
        )
        return True

    def _note_failure(self, problem: str) -> None:
        """Log the first failure: all attempts of one event may take minutes."""
        if not self._failing:
            self._failing = True
            _log.warning("The webhook at %s fails, and events wait for it: %s", self._settings.place, problem)

    def _note_answer(self) -> None:
        if self._failing:
            self._failing = False
            _log.warning("The webhook at %s takes events again.", self._settings.place)

    def _attempt(self, message: _Message) -> tuple[str | None, bool, float]:
        """Return what went wrong, whether to try again, and the least time until then."""
        headers = {
            **{name: value.reveal() for name, value in self._settings.headers.items()},
            "Content-Type": "application/json",
            "User-Agent": _USER_AGENT,
            **signed(message.body, message.message_id, int(time.time()), self._settings.secret),
        }
        request = Request(self._settings.url.reveal(), message.body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._limits.timeout_s) as response:
                response.read(1_024)
            return None, False, 0.0
        except HTTPError as answer:
            with answer:
                asked = answer.headers.get("Retry-After", "")
            again = answer.code in _LATER or answer.code >= 500
            return f"it answers {answer.code}.", again, float(asked) if asked.isascii() and asked.isdigit() else 0.0
        except URLError as problem:
            certificate = isinstance(problem.reason, ssl.SSLCertVerificationError)
            return _reason(problem.reason), not certificate, 0.0
        except (OSError, HTTPException) as problem:
            return _reason(problem), True, 0.0
        except UnicodeError:  # of a host whose label is too long, which ends no thread
            return "its URL has no possible host name.", False, 0.0

    def _until_allowed(self) -> float:
        """Return the time to wait before the next request, and count it."""
        now = time.monotonic()
        rate = self._limits.per_minute / 60
        self._allowance = min(self._limits.per_minute, self._allowance + (now - self._counted_at) * rate)
        self._counted_at = now
        self._allowance -= 1
        return max(0.0, -self._allowance / rate)

    def _pause(self, seconds: float) -> bool:
        """Wait, and return False if the sender was closed meanwhile."""
        with self._changed:
            if seconds > 0:
                self._changed.wait_for(lambda: self._closed, seconds)
            return not self._closed or seconds == 0


def _reason(problem: object) -> str:
    """Return a reason without the URL: exceptions of some kinds quote it."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({problem.verify_message})."
    if isinstance(problem, TimeoutError):
        return "it does not answer in time."
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}."
    return f"the connection failed ({type(problem).__name__})."


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as problem:
        raise ConfigError(
            f"The file {ca} of the webhook's `ca` cannot be read: {problem.strerror or problem}."
        ) from None
