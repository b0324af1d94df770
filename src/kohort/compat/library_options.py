"""Options of another library, translated into Kohort's."""

import inspect
import warnings
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any

from kohort.client import ConfigError

_PORT = 9092
_ADAPTERS = "kohort.compat"


class LibraryOptions:
    """Options of one class of a library.

    `defaults` has all options that the class takes, with the library's defaults. Those in
    `ineffective` are accepted with a warning; the adapter itself applies those in `own`. Those in
    `unsupported` raise ConfigError with the reason, because to ignore them would lose or expose
    data. `translations` has functions for values that Kohort expects in another form; None leaves
    Kohort's default. `renamed` has Kohort's names where they differ.
    """

    def __init__(
        self,
        library: str,
        defaults: Mapping[str, Any],
        *,
        ineffective: Collection[str],
        own: Collection[str] = (),
        unsupported: Mapping[str, str],
        translations: Mapping[str, Callable[[Any], Any]],
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self._library = library
        self.defaults = defaults
        self._ineffective = frozenset(ineffective)
        self._own = frozenset(own)
        self._unsupported = unsupported
        self._translations = translations
        self._renamed = renamed or {}

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return Kohort's options. Raises ConfigError for unknown options, and warns of ineffective ones."""
        for name in given:
            if name not in self.defaults:
                near = get_close_matches(name, self.defaults, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"{self._library} has none of that name."
                raise ConfigError(f"There is no option {name}: {hint}")
        changed = {name for name, value in given.items() if not _same(value, self.defaults[name])}
        for name in sorted(changed & self._unsupported.keys()):
            raise ConfigError(f"{name} is not supported: {self._unsupported[name]}")
        if ignored := sorted(changed & self._ineffective):
            have = "has" if len(ignored) == 1 else "have"
            text = f"{', '.join(ignored)} {have} no effect in Kohort's client."
            warnings.warn(text, UserWarning, stacklevel=_frames_to_the_program())
        skipped = self._ineffective | self._own | self._unsupported.keys()
        read = {name: self._value(name, given.get(name, default)) for name, default in self.defaults.items()}
        return {
            self._renamed.get(name, name): value
            for name, value in read.items()
            if name not in skipped and value is not None
        }

    def _value(self, name: str, value: Any) -> Any:
        translate = self._translations.get(name)
        return value if translate is None or value is None else translate(value)


def servers(given: Any) -> list[str]:
    """Return bootstrap servers as a list of host:port; the port is 9092 by default."""
    listed = given.split(",") if isinstance(given, str) else list(given)
    return [server if _has_port(server) else f"{server}:{_PORT}" for server in map(str.strip, listed)]


def assignors(given: Any) -> list[str]:
    """Return the names of assignors, which may be names, or classes or objects with a name."""
    names = [assignor if isinstance(assignor, str) else getattr(assignor, "name", None) for assignor in given]
    for name, assignor in zip(names, given, strict=True):
        if name not in _ASSIGNORS:
            raise ConfigError(
                f"partition_assignment_strategy has {assignor!r}, but must name some of: {', '.join(_ASSIGNORS)}."
                " Other assignors need kohort.Consumer."
            )
    return [str(name) for name in names]


_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


def milliseconds(given: Any) -> int | None:
    """Return a duration in milliseconds; None if it is infinite."""
    return None if given == float("inf") else max(1, int(given))


def _has_port(server: str) -> bool:
    host, _, port = server.rpartition(":")
    return bool(host) and port.isdecimal() and (":" not in host or host.endswith("]"))


def _frames_to_the_program() -> int:
    """Return the number of frames from the caller of this function to the program that makes a client."""
    frame, count = inspect.currentframe(), 0
    while frame is not None and frame.f_globals["__name__"].startswith(_ADAPTERS):
        frame, count = frame.f_back, count + 1
    return count


def _same(value: Any, default: Any) -> bool:
    return value is None or value is default or bool(type(value) is type(default) and value == default)
