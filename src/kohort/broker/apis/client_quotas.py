"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from kohort.broker.logs import DiskErrors, Leadership
from kohort.broker.net import Call
from kohort.broker.quotas import CLIENT_ID, IP, TYPES, USER, ClientQuotas, Entity, check_entity, check_quota
from kohort.errors import ErrorCode, KafkaError
from kohort.wire.messages import alter_client_quotas as altering
from kohort.wire.messages import describe_client_quotas as describing
from kohort.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kohort.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    client_quotas: ClientQuotas
    disk_errors: DiskErrors
    leadership: Leadership


_EXACT, _DEFAULT, _ANY = 0, 1, 2
"""Match types of a filter."""


def describe(broker: Dependencies, call: Call, request: DescribeClientQuotasRequest) -> None:
    """Return the quotas of the entities that the filter finds."""
    try:
        _check_filter(request.components)
    except KafkaError as error:
        call.reply(DescribeClientQuotasResponse(error_code=error.code, error_message=error.sentence, entries=None))
        return
    entries = [
        describing.EntryData(
            entity=[describing.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[describing.ValueData(key=name, value=value) for name, value in sorted(quotas.items())],
        )
        for entity, quotas in broker.client_quotas.all.items()
        if _is_found(dict(entity), request)
    ]
    call.reply(DescribeClientQuotasResponse(error_message="", entries=entries))  # not null, as in Kafka


def _check_filter(components: Iterable[describing.ComponentData]) -> None:
    kinds: set[str] = set()
    for component in components:
        kind, match_type = component.entity_type, component.match_type
        if not kind:
            raise _invalid("The entity type of a filter cannot be empty.")
        if kind in kinds:
            raise _invalid(f"The filter names the entity type {kind} twice.")
        if kind not in TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"The entity type {kind!r} is unknown.")
        if match_type not in (_EXACT, _DEFAULT, _ANY):
            raise _invalid(f"The match type {match_type} is unknown.")
        if (component.match is None) != (match_type != _EXACT):
            raise _invalid("A filter names an entity if and only if it matches exactly.")
        kinds.add(kind)
    if IP in kinds and kinds & {USER, CLIENT_ID}:
        raise _invalid("A filter of ip cannot be combined with one of user or client-id.")


def _is_found(entity: Mapping[str, str | None], request: DescribeClientQuotasRequest) -> bool:
    for component in request.components:
        kind = component.entity_type
        if kind not in entity or (component.match_type != _ANY and entity[kind] != component.match):
            return False
    return not request.strict or len(entity) == len(request.components)


def alter(broker: Dependencies, call: Call, request: AlterClientQuotasRequest) -> None:
    """Change the quotas of each entity, independently of the others. Its changes are made together, or not at all."""
    results: dict[Entity, altering.EntryDataResult] = {}
    for entry in request.entries:
        entity: Entity = tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))
        code, sentence = ErrorCode.NONE, None
        try:
            if entity in results:
                # As in Kafka, where the first change is made all the same.
                raise _invalid("The request names the entity twice.")
            changes = _changes(entity, entry.ops)
            if not request.validate_only:
                broker.leadership.catch_up()
                broker.client_quotas.change(entity, changes)
        except KafkaError as error:
            code, sentence = error.code, error.sentence
        except OSError as error:
            broker.disk_errors.note("store quotas", error)
            code, sentence = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        parts = [altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        results[entity] = altering.EntryDataResult(error_code=code, error_message=sentence, entity=parts)
    call.reply(AlterClientQuotasResponse(entries=list(results.values())))


def _changes(entity: Entity, ops: Iterable[altering.OpData]) -> dict[str, float | None]:
    changes: dict[str, float | None] = {}
    for op in ops:
        if op.key in changes:
            raise _invalid(f"The request changes the quota {op.key} twice.")
        changes[op.key] = None if op.remove else op.value
    check_entity(entity)
    for name, value in changes.items():
        if value is not None:
            check_quota(entity, name, value)
    return changes


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
