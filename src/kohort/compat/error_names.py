"""Errors under the names of another library.

An error that an adapter raises is an instance of Kohort's class and of the library's class.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kohort.client import KafkaError, KohortError


class ErrorNames:
    """Names that one library has for Kohort's errors.

    `by_kind` has the library's class for subclasses of KohortError, the most specific first;
    `by_code` that for the code of a KafkaError. `state` is for calls that the state of a client
    does not allow, and `other` for all other errors. `arguments` returns the `args` that the
    library's error has, for errors whose `args` programs use.
    """

    def __init__(
        self,
        by_kind: Mapping[type[KohortError], type[KohortError]],
        by_code: Mapping[int, type[KohortError]],
        unknown_code: type[KohortError],
        *,
        state: type[KohortError],
        other: type[KohortError],
        arguments: Mapping[Any, Callable[[Any], tuple[object, ...]]] | None = None,
    ) -> None:
        self._by_kind = by_kind
        self._by_code = by_code
        self._unknown_code = unknown_code
        self._state = state
        self._other = other
        self._arguments = arguments or {}

    def named(self, error: KohortError) -> KohortError:
        """Return the error with the library's class as another base, with the same attributes."""
        name = self._name(error)
        if isinstance(error, name):
            return error
        kind = _joined(name, type(error))
        same = kind.__new__(kind)
        arguments = self._arguments.get(type(error))
        same.args = error.args if arguments is None else arguments(error)
        same.__dict__.update(error.__dict__)
        same.__cause__ = error.__cause__
        return same.with_traceback(error.__traceback__)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Raise Kohort's errors of this block under the library's names."""
        try:
            yield
        except KohortError as error:
            named = self.named(error)
            raise named from named.__cause__

    def _name(self, error: KohortError) -> type[KohortError]:
        for kind, name in self._by_kind.items():
            if isinstance(error, kind):
                return name
        if isinstance(error, KafkaError):
            return self._by_code.get(error.code, self._unknown_code)
        return self._state if type(error) is KohortError else self._other


def _joined(name: type[KohortError], kind: type[KohortError]) -> type[KohortError]:
    if (name, kind) not in _kinds:
        values = {"__module__": name.__module__, "__doc__": name.__doc__}
        _kinds[name, kind] = type(name.__name__, (name, kind), values)
    return _kinds[name, kind]


_kinds: dict[tuple[type[KohortError], type[KohortError]], type[KohortError]] = {}
"""Classes that were made so far, so that errors of one kind share a class."""
