"""One broker of a cluster, in this process."""

from __future__ import annotations

from pathlib import Path

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import ClusterStore
from kohort.log.cluster import NOBODY
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.peer import talking_to


async def test_a_partition_that_nobody_leads_is_named_with_its_error(tmp_path: Path) -> None:
    async with Broker(BrokerOptions(port=0, data=tmp_path, shared=True)) as broker, talking_to(broker) as peer:
        broker.topics.create("orders", 2)
        assert isinstance(broker.store, ClusterStore)
        broker.store.follow(broker.store.image.gone(broker.node_id))
        topics = [MetadataRequestTopic(name="orders")]
        (topic,) = (await peer.ask(MetadataRequest(topics=topics), 12, MetadataResponse)).topics
        found = {(one.leader_id, one.error_code) for one in topic.partitions}
        assert found == {(NOBODY, ErrorCode.LEADER_NOT_AVAILABLE)}
