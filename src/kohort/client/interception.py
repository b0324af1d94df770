"""Calls of interceptors: objects of the application that see records on their way, and may change them."""

import logging
from collections.abc import Callable, Iterator, Sequence
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from kohort.errors import ConfigError
from kohort.loading import sentence
from kohort.new_clients import interceptors_of_all

_log = logging.getLogger("kohort.client")
_T = TypeVar("_T")


class Interception:
    """Interceptors of one client, called in their order. Any thread may use it.

    An exception of an interceptor is logged and not raised, as in Java. It is logged when it begins
    and when the interceptor works again, not for each record.
    """

    def __init__(self, given: Sequence[Any] | None, kind: type, options: Any = None) -> None:
        """Check the interceptors. Each has some of the methods of `kind`. Raises ConfigError.

        `options` are those of the client, for `intercept_new_clients`; None for a client that has
        only the given interceptors.
        """
        given = () if given is None else given
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ConfigError(f"interceptors is {given!r}, but must be a list of objects.")
        self._kind = kind
        made = [] if options is None else interceptors_of_all(kind, options)
        self.interceptors: tuple[Any, ...] = ()
        self.add([*given, *made])
        self._failing: dict[tuple[int, str], type[Exception]] = {}
        """Exception of each method that failed last time, by the number of the interceptor."""

    def add(self, interceptors: Sequence[Any]) -> None:
        """Add interceptors after the others. Raises ConfigError."""
        names = [name for name in vars(self._kind) if not name.startswith("_")]
        for interceptor in interceptors:
            found = [name for name in names if callable(getattr(interceptor, name, None))]
            if not found or isinstance(interceptor, type):
                methods = ", ".join(names)
                raise ConfigError(
                    f"interceptors has {interceptor!r}, but each must be an object with methods of: {methods}."
                )
            for name in found:
                if iscoroutinefunction(getattr(interceptor, name)):
                    raise ConfigError(
                        f"{type(interceptor).__name__}.{name} of interceptors is async, but must be a plain function."
                    )
        self.interceptors += tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self.interceptors)

    def changed(self, method: str, data: _T, check: Callable[[Any], None]) -> _T:
        """Return what the interceptors make of the data, each from the result of the one before it.

        None leaves the data as it is, and so does a result for which `check` raises a TypeError.
        """
        for number, function in self._functions(method):
            try:
                made = function(data)
                if made is not None:
                    check(made)
            except Exception as problem:  # noqa: BLE001  an interceptor must not break the client
                self._failed(number, method, problem)
            else:
                self._succeeded(number, method)
                data = data if made is None else made
        return data

    def tell(self, method: str, *arguments: object) -> None:
        """Call the method of all interceptors."""
        for number, function in self._functions(method):
            try:
                function(*arguments)
            except Exception as problem:  # noqa: BLE001  an interceptor must not break the client
                self._failed(number, method, problem)
            else:
                self._succeeded(number, method)

    def _functions(self, method: str) -> Iterator[tuple[int, Callable[..., Any]]]:
        for number, interceptor in enumerate(self.interceptors):
            if (function := getattr(interceptor, method, None)) is not None:
                yield number, function

    def _failed(self, number: int, method: str, problem: Exception) -> None:
        if self._failing.get((number, method)) is not type(problem):
            self._failing[number, method] = type(problem)
            name = f"{type(self.interceptors[number]).__name__}.{method}"
            text = "interceptor failed: %s raised %s; the client continues"
            _log.warning(text, name, sentence(problem), exc_info=problem)

    def _succeeded(self, number: int, method: str) -> None:
        if self._failing and self._failing.pop((number, method), None) is not None:
            _log.warning("interceptor works again: %s.%s", type(self.interceptors[number]).__name__, method)
