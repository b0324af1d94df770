"""Find server-side assignors by name."""

from collections.abc import Iterable
from types import MappingProxyType

from kohort.assignor.server.api import ServerAssignor
from kohort.assignor.server.custom import load
from kohort.assignor.server.rack import RackAssignor
from kohort.assignor.server.range import RangeAssignor
from kohort.assignor.server.uniform import UniformAssignor
from kohort.assignor.server.weighing import LAG, RATE, WEIGHTED
from kohort.errors import ConfigError

SERVER_ASSIGNORS: MappingProxyType[str, ServerAssignor] = MappingProxyType(
    {assignor.name: assignor for assignor in (UniformAssignor(), RangeAssignor(), RackAssignor(), LAG, RATE, WEIGHTED)}
)
"""Built-in assignors by name: the two of Apache Kafka, then Kohort's own."""

_JAVA_NAMES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Class names that appear in broker configurations written for Apache Kafka."""


def find_server_assignors(names: Iterable[str]) -> list[ServerAssignor]:
    """Return the assignors that `group.consumer.assignors` names, the default first. Raises ConfigError."""
    found = [find_server_assignor(name) for name in names]
    if not found:
        raise ConfigError("group.consumer.assignors is empty: name at least one assignor, such as uniform.")
    if len({assignor.name for assignor in found}) < len(found):
        listed = ", ".join(assignor.name for assignor in found)
        raise ConfigError(f"group.consumer.assignors names an assignor twice: {listed}.")
    return found


def find_server_assignor(name: str) -> ServerAssignor:
    """Return the assignor with that name, or that Kafka class name; another name with a dot is a user's class.

    Raises ConfigError.
    """
    name = _JAVA_NAMES.get(name, name)
    if name in SERVER_ASSIGNORS:
        return SERVER_ASSIGNORS[name]
    if "." in name or ":" in name:
        return load(name)
    known = ", ".join(SERVER_ASSIGNORS)
    raise ConfigError(f"There is no server assignor {name!r}: use {known}, or package.module:Class for your own.")
