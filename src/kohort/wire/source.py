"""The source of a function while it is being written: indented lines, fresh names, and the objects that it names."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Source(ABC):
    """Lines for `exec`. They lie inside a function and its `try`, so they begin two deep."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = dict(scope)
        self.lines: list[str] = []
        self._depth = 2
        self._names = 0

    def emit(self, *lines: str) -> None:
        """Append lines at the present depth; spaces in front of one add to it."""
        self.lines += [" " * self._depth + line for line in lines]

    def name(self, prefix: str) -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: Any, prefix: str) -> str:
        """The name of an object."""
        name = self.name(prefix)
        self.scope[name] = value
        return name

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Write one deeper within it; what is pending belongs there too."""
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    @abstractmethod
    def flush(self) -> None:
        """Write what was held back to be written together."""

    def function(self, name: str, file: str) -> Any:
        """Compile all lines and return the function of that name; tracebacks show `file`."""
        exec(compile("\n".join(self.lines), file, "exec"), self.scope)
        return self.scope[name]
