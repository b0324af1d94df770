"""Quotas of users, client IDs and IP addresses (KIP-546)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kohort.client.net import Cluster
from kohort.errors import ConfigError
from kohort.requests import check
from kohort.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from kohort.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


class QuotaName(Enum):
    """Value of a quota or a filter instead of a name."""

    DEFAULT = "<default>"
    """All names that have no quota of their own."""
    ANY = "*"
    """In a filter: any name, and the default."""


_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
"""Field and wire name of each part of an entity."""
_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """User, client ID, both together, or IP address that has quotas."""

    user: str | QuotaName | None = None
    client_id: str | QuotaName | None = None
    ip: str | QuotaName | None = None

    def __str__(self) -> str:
        parts = {kind: getattr(self, field) for field, kind in _TYPES.items()}
        return ", ".join(
            f"{kind} {name.value if isinstance(name, QuotaName) else name}"
            for kind, name in parts.items()
            if name is not None
        )


@dataclass(frozen=True, slots=True)
class ClientQuotaFilter:
    """Filter of entities by their parts. None does not filter by the part."""

    user: str | QuotaName | None = None
    client_id: str | QuotaName | None = None
    ip: str | QuotaName | None = None
    strict: bool = False
    """Whether entities with other parts than those of the filter do not match."""


async def describe_client_quotas(
    cluster: Cluster, quota_filter: ClientQuotaFilter
) -> dict[ClientQuotaEntity, dict[str, float]]:
    """Return the quotas of the entities that the filter finds, sorted."""
    parts = {kind: getattr(quota_filter, field) for field, kind in _TYPES.items()}
    components = [_component(kind, name) for kind, name in parts.items() if name is not None]
    request = DescribeClientQuotasRequest(components=components, strict=quota_filter.strict)
    response = await cluster.retrying(lambda: cluster.ask_any(request, DescribeClientQuotasResponse))
    check(response.error_code, "", response.error_message)
    found = {}
    for entry in response.entries or ():
        entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
        found[entity] = {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)}
    return dict(sorted(found.items(), key=lambda item: str(item[0])))


async def alter_client_quotas(
    cluster: Cluster, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> None:
    """Set and remove (None) quotas. Raises the first error after the other entities are changed."""
    if not changes:
        return
    request = AlterClientQuotasRequest(
        entries=[_entry(entity, quotas) for entity, quotas in changes.items()], validate_only=validate_only
    )
    response = await cluster.retrying(lambda: cluster.ask_any(request, AlterClientQuotasResponse))
    for result in response.entries:
        entity = _entity({part.entity_type: part.entity_name for part in result.entity})
        check(result.error_code, str(entity), result.error_message)


def _component(kind: str, name: str | QuotaName) -> ComponentData:
    if isinstance(name, str):
        return ComponentData(entity_type=kind, match_type=_EXACT, match=name)
    return ComponentData(entity_type=kind, match_type=_DEFAULT if name is QuotaName.DEFAULT else _ANY, match=None)


def _entry(entity: ClientQuotaEntity, quotas: Mapping[str, float | None]) -> EntryData:
    parts = []
    for field, kind in _TYPES.items():
        name = getattr(entity, field)
        if name is QuotaName.ANY:
            raise ConfigError(f"A quota is of one {kind} or of the default; QuotaName.ANY is only for filters.")
        if name is not None:
            parts.append(EntityData(entity_type=kind, entity_name=None if name is QuotaName.DEFAULT else name))
    if not parts:
        raise ConfigError("A quota needs a user, a client ID or an IP address.")
    ops = [
        OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
        for key, value in quotas.items()
    ]
    return EntryData(entity=parts, ops=ops)


def _entity(parts: Mapping[str, str | None]) -> ClientQuotaEntity:
    names: dict[str, str | QuotaName] = {}
    for field, kind in _TYPES.items():
        if kind in parts:
            name = parts[kind]
            names[field] = QuotaName.DEFAULT if name is None else name
    return ClientQuotaEntity(**names)
