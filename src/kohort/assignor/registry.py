"""Find assignors by name: those of Apache Kafka's client, or a user's class by its import path."""

from collections.abc import Iterable
from importlib import import_module
from types import MappingProxyType

from kohort.assignor.api import Assignor
from kohort.assignor.range import RangeAssignor
from kohort.assignor.roundrobin import RoundRobinAssignor
from kohort.assignor.sticky import CooperativeStickyAssignor, StickyAssignor
from kohort.errors import ConfigError

ASSIGNORS: MappingProxyType[str, Assignor] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
    }
)
"""Assignors of Apache Kafka's client, by their names in JoinGroup."""


def find_assignors(names: Iterable[str | Assignor]) -> list[Assignor]:
    """Return assignors for names, import paths (`package.module:Class`) or assignor objects. Raises ConfigError."""
    found = [find_assignor(name) if isinstance(name, str) else name for name in names]
    if not found:
        raise ConfigError("partition.assignment.strategy is empty: name at least one assignor, such as range.")
    if len({assignor.name for assignor in found}) < len(found):
        listed = ", ".join(assignor.name for assignor in found)
        raise ConfigError(f"partition.assignment.strategy names an assignor twice: {listed}.")
    return found


def find_assignor(name: str) -> Assignor:
    """Return the assignor with that name.

    `package.module:Class` and `package.module.Class` are imported and instantiated without
    arguments. Raises ConfigError.
    """
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    module, colon, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    if not colon:
        known = ", ".join(ASSIGNORS)
        raise ConfigError(f"There is no assignor {name!r}: use {known}, or package.module:Class for your own.")
    try:
        made = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as problem:
        raise ConfigError(f"The assignor {name!r} cannot be loaded: {problem}.") from problem
    if not all(hasattr(made, needed) for needed in ("name", "protocol", "user_data", "assign")):
        raise ConfigError(f"The assignor {name!r} lacks a part of kohort.assignor.Assignor.")
    checked: Assignor = made
    return checked
