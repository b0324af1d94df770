"""Plants a mutant in a process that a test starts: Python imports this file when its folder is on PYTHONPATH."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

_MODULE = os.environ.get("KOHORT_MUTANT_MODULE")
_SOURCE = os.environ.get("KOHORT_MUTANT_SOURCE")


class _Finder:
    """Find the mutated module where the mutant was written, and everything else as usual."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _MODULE or _SOURCE is None:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.origin is not None
        spec.loader = _Loader(name, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    """Compile the mutant under the name of the original, and leave the original's cached code alone."""

    def get_code(self, fullname: str) -> CodeType:
        assert _SOURCE is not None
        with open(_SOURCE, encoding="utf-8") as file:  # noqa: PTH123  pathlib would be imported by every process
            code: CodeType = compile(file.read(), self.path, "exec")
            return code


if _MODULE:
    sys.meta_path.insert(0, _Finder)
