"""Our broker killed and started again on its directory, as its clients see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.clients import OF_EACH_CLIENT, Client
from tests.interop.kohort import kohort_to_kill, running_kohort

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("client", OF_EACH_CLIENT)
def test_records_and_commits_survive_a_kill(client: Client, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if client.name == "java":
        request.getfixturevalue("kafka_tools")
    store = ("--data", str(tmp_path / "data"))
    written = [f"value {number}" for number in range(20)]
    with kohort_to_kill(*store, group_initial_rebalance_delay_ms="0") as broker:
        client.create_topic(broker.bootstrap, "orders", 1)
        client.produce(broker.bootstrap, "orders", written, "gzip")
        assert client.consume(broker.bootstrap, "billing", "orders", 12) == written[:12]

    with running_kohort(*store, group_initial_rebalance_delay_ms="0") as broker:
        assert client.describe(broker.bootstrap, "billing", "orders").committed == {0: 12}
        assert client.consume(broker.bootstrap, "billing", "orders", 8) == written[12:]
