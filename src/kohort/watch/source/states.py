"""States in which a classic group rebalances. Its log does not have them, because they write no record."""

import asyncio
from collections.abc import Sequence

from kohort.client import Cluster, KafkaError
from kohort.watch.group import REBALANCING
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_STATES_FILTER = 4  # KIP-518: since this version, brokers select groups by state


class RebalancingStates:
    """Asks all brokers which groups rebalance now: one small request and answer for each broker.

    Brokers older than Apache Kafka 2.6 are not asked, because they list all groups without their states.
    """

    def __init__(self, cluster: Cluster, live: Live) -> None:
        self._cluster = cluster
        self._live = live
        self._known: set[str] = set()
        """Groups that rebalanced at the last look."""

    async def look(self) -> None:
        """Take the states of the groups that rebalance. Raises KafkaError if no broker answers."""
        answers = await asyncio.gather(*(self._ask(node) for node in list(self._cluster.metadata.brokers)))
        problems = [answer for answer in answers if isinstance(answer, KafkaError)]
        if problems and len(problems) == len(answers):
            raise problems[0]
        now = clock()
        found = {
            group.group_id: group.group_state
            for answer in answers
            if not isinstance(answer, KafkaError)
            for group in answer
            if group.group_state in REBALANCING
        }
        for group_id, state in found.items():
            self._live.in_state(group_id, state, now)
        for group_id in self._known - found.keys():
            group = self._live.groups.get(group_id)
            if group is not None and group.described_state in REBALANCING:
                self._live.in_state(group_id, None, now)
        self._known = set(found)

    async def _ask(self, node: int) -> Sequence[ListedGroup] | KafkaError:
        try:
            connection = await self._cluster.connection(node, "groups")
            if connection.version_of(ListGroupsRequest) < _STATES_FILTER:
                return ()
            response = await connection.request(ListGroupsRequest(states_filter=list(REBALANCING)), ListGroupsResponse)
        except KafkaError as problem:
            return problem
        # An error, such as a coordinator that loads its groups, comes without groups: then nothing is known.
        return response.groups
