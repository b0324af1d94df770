"""Who computed the assignment of a group, as the observer of its coordinators knows it (S3)."""

from __future__ import annotations

from itertools import count

from kohort.assignor.server import TopicShape
from kohort.coordinator import GroupConfig, GroupShard, MetadataImage, RequestContext, Topic
from kohort.coordinator.timers import InitialRebalanceDelay
from kohort.model import UUID, TopicPartition
from kohort.sim.checks import CheckedCoordinator, GroupProgress, Observations
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NOW = 1_000_000
EVERYTHING = [TopicPartition("orders", number) for number in range(3)]


class Observed:
    """The coordinator of the group g under observation."""

    def __init__(self) -> None:
        self.observations = Observations(GroupProgress(), 1, lambda text: None)
        self.observations.names = lambda: {UUID(int=7): "orders"}
        self.observations.most = lambda topic: 3
        self.tokens, ids = count(), count(1)
        machine = GroupShard(GroupConfig(initial_rebalance_delay_ms=0), lambda: f"id-{next(ids)}")
        self.coordinator = CheckedCoordinator(self.observations, machine, 0, lambda: True)
        self.coordinator.metadata_changed(
            MetadataImage([Topic("orders", UUID(int=7), TopicShape(len(EVERYTHING)))]), NOW
        )
        self.coordinator.loaded(NOW)

    def send(self, request: Message, version: int) -> Message | None:
        """Send one request, and return its response."""
        context = RequestContext(next(self.tokens), version, "c", "/c")
        effects = self.coordinator.handle(request, context, NOW)
        replies = effects.replies
        self.coordinator.replay_all(effects.records)
        for timer in list(self.coordinator.timers):
            if isinstance(timer, InitialRebalanceDelay):
                effects = self.coordinator.fire(timer, NOW)
                self.coordinator.replay_all(effects.records)
                replies |= effects.replies
        return replies.get(context.token)

    def join(self) -> JoinGroupResponse:
        """Let the member with the instance ID i join with the classic protocol, and take all partitions if it leads."""
        words = encode_subscription(Subscription(topics=["orders"]), 1)
        joined = self.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                group_instance_id="i",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="roundrobin", metadata=words)],
            ),
            9,
        )
        assert isinstance(joined, JoinGroupResponse) and not joined.error_code
        return joined

    def sync(self, member_id: str, generation: int) -> None:
        """Take all partitions."""
        share = SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(Assignment(EVERYTHING), 1))
        self.send(
            SyncGroupRequest(
                group_id="g",
                generation_id=generation,
                member_id=member_id,
                group_instance_id="i",
                protocol_type="consumer",
                protocol_name="roundrobin",
                assignments=[share],
            ),
            5,
        )

    def beat(self, member_id: str, instance_id: str | None, epoch: int = 0) -> None:
        """Send a heartbeat of the consumer protocol."""
        self.send(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=member_id,
                member_epoch=epoch,
                instance_id=instance_id,
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=["orders"],
                topic_partitions=[] if epoch == 0 else None,
            ),
            1,
        )

    @property
    def assignor(self) -> str:
        """Assignor of the present assignment."""
        group = self.observations.group("g")
        assert group is not None
        return self.observations.assignor(group)


def test_a_group_that_becomes_a_consumer_group_keeps_the_assignment_of_its_leader_until_the_next_epoch() -> None:
    observed = Observed()
    joined = observed.join()
    observed.sync(joined.member_id, joined.generation_id)
    assert observed.assignor == "roundrobin"
    observed.beat("static", "i")  # the same member restarts with the other protocol
    assert observed.assignor == "roundrobin"
    observed.beat("dynamic", None)
    assert observed.assignor == "uniform"


def test_a_group_that_becomes_a_classic_group_keeps_the_target_of_its_coordinator_until_the_next_generation() -> None:
    observed = Observed()
    observed.beat("static", "i")
    assert observed.assignor == "uniform"
    observed.beat("static", "i", -2)
    joined = observed.join()
    assert observed.assignor == "uniform"
    observed.sync(joined.member_id, joined.generation_id)
    assert observed.assignor == "uniform"


def test_a_new_group_has_nothing_of_the_one_before() -> None:
    observed = Observed()
    joined = observed.join()
    observed.sync(joined.member_id, joined.generation_id)
    observed.beat("static", "i")
    observed.beat("static", "i", -1)
    observed.beat("other", None)
    assert observed.assignor == "uniform"
