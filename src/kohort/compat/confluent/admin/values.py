"""Topics and configs as `AdminClient` takes and returns them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import total_ordering

from kohort.compat.confluent.errors import KafkaError


@dataclass(order=True, unsafe_hash=True)
class NewTopic:
    """Topic to create. -1 selects the broker's default."""

    topic: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignment: Sequence[Sequence[int]] | None = field(default=None, compare=False)
    config: dict[str, str] | None = field(default=None, compare=False)


@dataclass(order=True, unsafe_hash=True)
class NewPartitions:
    """New number of partitions of a topic."""

    topic: str
    new_total_count: int
    replica_assignment: Sequence[Sequence[int]] | None = field(default=None, compare=False)


class ResourceType(Enum):
    """Kind of a resource that has configs."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4
    TRANSACTIONAL_ID = 5

    def __lt__(self, other: "ResourceType") -> bool:
        return bool(self.value < other.value)


class AlterConfigOpType(Enum):
    """What `incremental_alter_configs` does with a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(Enum):
    """Where the value of a config is set."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


@dataclass
class ConfigEntry:
    """Config of a resource, or a change of one. `source` is the number of a ConfigSource."""

    name: str
    value: str | None
    source: ConfigSource | int = 0
    is_read_only: bool = False
    is_default: bool = False
    is_sensitive: bool = False
    is_synonym: bool = False
    synonyms: dict[str, "ConfigEntry"] = field(default_factory=dict)
    incremental_operation: AlterConfigOpType | None = None

    def __repr__(self) -> str:
        return f'ConfigEntry({self.name}="{self.value}")'

    def __str__(self) -> str:
        return f'{self.name}="{self.value}"'


@total_ordering
class ConfigResource:
    """Resource that has configs, and changes of them."""

    Type = ResourceType

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        set_config: dict[str, str] | None = None,
        described_configs: dict[str, ConfigEntry] | None = None,
        error: KafkaError | None = None,
        incremental_configs: list[ConfigEntry] | None = None,
    ) -> None:
        if name is None:
            raise ValueError("Expected resource name to be a string")
        if isinstance(restype, str):
            if restype.upper() not in ResourceType.__members__:
                raise ValueError(f'Unknown resource type "{restype}": should be a ConfigResource.Type')
            restype = ResourceType[restype.upper()]
        self.restype = ResourceType(restype)
        self.restype_int = int(self.restype.value)
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.incremental_configs = list(incremental_configs or [])
        self.configs = described_configs
        self.error = error

    def set_config(self, name: str, value: str, overwrite: bool = True) -> None:
        """Set a config for `alter_configs`."""
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        """Add a change for `incremental_alter_configs`."""
        self.incremental_configs.append(config_entry)

    def __repr__(self) -> str:
        return f"ConfigResource({self.restype},{self.name})"

    def __hash__(self) -> int:
        return hash((self.restype, self.name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfigResource):
            return NotImplemented
        return (self.restype, self.name) == (other.restype, other.name)

    def __lt__(self, other: "ConfigResource") -> bool:
        return (self.restype, self.name) < (other.restype, other.name)

    def __len__(self) -> int:
        return len(self.set_config_dict)
