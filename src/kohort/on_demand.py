"""Packages that load the module of an exported name on its first use (PEP 562).

For a package that also has programs or functions of worker processes: these import the package, and
should not load what only others use.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a package. `modules` has the exported names of each of its modules."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return load
