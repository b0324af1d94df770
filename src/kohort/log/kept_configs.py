"""Configs of resources that are no topics, kept over a restart: of groups, and of brokers."""

from collections.abc import Callable, Mapping

AllConfigs = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By kind of resource and name."""


class KeptConfigs:
    """A small table that is written as a whole at each change."""

    def __init__(self, configs: AllConfigs, write: Callable[[AllConfigs], None]) -> None:
        """`write` makes all configs durable; what it raises leaves the table as it was."""
        self._configs = configs
        self._write = write

    def of_kind(self, kind: str) -> Mapping[str, Mapping[str, str]]:
        """By name; a change makes another mapping."""
        return self._configs.get(kind, {})

    def keep(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        """Have these instead of what was kept under that name; none forgets the name."""
        others = {other: kept for other, kept in self.of_kind(kind).items() if other != name}
        changed = {**self._configs, kind: {**others, name: dict(configs)} if configs else others}
        self._write(changed)
        self._configs = changed
