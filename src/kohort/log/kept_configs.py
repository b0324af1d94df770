"""Configs of groups, brokers and other non-topic resources, which survive a restart."""

from collections.abc import Callable, Mapping

AllConfigs = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Configs by kind of resource and by name."""


class KeptConfigs:
    """A small table that is rewritten as a whole at each change."""

    def __init__(self, configs: AllConfigs, write: Callable[[AllConfigs], None]) -> None:
        """Create the table. `write` makes all configs durable; if it raises, the table stays unchanged."""
        self._configs = configs
        self._write = write

    def of_kind(self, kind: str) -> Mapping[str, Mapping[str, str]]:
        """Return the configs of this kind by name; a change creates a new mapping."""
        return self._configs.get(kind, {})

    @property
    def all(self) -> AllConfigs:
        """All configs; a change creates a new mapping."""
        return self._configs

    def replace(self, configs: AllConfigs) -> None:
        """Replace all configs."""
        self._write(configs)
        self._configs = configs

    def keep(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a resource; an empty mapping removes the resource."""
        others = {other: kept for other, kept in self.of_kind(kind).items() if other != name}
        changed = {**self._configs, kind: {**others, name: dict(configs)} if configs else others}
        self._write(changed)
        self._configs = changed


def with_changes(configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configs with changes; None removes one."""
    return {name: text for name, text in {**configs, **changes}.items() if text is not None}
