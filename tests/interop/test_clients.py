"""First steps of a user of each client: a topic, records in every codec, a group that continues at its offset."""

from __future__ import annotations

import pytest

from tests.interop.broker import Broker
from tests.interop.clients import OF_EACH_CLIENT, Client

pytestmark = pytest.mark.interop


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    if found.name == "java":
        request.getfixturevalue("kafka_tools")
    return found


@pytest.mark.parametrize("client", OF_EACH_CLIENT, indirect=True)
def test_records_of_every_codec_come_back_as_they_were(client: Client, any_broker: Broker, fresh: str) -> None:
    client.create_topic(any_broker.bootstrap, fresh, 1)
    written = [f"{codec} {number} {'x' * 100}" for codec in client.codecs for number in range(20)]
    for codec in client.codecs:
        values = [value for value in written if value.startswith(f"{codec} ")]
        client.produce(any_broker.bootstrap, fresh, values, codec)

    # One partition: the order is the partition's.
    assert client.consume(any_broker.bootstrap, f"{fresh}-group", fresh, len(written)) == written


@pytest.mark.parametrize("client", OF_EACH_CLIENT, indirect=True)
def test_a_group_continues_from_its_commit(client: Client, any_broker: Broker, fresh: str) -> None:
    group = f"{fresh}-group"
    client.create_topic(any_broker.bootstrap, fresh, 3)
    written = {f"value {number}" for number in range(30)}
    client.produce(any_broker.bootstrap, fresh, sorted(written), "none")

    first = client.consume(any_broker.bootstrap, group, fresh, 10)
    between = client.describe(any_broker.bootstrap, group, fresh)
    rest = client.consume(any_broker.bootstrap, group, fresh, 20)
    after = client.describe(any_broker.bootstrap, group, fresh)

    assert len(set(first)) == 10
    assert set(first) | set(rest) == written
    assert (between.state, between.members, sum(between.committed.values())) == ("Empty", 0, 10)
    assert (after.state, after.members, sum(after.committed.values())) == ("Empty", 0, 30)
