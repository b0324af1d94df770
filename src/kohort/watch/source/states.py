"""States in which a classic group rebalances. Its log does not have them, because they write no record."""

import asyncio

from kohort.client import Cluster, ErrorCode, KafkaError
from kohort.requests import check
from kohort.watch.group import REBALANCING
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class RebalancingStates:
    """Asks all brokers which groups rebalance now: one small request and answer for each broker."""

    def __init__(self, cluster: Cluster, live: Live) -> None:
        self._cluster = cluster
        self._live = live
        self._known: set[str] = set()
        """Groups that rebalanced at the last look."""
        self._can_filter = True
        """Whether the brokers select groups by state, which they do from Apache Kafka 2.6 on."""

    async def look(self) -> None:
        """Take the states of the groups that rebalance. Raises KafkaError if no broker answers."""
        if not self._can_filter:
            return
        brokers = list(self._cluster.metadata.brokers)
        answers = await asyncio.gather(*(self._ask(node) for node in brokers))
        problems = [answer for answer in answers if isinstance(answer, KafkaError)]
        if any(problem.code is ErrorCode.UNSUPPORTED_VERSION for problem in problems):
            self._can_filter = False
            return
        if problems and len(problems) == len(answers):
            raise problems[0]
        now = clock()
        found = {
            group.group_id: group.group_state
            for answer in answers
            if not isinstance(answer, KafkaError)
            for group in answer.groups
            if group.group_state in REBALANCING
        }
        for group_id, state in found.items():
            self._live.in_state(group_id, state, now)
        for group_id in self._known - found.keys():
            group = self._live.groups.get(group_id)
            if group is not None and group.described_state in REBALANCING:
                self._live.in_state(group_id, None, now)
        self._known = set(found)

    async def _ask(self, node: int) -> ListGroupsResponse | KafkaError:
        try:
            connection = await self._cluster.connection(node, "groups")
            request = ListGroupsRequest(states_filter=list(REBALANCING))
            response = await connection.request(request, ListGroupsResponse)
            check(response.error_code, f"broker {node}")
        except KafkaError as problem:
            return problem
        return response
