"""The methods under /call/: those of `kfake.Cluster` that take values, with its signatures and answers.

What is different here: `Compact` and `ApplyRetention` do what the brokers' own background tasks do, so compaction
leaves the segment that is written, and logs whose compaction is not due; `SetFollowers` refuses brokers that do not
exist; the addresses, IDs and epochs are this cluster's.
"""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from kohort.broker import Broker
from kohort.broker.config import check_group_configs
from kohort.broker.logs import INTERNAL_TOPICS
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import PartitionLog, Topic
from kohort.log.cluster import OFFSETS_TOPIC, Leader, PartitionId
from kohort.testing.fake.cluster import FakeCluster
from kohort.testing.fake.go_values import (
    INT,
    INT32,
    INT64,
    STRING,
    STRING_MAP,
    TOPIC_ID,
    GoError,
    GoType,
    ListOf,
    read_argument,
)
from kohort.testing.fake.http import Problem, Request, usage
from kohort.testing.group_view import GroupView, view_group


@dataclass(frozen=True, slots=True)
class Method:
    """A method of `kfake.Cluster`."""

    parameters: Sequence[GoType]
    result: str
    """The results, as Go prints them; empty for none."""
    function: Callable[..., Any]
    waits: bool = False
    """Whether the function also takes the request, because it may wait."""

    @property
    def signature(self) -> str:
        """Parameters and results, as Go prints them."""
        return f"({', '.join(parameter.name for parameter in self.parameters)}) {self.result}".rstrip()


NOT_FOUND = object()
"""The result of a method that answers nil because what was named does not exist."""


@dataclass
class Calls:
    """The methods of one cluster."""

    cluster: FakeCluster
    _changing: threading.Lock = field(default_factory=threading.Lock)
    """Held during changes that take several steps."""

    def __post_init__(self) -> None:
        list_of_ids = ListOf(INT32)
        self.methods: Mapping[str, Method] = {
            "AddNode": Method((INT32, INT), "(int32, int, error)", self._add_node),
            "ApplyRetention": Method((), "", self._apply_retention),
            "Compact": Method((), "", self._compact),
            "CoordinatorFor": Method((STRING,), "int32", self._coordinator_for),
            "CreateTopic": Method((STRING, INT32, STRING_MAP), "error", self._create_topic),
            "DeleteRecords": Method((STRING, INT32, INT64), "error", self._delete_records),
            "DeleteTopic": Method((STRING,), "error", self._delete_topic),
            "GroupInfo": Method((STRING,), "*kfake.GroupInfo", self._group_info),
            "LeaderFor": Method((STRING, INT32), "int32", self._leader_for),
            "ListenAddrs": Method((), "[]string", self._listen_addrs),
            "MoveTopicPartition": Method((STRING, INT32, INT32), "error", self._move_topic_partition),
            "PartitionInfo": Method((STRING, INT32), "*kfake.PartitionInfo", self._partition_info),
            "PartitionInfos": Method((STRING,), "[]*kfake.PartitionInfo", self._partition_infos),
            "RehashCoordinators": Method((), "", self._rehash_coordinators),
            "RemoveNode": Method((INT32,), "error", self._remove_node),
            "SetFollowers": Method((STRING, INT32, list_of_ids), "", self._set_followers),
            "SetGroupConfigs": Method((STRING, STRING_MAP), "", self._set_group_configs),
            "ShufflePartitionLeaders": Method((), "", self._shuffle_partition_leaders),
            "TopicIDInfo": Method((TOPIC_ID,), "*kfake.TopicInfo", self._topic_id_info),
            "TopicInfo": Method((STRING,), "*kfake.TopicInfo", self._topic_info),
            "WaitGroupStable": Method((STRING, INT), "(*kfake.GroupInfo, error)", self._wait_group_stable, waits=True),
        }

    def listed(self) -> list[dict[str, str]]:
        """Return all methods with their signatures, sorted by name."""
        return [{"name": name, "signature": method.signature} for name, method in sorted(self.methods.items())]

    def call(self, name: str, arguments: Sequence[str], request: Request) -> Any:
        """Call a method, and return what becomes the JSON of its result. Raises Problem."""
        method = self.find(name)
        if len(arguments) != len(method.parameters):
            raise usage(f"{name} takes {len(method.parameters)} argument(s), got {len(arguments)}")
        values = []
        for place, (parameter, text) in enumerate(zip(method.parameters, arguments, strict=True), 1):
            try:
                values.append(read_argument(parameter, text))
            except GoError as error:
                raise usage(f"argument {place} ({parameter.name}): {error}") from None
        try:
            result = method.function(*values, request) if method.waits else method.function(*values)
        except KafkaError as error:
            raise Problem(HTTPStatus.BAD_REQUEST, f"{error.code.name}: {error.sentence}") from None
        except KohortError as error:
            raise Problem(HTTPStatus.BAD_REQUEST, str(error)) from None
        if result is NOT_FOUND:
            raise Problem(HTTPStatus.BAD_REQUEST, f"{' '.join([name, *arguments])}: not found")
        return result

    def find(self, name: str) -> Method:
        """Return a method by its name. Raises Problem."""
        found = self.methods.get(name)
        if found is None:
            raise usage(
                f'unknown method "{name}"; kcl fake control methods lists what we can call', HTTPStatus.NOT_FOUND
            )
        return found

    # Brokers

    def _listen_addrs(self) -> list[str]:
        return self.cluster.addresses

    def _add_node(self, node_id: int, port: int) -> list[int]:
        with self._changing:
            return list(self.cluster.add_node(None if node_id < 0 else node_id, max(0, port)))

    def _remove_node(self, node_id: int) -> None:
        with self._changing:
            self.cluster.remove_node(node_id)

    # Topics

    def _topic_info(self, name: str) -> Any:
        return self.cluster._run(lambda: self._topic_json(self._any.topics.named(name)))

    def _topic_id_info(self, topic_id: UUID) -> Any:
        return self.cluster._run(lambda: self._topic_json(self._any.topics.with_id(topic_id)))

    @property
    def _any(self) -> Broker:
        """A broker, on the event loop: all know all topics."""
        return self.cluster.nodes[0]

    def _topic_json(self, topic: Topic | None) -> Any:
        if topic is None:
            return NOT_FOUND
        return {
            "Topic": topic.name,
            "TopicID": topic.topic_id.hex,
            "NumReplicas": self._any.leadership.replicas(topic, 0).factor,
            "Configs": dict(topic.configs),
        }

    def _create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        with self._changing:
            self.cluster.create_topic(name, partitions if partitions > 0 else -1, configs=configs)

    def _delete_topic(self, name: str) -> None:
        async def delete() -> None:
            topic = self._any.topics.named(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if name in INTERNAL_TOPICS:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is an internal topic and cannot be deleted.")
            self._any.delete_topic(topic)
            await self.cluster.until(lambda: all(node.topics.named(name) is None for node in self.cluster.nodes))

        with self._changing:
            self.cluster._await(delete())

    # Partitions

    def _leader(self, name: str, partition: int) -> Leader | None:
        topic = self._any.topics.named(name)
        if topic is None or not 0 <= partition < topic.partitions:
            return None
        return self._any.leadership.leader(topic, partition)

    def _leader_for(self, name: str, partition: int) -> int:
        def look() -> int:
            leader = self._leader(name, partition)
            return -1 if leader is None else leader.node_id

        return self.cluster._run(look)

    def _partition_info(self, name: str, partition: int) -> Any:
        return self.cluster._run(lambda: self._partition_json(name, partition))

    def _partition_infos(self, name: str) -> list[Any]:
        def look() -> list[Any]:
            topic = self._any.topics.named(name)
            return [self._partition_json(name, index) for index in range(topic.partitions if topic else 0)]

        return self.cluster._run(look)

    def _partition_json(self, name: str, partition: int) -> Any:
        leader = self._leader(name, partition)
        if leader is None:
            return NOT_FOUND
        log = self._led_log(name, partition)
        latest = log.find_max_time()
        return {
            "Partition": partition,
            "HighWatermark": log.stable_offset,
            "LastStableOffset": log.stable_offset,
            "LogStartOffset": log.start_offset,
            "Epoch": leader.epoch,
            "MaxTimestamp": 0 if latest is None else latest.timestamp,
            "NumBytes": log.size,
            "Leader": leader.node_id,
        }

    def _led_log(self, name: str, partition: int) -> PartitionLog:
        """Return the log from the broker that leads it, on the event loop."""
        for node in self.cluster.nodes:
            topic = node.topics.named(name)
            log = None if topic is None else node.topics.log(topic, partition)
            if log is not None:
                return log
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)

    def _delete_records(self, name: str, partition: int, offset: int) -> None:
        def delete() -> None:
            topic = self._any.topics.named(name)
            if topic is None or self._leader(name, partition) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if self._any.rules.only_compacts(topic):
                raise KafkaError(ErrorCode.POLICY_VIOLATION)
            log = self._led_log(name, partition)
            before = log.stable_offset if offset == -1 else offset
            if not 0 <= before <= log.stable_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            log.delete_before(before)
            for node in self.cluster.nodes:
                node.waiting_fetches.moved((log,))
                node.writer.current()  # the writer deletes the files later

        self.cluster._run(delete)

    def _move_topic_partition(self, name: str, partition: int, node_id: int) -> None:
        async def move() -> None:
            self.cluster.node_with(node_id)
            topic = self._any.topics.named(name)
            if topic is None or not 0 <= partition < topic.partitions:
                raise KohortError("topic/partition not found")
            await self.cluster.move_leaders({PartitionId(topic.topic_id, partition): node_id})

        with self._changing:
            self.cluster._await(move())

    def _shuffle_partition_leaders(self) -> None:
        self._move_randomly(lambda name: name not in INTERNAL_TOPICS)

    def _rehash_coordinators(self) -> None:
        self._move_randomly(lambda name: name == OFFSETS_TOPIC)

    def _move_randomly(self, is_moved: Callable[[str], bool]) -> None:
        async def move() -> None:
            nodes = [node.node_id for node in self.cluster.nodes]
            topics = [topic for topic in self._any.topics.all().values() if is_moved(topic.name)]
            ones = [PartitionId(topic.topic_id, index) for topic in topics for index in range(topic.partitions)]
            await self.cluster.move_leaders({one: random.choice(nodes) for one in ones})

        with self._changing:
            self.cluster._await(move())

    def _set_followers(self, name: str, partition: int, followers: Sequence[int]) -> None:
        async def change() -> None:
            leader = self._leader(name, partition)
            topic = self._any.topics.named(name)
            if leader is None or topic is None:
                return  # as in kfake
            for node_id in followers:
                self.cluster.node_with(node_id)
            replicas = tuple(dict.fromkeys((leader.node_id, *followers)))
            self._any.leadership.reassign({PartitionId(topic.topic_id, partition): replicas}, ())
            await self.cluster.settle()

        with self._changing:
            self.cluster._await(change())

    def _apply_retention(self) -> None:
        async def apply() -> None:
            for node in self.cluster.nodes:
                await node.retention.apply()

        self.cluster._await(apply())

    def _compact(self) -> None:
        async def compact() -> None:
            for node in self.cluster.nodes:
                await node.cleaner.clean()

        with self._changing:
            self.cluster._await(compact())

    # Groups

    def _coordinator_for(self, group_id: str) -> int:
        def look() -> int:
            node = self._any.groups.coordinator(group_id)
            return -1 if node is None else node.node_id

        return self.cluster._run(look)

    def group(self, group_id: str) -> GroupView | None:
        """Return a group as its coordinator has it; None if it does not exist."""
        return self.cluster._run(lambda: view_group(self.cluster.nodes, group_id))

    def _group_info(self, group_id: str) -> Any:
        view = self.group(group_id)
        return NOT_FOUND if view is None else group_json(view)

    def _wait_group_stable(self, group_id: str, members: int, request: Request) -> Any:
        def look() -> GroupView | None:
            view = self.group(group_id)
            matches = view is not None and view.state == "Stable" and (members < 0 or len(view.members) == members)
            return view if matches else None

        view = request.wait(look)
        assert view is not None
        return group_json(view)

    def _set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        def change() -> None:
            for node in self.cluster.nodes:
                if node.groups.shard(group_id).leads:
                    merged = {**node.group_configs.of(group_id), **configs}
                    check_group_configs(merged, node.config)
                    node.change_group_configs(group_id, merged)

        with self._changing:
            self.cluster._run(change)


def group_json(view: GroupView) -> dict[str, Any]:
    """Return a group as kfake prints it."""
    return {
        "Group": view.group_id,
        "State": view.state,
        "Epoch": view.epoch,
        "Members": [
            {
                "MemberID": member.member_id,
                "InstanceID": member.instance_id,
                "ClientID": member.client_id,
                "ClientHost": member.client_host,
                "SubscribedTopics": list(member.subscribed_topics),
                "Assignment": {topic: list(partitions) for topic, partitions in member.assignment.items()},
            }
            for member in view.members
        ],
        "Commits": {
            topic: {
                str(partition): {
                    "Offset": commit.offset,
                    "LeaderEpoch": commit.leader_epoch,
                    "Metadata": commit.metadata,
                    "At": _go_time(commit.at),
                }
                for partition, commit in commits.items()
            }
            for topic, commits in view.commits.items()
        },
    }


def _go_time(at: int) -> str:
    seconds, millis = divmod(at, 1000)
    fraction = f".{millis:03d}".rstrip("0") if millis else ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"
