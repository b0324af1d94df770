"""Settings of a webhook, from the command line and from a file. Every part of them may be a secret."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kohort.errors import ConfigError
from kohort.security import Secret
from kohort.watch.findings import KINDS
from kohort.watch.webhooks.events import EVENTS, usual_events

_KEYS = ("url", "headers", "secret", "ca", "text_only")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = (
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
)
"""Headers that the watcher sets: a value from the file would be overwritten."""


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where to send events, and which."""

    url: Secret
    """The whole URL: paths and queries of webhooks are passwords."""
    headers: Mapping[str, Secret] = field(default_factory=dict)
    secret: Secret | None = None
    """Key of the signature; None for no signature."""
    ca: str | None = None
    """File with the certificates to trust, in PEM; None for those of the system."""
    text_only: bool = False
    """Whether to send only `text`, for chats that refuse unknown fields."""
    events: Mapping[str, int] = field(default_factory=usual_events)
    """Events to report, with their seconds."""

    @property
    def place(self) -> str:
        """Host to name in messages; the rest of the URL is a secret."""
        return urlsplit(self.url.reveal()).hostname or "?"


def webhook_settings(given: str, events: str | None = None) -> WebhookSettings:
    """Read `--webhook` (a URL, or @FILE) and `--webhook-on`. Raises ConfigError, which never shows a secret."""
    chosen = usual_events() if events is None else _events(events)
    if not given.startswith("@"):
        return WebhookSettings(_url(given, "--webhook"), events=chosen)
    name = given[1:]
    try:
        content = json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"The file {name} of --webhook cannot be read: {problem.strerror}.") from None
    except ValueError:
        raise ConfigError(f"The file {name} of --webhook is not JSON.") from None
    if not isinstance(content, dict) or not isinstance(content.get("url"), str):
        raise ConfigError(f"The file {name} of --webhook must be a JSON object with a string `url`.")
    if unknown := sorted(set(content) - set(_KEYS)):
        raise ConfigError(f"Unknown key `{unknown[0]}` in {name}; the keys are {', '.join(_KEYS)}.")
    headers = content.get("headers", {})
    if not isinstance(headers, dict) or not all(map(_is_header, headers.items())):
        raise ConfigError(f"`headers` in {name} must be an object of header names and values.")
    if taken := [header for header in headers if header.lower() in _OURS]:
        raise ConfigError(f"`headers` in {name} has `{taken[0]}`, which the watcher sets: leave it out.")
    secret, ca, text_only = content.get("secret"), content.get("ca"), content.get("text_only", False)
    if not isinstance(secret, str | None) or not isinstance(ca, str | None) or not isinstance(text_only, bool):
        raise ConfigError(f"In {name}, `secret` and `ca` must be strings, and `text_only` true or false.")
    return WebhookSettings(
        _url(content["url"], f"`url` in {name}"),
        {header: Secret(value) for header, value in headers.items()},
        Secret(secret) if secret else None,
        ca,
        text_only,
        chosen,
    )


def _url(text: str, where: str) -> Secret:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(f"{where} must be a URL with https or http, such as https://chat.example.com/hook.")
    if parts.username is not None:
        raise ConfigError(
            f"{where} has a user name or password: use an Authorization header in a file (--webhook @FILE)."
        )
    return Secret(text)


def _is_header(item: tuple[object, object]) -> bool:
    name, value = item
    return (
        isinstance(name, str)
        and isinstance(value, str)
        and _HEADER.fullmatch(name) is not None
        and value.isascii()
        and value.isprintable()
    )


def _events(text: str) -> dict[str, int]:
    """Parse EVENT[=SECONDS],... Raises ConfigError."""
    usual = usual_events()
    known = [*EVENTS, *(code for code in usual if code not in EVENTS)]
    chosen = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, seconds = part.partition("=")
        if name not in known:
            raise ConfigError(f"--webhook-on has no event {name!r}; the events are {', '.join(known)}.")
        if equals and not re.fullmatch(r"\d{1,7}", seconds):
            raise ConfigError(f"--webhook-on takes seconds as a number, such as {name}=300, not {part!r}.")
        if not equals and name not in usual:
            raise ConfigError(f"--webhook-on {name} needs a number of seconds, such as {name}=300.")
        chosen[name] = int(seconds) if equals else usual[name]
    if not chosen:
        raise ConfigError("--webhook-on must name an event.")
    return chosen


assert not set(EVENTS) & set(KINDS)
