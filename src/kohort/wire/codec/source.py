"""Source code of a generated function: indented lines, unique names, and the objects to which it refers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Source(ABC):
    """Lines for `exec`. They start at indentation level 2, inside a function and its `try`."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = dict(scope)
        self.lines: list[str] = []
        self._depth = 2
        self._names = 0

    def emit(self, *lines: str) -> None:
        """Append lines at the current level. Leading spaces of a line add to it."""
        self.lines += [" " * self._depth + line for line in lines]

    def name(self, prefix: str) -> str:
        """Return a unique name."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: Any, prefix: str) -> str:
        """Add an object to the scope, and return its name."""
        name = self.name(prefix)
        self.scope[name] = value
        return name

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent the lines that are written in this context by one level, including pending ones."""
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    @abstractmethod
    def flush(self) -> None:
        """Write the operations that were held back to be combined."""

    def function(self, name: str, file: str) -> Any:
        """Compile all lines, and return the function with that name. Tracebacks show `file`."""
        exec(compile("\n".join(self.lines), file, "exec"), self.scope)
        return self.scope[name]
