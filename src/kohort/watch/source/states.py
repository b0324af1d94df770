"""States of groups that the log does not tell.

A classic group that rebalances writes no record. The records of streams groups (KIP-1071) are not
followed, except those of their offsets.
"""

import asyncio
from collections.abc import Sequence

from kohort.client import Cluster, KafkaError
from kohort.model import Millis
from kohort.watch.group import REBALANCING
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_STATES_FILTER = 4  # KIP-518: since this version, brokers select groups by state
_TYPES_FILTER = 5  # KIP-848: since this version, by type
_STREAMS = "streams"
_STREAMS_EVERY_MS: Millis = 5_000


class RebalancingStates:
    """Asks all brokers which groups rebalance now: one small request and answer for each broker.

    Brokers older than Apache Kafka 2.6 are not asked, because they list all groups without their states.
    """

    def __init__(self, cluster: Cluster, live: Live) -> None:
        self._cluster = cluster
        self._live = live
        self._known: set[str] = set()
        """Groups that rebalanced at the last look."""
        self._streams: set[str] = set()
        """Streams groups at the last look at them."""
        self._streams_at: Millis = 0

    async def look(self) -> None:
        """Take the states of the groups that rebalance, and now and then those of streams groups.

        Raises KafkaError if no broker answers.
        """
        listed, _ = await self._ask_all(ListGroupsRequest(states_filter=list(REBALANCING)), _STATES_FILTER)
        now = clock()
        found = {group.group_id: group.group_state for group in listed if group.group_state in REBALANCING}
        for group_id, state in found.items():
            self._live.in_state(group_id, state, now)
        for group_id in self._known - found.keys():
            group = self._live.groups.get(group_id)
            if group is not None and group.described_state in REBALANCING:
                self._live.in_state(group_id, None, now)
        self._known = set(found)
        if not 0 <= now - self._streams_at < _STREAMS_EVERY_MS:
            self._streams_at = now
            await self._look_at_streams()

    async def _look_at_streams(self) -> None:
        listed, whole = await self._ask_all(ListGroupsRequest(types_filter=[_STREAMS]), _TYPES_FILTER)
        now = clock()
        found = {group.group_id: group.group_state for group in listed if group.group_type.lower() == _STREAMS}
        for group_id, state in found.items():
            self._live.listed(group_id, _STREAMS, state, now)
        if whole:
            for group_id in self._streams - found.keys():
                self._live.listed(group_id, None, None, now)
            self._streams = set(found)
        else:
            self._streams |= found.keys()

    async def _ask_all(self, request: ListGroupsRequest, least: int) -> tuple[list[ListedGroup], bool]:
        """Return the groups of all brokers that answer, and whether all do. Raises KafkaError if none does."""
        answers = await asyncio.gather(*(self._ask(node, request, least) for node in self._cluster.metadata.brokers))
        problems = [answer for answer in answers if isinstance(answer, KafkaError)]
        if problems and len(problems) == len(answers):
            raise problems[0]
        listed = [group for answer in answers if not isinstance(answer, KafkaError) for group in answer]
        return listed, not problems

    async def _ask(self, node: int, request: ListGroupsRequest, least: int) -> Sequence[ListedGroup] | KafkaError:
        try:
            connection = await self._cluster.connection(node, "groups")
            if connection.version_of(ListGroupsRequest) < least:
                return ()
            response = await connection.request(request, ListGroupsResponse)
        except KafkaError as problem:
            return problem
        # An error, such as a coordinator that loads its groups, comes without groups: then nothing is known.
        return response.groups
