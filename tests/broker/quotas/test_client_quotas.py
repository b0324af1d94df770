"""Quotas in the store: what survives a restart, what a failure changes, and what cannot be read."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.quotas.client_quotas import QUOTAS
from kohort.errors import ConfigError, ErrorCode
from kohort.log import MemoryStore
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
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, talking_to

PAIR = {"user": "alice", "client-id": None}


async def alter(peer: Peer, entity: Mapping[str, str | None], quotas: Mapping[str, float]) -> int:
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=name, value=value) for name, value in quotas.items()],
    )
    answer = await peer.ask(AlterClientQuotasRequest(entries=[entry]), 1, AlterClientQuotasResponse)
    return answer.entries[0].error_code


async def everything(peer: Peer) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    answer = await peer.ask(DescribeClientQuotasRequest(components=[]), 1, DescribeClientQuotasResponse)
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or ()
    ]


async def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    quotas = {"producer_byte_rate": 1_048_576.0, "request_percentage": 12.5}
    options = BrokerOptions(port=0, data=tmp_path, settings=QUICK)
    async with Broker(options) as broker, talking_to(broker) as peer:
        assert await alter(peer, PAIR, quotas) == ErrorCode.NONE
    async with Broker(options) as broker, talking_to(broker) as peer:
        assert await everything(peer) == [(PAIR, quotas)]
        assert broker.client_quotas.produce.enforced
        assert not broker.client_quotas.fetch.enforced


async def test_a_full_disk_is_an_error_and_changes_nothing(
    start_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    broker = await start_broker(BrokerOptions(port=0, settings=QUICK), store)

    def full(kind: str, name: str, configs: Mapping[str, str]) -> None:
        raise OSError(28, "No space left on device")

    async with talking_to(broker) as peer:
        with monkeypatch.context() as patch:
            patch.setattr(store, "keep_configs", full)
            assert await alter(peer, PAIR, {"producer_byte_rate": 5.0}) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await everything(peer) == []
        assert await alter(peer, PAIR, {"producer_byte_rate": 5.0}) == ErrorCode.NONE


async def test_filters_find_names_defaults_and_types(broker: Broker) -> None:
    async with talking_to(broker) as peer:
        for entity in (PAIR, {"user": "alice"}, {"client-id": "app"}):
            assert await alter(peer, entity, {"consumer_byte_rate": 5.0}) == ErrorCode.NONE
        for component, strict, found in (
            (ComponentData(entity_type="user", match="alice"), False, 2),
            (ComponentData(entity_type="user", match="alice"), True, 1),
            (ComponentData(entity_type="client-id", match_type=1, match=None), False, 1),
            (ComponentData(entity_type="client-id", match_type=2, match=None), False, 2),
            (ComponentData(entity_type="ip", match_type=2, match=None), False, 0),
        ):
            request = DescribeClientQuotasRequest(components=[component], strict=strict)
            answer = await peer.ask(request, 1, DescribeClientQuotasResponse)
            assert len(answer.entries or ()) == found, component


async def test_a_stored_quota_that_cannot_be_read_stops_the_start(start_broker: MakeBroker) -> None:
    store = MemoryStore()
    store.keep_configs(QUOTAS, '[["user", "alice"]]', {"producer_byte_rate": "much"})
    with pytest.raises(ConfigError, match="cannot be read"):
        await start_broker(BrokerOptions(port=0, settings=QUICK), store)
