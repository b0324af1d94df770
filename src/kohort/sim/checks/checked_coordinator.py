"""Group coordinator under observation: every request, timer and record is checked and then passed on.

`CheckedCoordinator` wraps production's `GroupShard`. It computes the expected result of a request
beforehand, from the group's state and Kafka's rules, not with the coordinator's code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from math import inf
from typing import Any, Protocol

from kohort.coordinator import (
    SHORT_GRACE,
    Effects,
    GroupRecord,
    GroupShard,
    GroupState,
    HeldHeartbeat,
    MetadataImage,
    OffsetExpiry,
    PartitionExtent,
    RequestContext,
    Timer,
    Token,
    WaitingRequest,
)
from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import ConsumerGroup, chosen_assignor
from kohort.errors import ErrorCode
from kohort.group_events import RebalanceStarted
from kohort.model import UUID, Millis, TopicPartition
from kohort.sim.checks.classic_rules import (
    ACCEPTED,
    asked_topics,
    codes,
    holder_of,
    is_stale,
    kept_partitions,
    must_refuse,
    returning,
)
from kohort.sim.checks.consumer_groups import places_of
from kohort.sim.checks.consumer_rules import (
    epoch_of,
    is_stale_in_consumer_group,
    must_refuse_commit,
    must_refuse_heartbeat,
    returns_unchanged,
)
from kohort.sim.checks.durable_groups import DurableGroups
from kohort.sim.checks.durable_state import group_of, same
from kohort.sim.checks.effect_rules import (
    check_refused,
    check_touches_only,
    fingerprint_of_group,
    instance_id_of,
    is_join_of_process,
    may_subscribe,
    needs_offsets,
    touched_groups,
    waiting_group,
)
from kohort.sim.checks.error_codes import is_allowed
from kohort.sim.checks.observed_groups import AnyGroup, ObservedGroups, check_instance_ids, replaced_members
from kohort.sim.checks.refusals import EXPECTED, expected_refusals, names_replaced_member
from kohort.sim.violation import Violation
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.group_records import ConsumerGroupMetadataKey, OffsetCommitKey
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.sync_group import SyncGroupResponse


class CoordinatorObserver(Protocol):
    """Observer to which coordinators report; `Observations` implements it. See there for its attributes."""

    durable_groups: list[DurableGroups]
    live: dict[int, CheckedCoordinator]
    states: Counter[tuple[str, str]]
    errors: Counter[tuple[str, ErrorCode]]
    rebalances: Counter[str]
    joined: dict[tuple[str, str], dict[str, float]]
    refused: set[tuple[str, ErrorCode]]
    outdated: dict[tuple[str, str], float]
    note: Callable[[str], None]
    now: Callable[[], float]
    names: Callable[[], dict[UUID, str]]
    lives: Callable[[str, str, float], bool]
    join_phase_over: Callable[[str], None]
    uncommitted: Callable[[str, UUID, int], None]

    def is_damaged(self, group_id: str) -> bool:
        """Return whether the disk has lost records of the group."""
        ...

    def took_over(self, group_id: str, generation: int, *, leads: bool, asks_for_others: bool) -> None:
        """Record that a static member of a classic group returned without a rebalance."""
        ...

    def changed(self, group_id: str, group: AnyGroup | None) -> None:
        """Record the assignment of a group that may have changed; None if it does not exist any more."""
        ...

    def happened(self, group_id: str, what: str) -> None:
        """Record an event of a group."""
        ...


class CheckedCoordinator:
    """Wrapper of one coordinator."""

    def __init__(
        self, observations: CoordinatorObserver, machine: GroupShard, partition: int, owns: Callable[[], bool]
    ) -> None:
        self.machine = machine
        self.unsynced = 0
        """Number of appended records that are not durable yet."""
        self._seen = ObservedGroups(observations.states, lambda group_id: observations.join_phase_over(group_id))
        self._observations = observations
        self._partition = partition
        self.owns = owns
        """Whether its broker still owns the log."""
        self._serves = False
        self._knows_topics = False
        self._replaced: dict[str, Set[str]] = {}
        """Members of each group whose replacement was not in its damaged log when it was loaded."""
        self._touched: tuple[tuple[str, ...], Millis] | None = None
        """Groups to check once the records of the last event are applied."""
        self._holding: dict[Token, HeldHeartbeat] = {}
        """Heartbeats that were held, by token, until they are answered or their connection is closed."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    # Read for each request, so `__getattr__` would be too slow.

    @property
    def has_news(self) -> bool:
        return self.machine.has_news

    @property
    def holds_end_at(self) -> Millis | None:
        return self.machine.holds_end_at

    @property
    def timers(self) -> dict[Timer, Millis]:
        """All timers that are set."""
        return self._seen.timers

    # Loading

    def loaded(self, now: Millis) -> Effects:
        """Record that the log was replayed: the state must be the durable one."""
        observations = self._observations
        if self.owns():
            durable = observations.durable_groups[self._partition]
            same(self.machine, durable.shard, "as loaded")
            same(durable.compacted(), durable.shard, "compacted")
            observations.live[self._partition] = self
        self._serves = True
        groups: list[AnyGroup] = [*self.machine.groups.values(), *self.machine.consumer_groups.values()]
        for group in groups:
            self._seen.loaded(group, now)
            if observations.is_damaged(group.group_id):
                self._replaced[group.group_id] = replaced_members(group)
        return self._take(self.machine.loaded(now), None, now)

    def resign(self) -> Effects:
        """Record that this is no longer the coordinator of its groups."""
        self._serves = False
        if self._observations.live.get(self._partition) is self:
            del self._observations.live[self._partition]
        effects = self.machine.resign()
        if unanswered := self._holding.keys() - effects.replies.keys():
            raise Violation("L8", f"a broker resigned without an answer to {len(unanswered)} held heartbeats")
        self._holding.clear()
        return effects

    # Requests

    def heartbeat(
        self, request: HeartbeatRequest, now: Millis, token: Token | None = None
    ) -> ErrorCode | HeldHeartbeat:
        """Handle the most frequent request. See `handle`."""
        group = self.group(request.group_id)
        if isinstance(group, ConsumerGroup):
            stale = is_stale_in_consumer_group(group, request)
        else:
            stale = must_refuse(group, request.member_id, request.group_instance_id, request.generation_id)
        before = fingerprint_of_group(group) if stale else None
        fenced = names_replaced_member(group, request)
        code = self.machine.heartbeat(request, now, token)
        if isinstance(code, HeldHeartbeat):
            self._holding.setdefault(code.token, code)
        else:
            self._observations.errors["Heartbeat", code] += 1
            if code is ErrorCode.FENCED_INSTANCE_ID:
                self._fences(request, fenced=fenced)
        if stale:
            if isinstance(code, HeldHeartbeat) or code in ACCEPTED:
                raise Violation("S5", f"{request} was accepted")
            if fingerprint_of_group(group) != before:
                raise Violation("S5", f"{request} changed the group")
        elif not isinstance(group, ConsumerGroup):
            self._seen.heard(request.group_id, request.member_id, now)
        return code

    def _fences(self, request: HeartbeatRequest, *, fenced: bool) -> None:
        group_id, instance_id = request.group_id, request.group_instance_id or ""
        if not fenced:
            raise Violation("S14", f"{group_id} {instance_id} was fenced, although no other member has it")
        if not self.owns():
            self._observations.outdated[group_id, instance_id] = self._observations.now()

    def handle(self, request: Message, context: RequestContext, now: Millis) -> Effects:
        """Handle one request, and check the result."""
        group_id = getattr(request, "group_id", None)
        found = self.group(group_id) if group_id else None
        expected = set(expected_refusals(found, request, self.machine._groups.config))
        if names_replaced_member(found, request):
            expected.add(ErrorCode.FENCED_INSTANCE_ID)
        group = found if isinstance(found, ClassicGroup) else None
        if isinstance(found, ConsumerGroup) or isinstance(request, ConsumerGroupHeartbeatRequest):
            return self._handle_consumer(found, request, context, expected, now)
        stale = is_stale(group, request, context.api_version)
        before = fingerprint_of_group(group) if stale else None
        returned = returning(group, request)
        holder = None if group is None else holder_of(group, request)
        leads = holder is not None and group is not None and group.leader_id == holder.member_id
        state = None if group is None else group.state
        kept = kept_partitions(group, request)
        effects = self.machine.handle(request, context, now)
        self._joined(request, effects, context)
        for token, reply in effects.replies.items():
            if token == context.token:
                self._answered(request, reply, now)
                self._refused(request, reply, context.client_id, expected)
                if isinstance(reply, OffsetCommitResponse) and ErrorCode.REBALANCE_IN_PROGRESS in codes(reply):
                    self._refuses_for_a_rebalance(group_id, state)
                if kept and group_id is not None and ErrorCode.GROUP_MAX_SIZE_REACHED in codes(reply):
                    self._removes_for_size(group_id, kept)
        if stale and group_id is not None:
            check_refused(request, effects, context.token)
            if fingerprint_of_group(self.group(group_id)) != before:
                raise Violation("S5", f"{request} changed the group")
        if holder is not None and group is not None and group.state is GroupState.STABLE:
            after = group.members[group.static_ids[holder.instance_id or ""]]
            others = asked_topics(after) != asked_topics(holder)
            self._observations.took_over(group.group_id, group.generation, leads=leads, asks_for_others=others)
        if returned is not None and group is not None and group.state is not GroupState.STABLE:
            raise Violation("S12", f"{group_id} rebalances for {returned}, a static member that returned")
        return self._take(effects, None if group_id is None else (group_id,), now)

    def _refused(self, request: Message, reply: Message, client_id: str, expected: Set[ErrorCode]) -> None:
        """Check a rejection of a member for good, which only some states of its group give."""
        group_id: str = getattr(request, "group_id", "")
        instance_id = instance_id_of(request)
        for code in codes(reply):
            is_join = isinstance(request, JoinGroupRequest | ConsumerGroupHeartbeatRequest)
            if code is ErrorCode.FENCED_INSTANCE_ID or (is_join and code in EXPECTED):
                if code not in expected:
                    who = f"{group_id} {instance_id}"
                    raise Violation("S14", f"{who} was answered {code.name}, which its group's state does not give")
                self._observations.refused.add((client_id, code))
                if not self.owns():
                    self._observations.outdated[group_id, instance_id] = self._observations.now()

    def _joined(self, request: Message, effects: Effects, context: RequestContext) -> None:
        """Record that the process of a static member joined, unless it was rejected."""
        instance_id = instance_id_of(request)
        if not instance_id or not is_join_of_process(request):
            return
        reply = effects.replies.get(context.token)
        if reply is None or not any(codes(reply)):
            at = self._observations.joined.setdefault((getattr(request, "group_id", ""), instance_id), {})
            at[context.client_id] = self._observations.now()

    def _refuses_for_a_rebalance(self, group_id: str | None, state: GroupState | None) -> None:
        """Check a commit that a rebalance rejects: while members join, they may still commit what they give up."""
        if state is not GroupState.COMPLETING_REBALANCE:
            raise Violation(
                "S14", f"{group_id} rejects a commit because of a rebalance, but was {state and state.value}"
            )

    def _removes_for_size(self, group_id: str, kept: Set[TopicPartition]) -> None:
        """Handle a member that joins too late for the group's size: it cannot commit what it processed.

        While a group rebalances, as many members as it may have can join, also new ones before this
        one, as in Kafka.
        """
        ids = {name: topic_id for topic_id, name in self._observations.names().items()}
        for partition in kept:
            if partition.topic in ids:
                self._observations.uncommitted(group_id, ids[partition.topic], partition.partition)

    def _handle_consumer(
        self,
        group: AnyGroup | None,
        request: Message,
        context: RequestContext,
        expected: Set[ErrorCode],
        now: Millis,
    ) -> Effects:
        """Handle a request that concerns a consumer group, or creates one."""
        group_id: str = request.group_id  # type: ignore[attr-defined]
        stays_at: int | None = None
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            consumer = group if isinstance(group, ConsumerGroup) else None
            stale = must_refuse_heartbeat(consumer, request)
            stays_at = consumer.epoch if consumer is not None and returns_unchanged(consumer, request) else None
        elif isinstance(request, OffsetCommitRequest) and isinstance(group, ConsumerGroup):
            ids = {name: topic_id for topic_id, name in self._observations.names().items()}
            stale = must_refuse_commit(group, self._seen.pasts[group_id], request, ids)
        else:
            stale = isinstance(group, ConsumerGroup) and is_stale_in_consumer_group(group, request)
        before = fingerprint_of_group(group) if stale else None
        effects = self.machine.handle(request, context, now)
        self._joined(request, effects, context)
        for token, reply in effects.replies.items():
            if token == context.token:
                self._answered(request, reply, now)
                self._refused(request, reply, context.client_id, expected)
        if isinstance(request, ConsumerGroupHeartbeatRequest) and context.token not in effects.replies:
            for held in self.machine.held:
                if held.token == context.token:
                    self._holding.setdefault(held.token, held)
        if stale:
            check_refused(request, effects, context.token)
            if fingerprint_of_group(self.group(group_id)) != before:
                raise Violation("S5", f"{request} changed the group")
        if stays_at is not None and any(epoch_of(record) > stays_at for record in effects.records):
            raise Violation("S12", f"{group_id} leaves epoch {stays_at} for {request}, a static member that returned")
        return self._take(effects, None if group_id is None else (group_id,), now)

    def group(self, group_id: str) -> AnyGroup | None:
        """Return the group of that id, of either type."""
        return group_of(self.machine, group_id)

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.group(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def quiet_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, now: Millis, token: Token | None = None
    ) -> ConsumerGroupHeartbeatResponse | HeldHeartbeat | None:
        """Handle a consumer group's heartbeat without changes, or return None; `handle` takes all others."""
        group = self.group(request.group_id)
        answer = self.machine.quiet_heartbeat(request, now, token)
        if isinstance(answer, HeldHeartbeat):
            self._holding.setdefault(answer.token, answer)
        if answer is not None and must_refuse_heartbeat(group if isinstance(group, ConsumerGroup) else None, request):
            raise Violation("S5", f"{request} was accepted")
        return answer

    # Changes of topics and settings

    def topics_deleted(self, names: Collection[str], now: Millis) -> Effects:
        """Apply the deletion of topics: only what was committed for them is deleted."""
        effects = self.machine.topics_deleted(names, now)
        for record in effects.records:
            if not (isinstance(record.key, OffsetCommitKey) and record.value is None and record.key.topic in names):
                raise Violation("S13", f"the deletion of {sorted(names)} wrote {record.key}")
        return self._take(effects, None, now)

    def metadata_changed(self, image: MetadataImage, now: Millis) -> Effects:
        """Apply new topic metadata: it concerns only groups that subscribe to a topic that changed."""
        before, knew_topics = self.machine._groups.metadata, self._knows_topics
        self._knows_topics = True
        effects = self.machine.metadata_changed(image, now)
        if not knew_topics:
            return self._take(effects, None, now)  # every group waited for the first image
        changed = {name for name, _ in before.by_name.items() ^ image.by_name.items()}
        concerned = [group_id for group_id in touched_groups(effects) if may_subscribe(self.group(group_id), changed)]
        return self._take(effects, concerned, now)

    def settings_changed(self, group_ids: Iterable[str], now: Millis) -> Effects:
        """Apply changed settings of groups."""
        group_ids = list(group_ids)
        return self._take(self.machine.settings_changed(group_ids, now), group_ids, now)

    def loads_measured(self, extents: Mapping[str, Sequence[PartitionExtent]], now: Millis) -> Effects:
        """Apply measured extents: they concern only groups that subscribe to one of these topics."""
        effects = self.machine.loads_measured(extents, now)
        concerned = [
            group_id for group_id in touched_groups(effects) if may_subscribe(self.group(group_id), extents.keys())
        ]
        return self._take(effects, concerned, now)

    def fire(self, timer: Timer, now: Millis) -> Effects:
        """Execute a timer, and check the result."""
        self._seen.fires(timer, now)
        effects = self.machine.fire(timer, now)
        if isinstance(timer, OffsetExpiry):
            self._only_unwanted(effects)
        if group_id := getattr(timer, "group_id", None):
            self._observations.happened(group_id, type(timer).__name__)
        return self._take(effects, None if group_id is None else (group_id,), now)

    def _only_unwanted(self, effects: Effects) -> None:
        """Check that offsets of subscribed topics of a live group do not expire (KIP-211, KAFKA-13636)."""
        for record in effects.records:
            if isinstance(record.key, OffsetCommitKey):
                group = self.group(record.key.group)
                if group is not None and group.members and needs_offsets(group, record.key.topic):
                    raise Violation("S7", f"{record.key} expires, although {group.group_id} subscribes to its topic")

    def disconnected(self, token: Any, now: Millis) -> Effects:
        """Handle the lost connection of a parked request."""
        self._holding.pop(token, None)
        return self._take(self.machine.disconnected(token, now), waiting_group(token), now)

    def expire_member(self, group_id: str, member_id: str, now: Millis) -> Effects:
        """Remove a member as if its session had expired."""
        self._observations.happened(group_id, "expired")
        return self._take(self.machine.expire_member(group_id, member_id, now), (group_id,), now)

    def skip_time(
        self, by: Millis, connected: Set[tuple[str, str]], dead: Set[tuple[str, str]], now: Millis
    ) -> Set[Timer]:
        """Prepare for a jump of the clock: record whose deadlines move.

        A member whose heartbeat is held lives, although another client sent its member ID and closed its connection.
        """
        waiting = {(held.request.group_id, held.request.member_id) for held in self.machine.held}
        postponed = self.machine.skip_time(by, connected, dead, now)
        self._seen.skip_time(by, connected | waiting, postponed)
        held = {held.token: held for held in self.machine.held}
        for token, first in self._holding.items():
            if first is not held.get(token):
                first.due_at += by
        return postponed

    # Held heartbeats

    def answer_news(self, now: Millis) -> Effects:
        """Answer held heartbeats whose members have changes to receive."""
        return self._take(self.machine.answer_news(now), None, now)

    def release(self, token: Token, behind: WaitingRequest, now: Millis) -> Effects:
        """Release a held heartbeat because another request waits behind it."""
        return self._take(self.machine.release(token, behind, now), waiting_group(token), now)

    @property
    def holding(self) -> Collection[HeldHeartbeat]:
        """Unanswered heartbeats as they were first held: their deadlines do not move if they are held again."""
        return self._holding.values() if self._serves else ()

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis, now: Millis) -> Effects:
        """Handle the lost connection of a member that did not reconnect."""
        self._check_removal(group_id, member_id, now - closed_at)
        effects = self.machine.connection_lost(group_id, member_id, closed_at, now)
        self._observations.happened(group_id, "connection lost")
        return self._take(effects, None if group_id is None else (group_id,), now)

    def _check_removal(self, group_id: str, member_id: str, waited: Millis) -> None:
        """Check that a member that is removed before its grace period ends is dead (S29)."""
        group, grace = self.group(group_id), self.machine.grace_ms(group_id, member_id)
        if group is None or grace is None or waited >= grace or not self.owns():
            return  # what a broker decides that is no longer the coordinator is not written
        client_id = group.members[member_id].client_id
        # A client that could not connect is as good as dead after a while, but not at once.
        since = self._observations.now() - waited / 1000 if waited >= SHORT_GRACE else inf
        if self._observations.lives(client_id, member_id, since):
            raise Violation("S29", f"{client_id}, which lives, is removed from {group_id} after {waited} ms of {grace}")
        self._observations.note(f"{group_id}: {client_id} is removed {waited} ms after its connection closed")

    # Consequences

    def replay(self, record: GroupRecord) -> None:
        """Replay a record of the log."""
        self.machine.replay(record)

    def replay_all(self, records: Iterable[GroupRecord]) -> None:
        """Replay records that were just appended."""
        records = list(records)
        self.machine.replay_all(records)
        for record in records:
            if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
                self._ends(record.key.group_id)
        if self._serves:
            self.unsynced += len(records)
            self._check_touched()

    def _ends(self, group_id: str) -> None:
        """Handle a consumer group that was deleted or became a classic group, whose generation is the group epoch.

        The coordinator rejects commits of members that were not at that epoch yet, as Kafka's does.
        """
        members, group = self._seen.pasts[group_id].members, self._classic(group_id)
        for member_id in () if group is None else group.members:
            member = members.get(member_id)
            if group is not None and member is not None and member.epoch != group.generation:
                for topic_id, partition in places_of(member):
                    self._observations.uncommitted(group_id, topic_id, partition)
        self._seen.forget(group_id)

    def _take(self, effects: Effects, concerned: Collection[str] | None, now: Millis) -> Effects:
        """Record the effects of an event, which may concern only these groups; None if it may concern any.

        All of these groups, and all that have effects, are checked once the records are applied.
        """
        self._seen.armed(effects.timers)
        for token in effects.replies:
            self._holding.pop(token, None)
        for event in effects.events:
            if isinstance(event, RebalanceStarted):
                self._observations.rebalances[event.group_id] += 1
                by = f" by {event.member_id}" if event.member_id else ""
                self._observations.note(f"{event.group_id} begins to rebalance: {event.cause.value}{by}")
        if concerned is None:
            concerned = touched_groups(effects)
        else:
            check_touches_only(concerned, effects)
        self._touched = tuple(concerned), now
        if not effects.records:
            self._check_touched()
        return effects

    def _check_touched(self) -> None:
        if self._touched is not None:
            group_ids, now = self._touched
            for group_id in group_ids:
                self._check(group_id, now)

    def _check(self, group_id: str, now: Millis) -> None:
        group = self.group(group_id)
        if group is not None:
            check_instance_ids(group, self._replaced.get(group_id, frozenset()))
        if isinstance(group, ConsumerGroup):
            assignor = chosen_assignor(self.machine._groups, group)
            self._seen.check_consumer(group, self._observations.names(), self.machine._groups.metadata, assignor)
        elif group is not None:
            self._seen.check_classic(group, now)
        if self._observations.live.get(self._partition) is self:
            self._observations.changed(group_id, group)

    def _answered(self, request: Message, reply: Message, now: Millis) -> None:
        kind = OffsetCommitRequest if isinstance(request, OffsetCommitRequest) else type(request)
        name = kind.__name__.removesuffix("Request")
        answered = list(codes(reply))
        self._observations.happened(
            getattr(request, "group_id", ""), f"{name} {max(answered, default=ErrorCode.NONE).name}"
        )
        for code in answered:
            self._observations.errors[name, code] += 1
            if not is_allowed(name, code):
                raise Violation("S14", f"{name} was answered {code.name}")
        if isinstance(reply, JoinGroupResponse | SyncGroupResponse | OffsetCommitResponse | HeartbeatResponse):
            member_id = reply.member_id if isinstance(reply, JoinGroupResponse) else getattr(request, "member_id", "")
            # A commit refreshes the session if the member is allowed to commit, even if a partition's
            # metadata is too long. In Kafka, too, the session is refreshed before any partition is checked.
            if all(code in (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE) for code in codes(reply)):
                self._seen.heard(getattr(request, "group_id", ""), member_id, now)
