"""The parts of a request that are answered one by one, and answers in which some of them fail.

A request is answered as a whole (Heartbeat), or part by part: OffsetCommit for each partition, DeleteGroups for each
group. `shape_of` says how for any request. All functions return new messages and change none: the broker may keep the
answer that it gave.
"""

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kohort.broker.groups import refusal
from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.api import APIS
from kohort.wire.codec import ArrayOf, Message, Nested, Struct
from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from kohort.wire.messages.alter_configs import AlterConfigsRequest
from kohort.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kohort.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.create_acls import CreateAclsRequest
from kohort.wire.messages.create_partitions import CreatePartitionsRequest
from kohort.wire.messages.create_topics import CreateTopicsRequest
from kohort.wire.messages.delete_acls import DeleteAclsRequest
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.delete_records import DeleteRecordsRequest
from kohort.wire.messages.delete_topics import DeleteTopicsRequest
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from kohort.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kohort.wire.messages.describe_configs import DescribeConfigsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.wire.messages.describe_producers import DescribeProducersRequest
from kohort.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kohort.wire.messages.describe_transactions import DescribeTransactionsRequest
from kohort.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kohort.wire.messages.elect_leaders import ElectLeadersRequest
from kohort.wire.messages.end_txn import EndTxnRequest
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.list_offsets import ListOffsetsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_delete import OffsetDeleteRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kohort.wire.messages.produce import ProduceRequest
from kohort.wire.messages.sync_group import SyncGroupRequest
from kohort.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kohort.wire.messages.write_txn_markers import WriteTxnMarkersRequest

_S = TypeVar("_S", bound=Struct)

_GROUP_KEY, _TRANSACTION_KEY = 0, 1
"""Types of keys in FindCoordinator."""
_BESIDE_AN_ERROR: Mapping[str, Any] = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "last_stable_offset": -1,
    "log_start_offset": -1,
    "low_watermark": -1,
    "node_id": -1,
    "num_partitions": -1,
    "port": -1,
    "producer_epoch": -1,
    "producer_id": -1,
    "records": [],
    "replication_factor": -1,
}
"""Values of fields, by name, in a result with an error."""
_JOIN_MAY_NAME_NO_PROTOCOL_FROM = 7
_REFUSED_WHOLE = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetFetchRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    ConsumerGroupHeartbeatRequest,
)

Path = tuple[int, ...]
"""The place of a part: its index in the list of each level."""
Verdict = Callable[[Path], ErrorCode | None]
"""Returns the error with which a part fails, or None."""


@dataclass(frozen=True, slots=True)
class Entity:
    """What a part of a request is about. What a request does not name is None, or for `resources` absent."""

    topic: str | None = None
    topic_id: UUID | None = None
    partition: int | None = None
    group: str | None = None
    member: str | None = None
    instance_id: str | None = None
    txn_id: str | None = None
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Id:
    """What identifies an entry of a list, as `item` of the request and `result` of the response.

    `about` are the fields of `Entity` that it determines. An empty `item` is the entry itself.
    """

    item: str
    result: str | None
    about: tuple[str, ...] = ()
    is_key: bool = True
    """Whether results are found by it; otherwise they are in the order of the request."""


@dataclass(frozen=True, slots=True)
class Level:
    """A list in the request, and the list of its results in the response."""

    items: tuple[str, ...]
    results: str
    ids: tuple[Id, ...]

    def mirrored(self) -> "Level":
        """Return the level for the response as if it were the request."""
        ids = tuple(replace(each, item=each.result) for each in self.ids if each.result is not None)
        return Level((self.results,), self.results, ids)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a request is answered.

    `base` is what the request as a whole is about. `whole` tells whether the answer has one error for all of it. If
    `whole_first`, an error that is not about a part goes there. `depths` are the numbers of levels down to a part with
    an error of its own, the first choice first. The parts of a request that only `reads` are those of its response.
    """

    base: Entity
    whole: bool
    whole_first: bool
    levels: tuple[Level, ...]
    depths: tuple[int, ...]
    reads: bool


def shape_of(request: Message, version: int) -> Shape:
    """Return how the request is answered in that version."""
    described = _described(request, version)
    depths: tuple[int, ...] = (len(described.levels),) if described.levels else ()
    if isinstance(request, OffsetFetchRequest) and version >= _GROUPS_FROM:
        depths = (1, len(described.levels))
    whole = _has_field(APIS[request.KEY].response, "error_code", version)
    base = {about: getattr(request, name) for about, name in described.base.items()}
    if resources := described.resources(request):
        base["resources"] = resources
    return Shape(Entity(**base), whole, whole and described.whole_first, described.levels, depths, described.reads)


def parts(shape: Shape, depth: int, request: Message) -> Iterator[tuple[Path, Entity]]:
    """Yield the parts of a request at that depth."""
    return _parts(shape.levels[:depth], request, (), shape.base)


def mirrored(shape: Shape) -> Shape:
    """Return the shape of the response, as if it were the request."""
    return replace(shape, levels=tuple(level.mirrored() for level in shape.levels))


def without(shape: Shape, depth: int, request: _S, taken: Callable[[Path], bool]) -> _S | None:
    """Return the request without the parts that are taken; None if nothing is left."""
    return _without(shape.levels[:depth], request, (), taken)


def with_errors(
    shape: Shape, depth: int, request: Message, response: Message | None, version: int, verdict: Verdict
) -> Message:
    """Return the response to the request in which some parts fail.

    `response` has the results of the others, and may have results of those that fail; without it, all fail.
    """
    answer = APIS[request.KEY].response() if response is None else copy.copy(response)
    results = _results(shape.levels, depth, request, answer, version, (), verdict)
    setattr(answer, shape.levels[0].results, results)
    return answer


def whole_error(request: Message, version: int, code: ErrorCode) -> Message:
    """Return the response that fails the request as a whole."""
    if isinstance(request, _REFUSED_WHOLE):
        answer = refusal(request, version, code)
        if isinstance(answer, JoinGroupResponse) and version >= _JOIN_MAY_NAME_NO_PROTOCOL_FROM:
            answer.protocol_name = None
        return answer
    answer = APIS[request.KEY].response()
    _fail(answer, version, code)
    if isinstance(answer, DescribeClientQuotasResponse):
        answer.entries = None
    return answer


def copied(value: Any) -> Any:
    """Return a copy that shares nothing with a message: neither its lists nor its buffers."""
    if isinstance(value, Struct):
        return type(value)(**{each.name: copied(getattr(value, each.name)) for each in value.FIELDS})
    if isinstance(value, list):
        return [copied(each) for each in value]
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def names_all(shape: Shape, depth: int, request: Message) -> bool:
    """Return whether a null list asks for all there are, so that only the response has the parts of that depth."""
    parents: list[Any] = [request]
    for level in shape.levels[:depth]:
        if not level.items or any(getattr(parent, name) is None for parent in parents for name in level.items):
            return True
        parents = [entry for parent in parents for entry in _entries(level, parent)]
    return False


# The lists of requests and responses


def _entries(level: Level, parent: Any) -> list[Any]:
    return [entry for name in level.items for entry in getattr(parent, name) or ()]


def _value(entry: Any, name: str) -> Any:
    return getattr(entry, name) if name else entry


def _parts(levels: tuple[Level, ...], parent: Any, path: Path, about: Entity) -> Iterator[tuple[Path, Entity]]:
    if not levels:
        yield path, about
        return
    level, *rest = levels
    for index, entry in enumerate(_entries(level, parent)):
        yield from _parts(tuple(rest), entry, (*path, index), _about(level, entry, about))


def _about(level: Level, entry: Any, parent: Entity) -> Entity:
    found: dict[str, Any] = {}
    for each in level.ids:
        value = _value(entry, each.item)
        for about in each.about:
            if about == "resources":
                names = [entity.entity_name for entity in value] if isinstance(value, list) else [value]
                found[about] = tuple(name for name in names if name is not None)
            elif value not in (None, "", NO_TOPIC_ID):
                found[about] = value
    return replace(parent, **found)


def _without(levels: tuple[Level, ...], parent: _S, path: Path, taken: Callable[[Path], bool]) -> _S | None:
    level, *rest = levels
    kept = copy.copy(parent)
    index = 0
    count = 0
    for name in level.items:
        left = []
        for entry in getattr(parent, name) or ():
            place = (*path, index)
            index += 1
            if rest:
                entry = _without(tuple(rest), entry, place, taken)
            elif taken(place):
                entry = None
            if entry is not None:
                left.append(entry)
        setattr(kept, name, left)
        count += len(left)
    return kept if count or not index else None


def _results(
    levels: tuple[Level, ...], depth: int, parent: Any, answer: Struct, version: int, path: Path, verdict: Verdict
) -> list[Struct]:
    """Return the results of one level: errors, and the results that `answer` has, in the order of the request."""
    level = levels[0]
    kind = _element(type(answer), level.results)
    entries = _entries(level, parent)
    given = _Results(level, getattr(answer, level.results) or (), len(entries))
    results: list[Struct] = []
    failed: set[Hashable] = set()
    for index, entry in enumerate(entries):
        place = (*path, index)
        code = verdict(place) if depth == 1 else None
        own = given.take(entry, fails=code is not None)
        if depth > 1:
            made = _identified(kind(), level, entry) if not own else copy.copy(own[0])
            inner_name = levels[1].results
            # A fetch may have several results for one topic.
            setattr(made, inner_name, [each for result in own for each in getattr(result, inner_name)])
            inner = _results(levels[1:], depth - 1, entry, made, version, place, verdict)
            setattr(made, inner_name, inner)
            if inner or own:
                results.append(made)
        elif code is None:
            results += own
        else:
            made = _fail(_identified(kind(), level, entry), version, code)
            keys = _keys(level, entry)
            if not keys or keys[0] not in failed:
                failed.update(keys)
                results.append(made)
    return [*results, *given.rest]


class _Results:
    """The results that a response has at one level."""

    def __init__(self, level: Level, results: Sequence[Struct], entries: int) -> None:
        self._level = level
        self._left = dict(enumerate(results))
        self._places: dict[Hashable, list[int]] = {}
        for at, result in enumerate(results):
            for key in _keys(level, result, of_result=True):
                self._places.setdefault(key, []).append(at)
        self._by_key = any(each.is_key and each.result is not None for each in level.ids)
        self._has_all = len(results) == entries

    def take(self, entry: Any, *, fails: bool) -> list[Struct]:
        """Return the results of an entry of the request, which may be none, and forget them."""
        if not self._by_key:
            # The results are in the order of the request, which may have been sent without those that fail.
            return [self._left.pop(next(iter(self._left)))] if self._left and (self._has_all or not fails) else []
        places = [place for key in _keys(self._level, entry) for place in self._places.get(key, ())]
        return [self._left.pop(place) for place in places if place in self._left]

    @property
    def rest(self) -> Iterable[Struct]:
        """The results of which the request does not speak."""
        return self._left.values()


def _keys(level: Level, entry: Any, *, of_result: bool = False) -> list[Hashable]:
    """Return what identifies an entry or its result, one of which is enough: a topic's ID, and all the other names.

    An answer may have both a name and an ID although the request had one of them. Nothing is returned if results are in
    the order of the request.
    """
    values: dict[str, Hashable] = {
        each.result: _value(entry, each.result if of_result else each.item)
        for each in level.ids
        if each.is_key and each.result is not None
    }
    topic_id = values.pop("topic_id", NO_TOPIC_ID)
    keys: list[Hashable] = [] if topic_id == NO_TOPIC_ID else [topic_id]
    named = tuple(values.values())
    return keys if all(name in (None, "") for name in named) and keys else [*keys, named] if named else keys


def _identified(result: Struct, level: Level, entry: Any) -> Struct:
    for each in level.ids:
        if each.result is not None:
            setattr(result, each.result, _value(entry, each.item))
    return result


def _fail(result: Struct, version: int, code: ErrorCode) -> Struct:
    """Set the error in a new result, with the values that Kafka's brokers give beside an error."""
    values = {**_BESIDE_AN_ERROR, "error_code": code, "partition_error_code": code, "error_message": code.sentence}
    for each in result.FIELDS:
        if each.name in values and each.exists(version):
            setattr(result, each.name, copy.copy(values[each.name]))
    return result


def _has_field(kind: type[Struct], name: str, version: int) -> bool:
    return any(each.name == name and each.exists(version) for each in kind.FIELDS)


def _element(kind: type[Struct], name: str) -> type[Struct]:
    (found,) = (each.type for each in kind.FIELDS if each.name == name)
    assert isinstance(found, ArrayOf) and isinstance(found.element, Nested), name
    return found.element.kind


# What each request is about


@dataclass(frozen=True, slots=True)
class _Description:
    """See `Shape`. `base` has the request's field for each field of `Entity`."""

    base: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()
    whole_first: bool = False
    reads: bool = False
    resources: Callable[[Any], tuple[str, ...]] = lambda request: ()


def _whole(**base: str) -> _Description:
    return _Description(base, whole_first=True)


def _partitions(
    items: str,
    results: str,
    inner_items: str,
    inner_results: str,
    index: str,
    result_index: str | None = None,
    *,
    name: str = "name",
    by_id: bool = False,
) -> tuple[Level, ...]:
    """Return the levels of topics and of their partitions. An empty `index` means a list of numbers."""
    ids = [Id(name, name, ("topic",))]
    if by_id:
        ids.append(Id("topic_id", "topic_id", ("topic_id",)))
    inner = Level((inner_items,), inner_results, (Id(index, result_index or index, ("partition",)),))
    return Level((items,), results, tuple(ids)), inner


def _list(items: str, results: str, item: str, result: str | None, about: str) -> tuple[Level, ...]:
    """Return the level of entries that are about a name each. An empty `item` means a list of names."""
    return (Level((items,), results, (Id(item, result, (about,)),)),)


_MEMBER = {"group": "group_id", "member": "member_id", "instance_id": "group_instance_id"}
_GROUPS_FROM, _TOPICS_FROM, _KEYS_FROM, _MEMBERS_FROM, _TRANSACTIONS_FROM = 8, 6, 4, 3, 4
"""First versions of OffsetFetch, DeleteTopics, FindCoordinator, LeaveGroup and AddPartitionsToTxn with a list of
these."""
_COMMITTED = ("topics", "topics", "partition_indexes", "partitions", "", "partition_index")
_RESOURCES = (Id("resource_type", "resource_type"), Id("resource_name", "resource_name", ("resources",)))

_DESCRIPTIONS: Mapping[type[Message], _Description] = {
    ProduceRequest: _Description(
        {"txn_id": "transactional_id"},
        _partitions("topic_data", "responses", "partition_data", "partition_responses", "index", by_id=True),
    ),
    FetchRequest: _Description(
        levels=_partitions(
            "topics", "responses", "partitions", "partitions", "partition", "partition_index", name="topic", by_id=True
        ),
        reads=True,
    ),
    ListOffsetsRequest: _Description(
        levels=_partitions("topics", "topics", "partitions", "partitions", "partition_index"), reads=True
    ),
    MetadataRequest: _Description(
        levels=(
            Level(("topics",), "topics", (Id("name", "name", ("topic",)), Id("topic_id", "topic_id", ("topic_id",)))),
        ),
        reads=True,
    ),
    OffsetCommitRequest: _Description(
        _MEMBER, _partitions("topics", "topics", "partitions", "partitions", "partition_index", by_id=True)
    ),
    JoinGroupRequest: _whole(**_MEMBER),
    HeartbeatRequest: _whole(**_MEMBER),
    SyncGroupRequest: _whole(**_MEMBER),
    DescribeGroupsRequest: _Description(levels=_list("groups", "groups", "", "group_id", "group"), reads=True),
    CreateTopicsRequest: _Description(levels=_list("topics", "topics", "name", "name", "topic")),
    DeleteRecordsRequest: _Description(
        levels=_partitions("topics", "topics", "partitions", "partitions", "partition_index")
    ),
    InitProducerIdRequest: _whole(txn_id="transactional_id"),
    AddOffsetsToTxnRequest: _whole(txn_id="transactional_id", group="group_id"),
    EndTxnRequest: _whole(txn_id="transactional_id"),
    WriteTxnMarkersRequest: _Description(
        levels=(
            Level(("markers",), "markers", (Id("producer_id", "producer_id"),)),
            *_partitions("topics", "topics", "partition_indexes", "partitions", "", "partition_index"),
        )
    ),
    TxnOffsetCommitRequest: _Description(
        {**_MEMBER, "txn_id": "transactional_id"},
        _partitions("topics", "topics", "partitions", "partitions", "partition_index"),
    ),
    DescribeTransactionsRequest: _Description(
        levels=_list("transactional_ids", "transaction_states", "", "transactional_id", "txn_id"), reads=True
    ),
    OffsetForLeaderEpochRequest: _Description(
        levels=_partitions("topics", "topics", "partitions", "partitions", "partition", name="topic"), reads=True
    ),
    DescribeAclsRequest: _Description(
        whole_first=True, resources=lambda request: _present([request.resource_name_filter])
    ),
    CreateAclsRequest: _Description(levels=_list("creations", "results", "resource_name", None, "resources")),
    DeleteAclsRequest: _Description(
        levels=_list("filters", "filter_results", "resource_name_filter", None, "resources")
    ),
    DescribeConfigsRequest: _Description(levels=(Level(("resources",), "results", _RESOURCES),), reads=True),
    AlterConfigsRequest: _Description(levels=(Level(("resources",), "responses", _RESOURCES),)),
    IncrementalAlterConfigsRequest: _Description(levels=(Level(("resources",), "responses", _RESOURCES),)),
    # The request names topics, and the response directories.
    DescribeLogDirsRequest: _Description(
        levels=(Level((), "results", (Id("", "log_dir", ("resources",)),)),), whole_first=True, reads=True
    ),
    CreatePartitionsRequest: _Description(levels=_list("topics", "results", "name", "name", "topic")),
    DeleteGroupsRequest: _Description(levels=_list("groups_names", "results", "", "group_id", "group")),
    ElectLeadersRequest: _Description(
        levels=_partitions(
            "topic_partitions",
            "replica_election_results",
            "partitions",
            "partition_result",
            "",
            "partition_id",
            name="topic",
        ),
        whole_first=True,
    ),
    AlterPartitionReassignmentsRequest: _Description(
        levels=_partitions("topics", "responses", "partitions", "partitions", "partition_index"), whole_first=True
    ),
    OffsetDeleteRequest: _Description(
        {"group": "group_id"},
        _partitions("topics", "topics", "partitions", "partitions", "partition_index"),
        whole_first=True,
    ),
    DescribeClientQuotasRequest: _Description(
        whole_first=True, resources=lambda request: _present(component.match for component in request.components)
    ),
    AlterClientQuotasRequest: _Description(
        levels=(Level(("entries",), "entries", (Id("entity", "entity", ("resources",), is_key=False),)),)
    ),
    DescribeUserScramCredentialsRequest: _Description(
        levels=_list("users", "results", "name", "user", "resources"), whole_first=True, reads=True
    ),
    AlterUserScramCredentialsRequest: _Description(
        levels=(Level(("deletions", "upsertions"), "results", (Id("name", "user", ("resources",)),)),)
    ),
    DescribeProducersRequest: _Description(
        levels=_partitions("topics", "topics", "partition_indexes", "partitions", "", "partition_index"), reads=True
    ),
    ConsumerGroupHeartbeatRequest: _whole(group="group_id", member="member_id", instance_id="instance_id"),
    ConsumerGroupDescribeRequest: _Description(
        levels=_list("group_ids", "groups", "", "group_id", "group"), reads=True
    ),
    DescribeTopicPartitionsRequest: _Description(levels=_list("topics", "topics", "name", "name", "topic"), reads=True),
}
"""Requests whose lists are the same in all versions. All others are answered as a whole, and are about nothing."""


def _described(request: Message, version: int) -> _Description:
    match request:
        case OffsetFetchRequest() if version >= _GROUPS_FROM:
            group = Level(
                ("groups",), "groups", (Id("group_id", "group_id", ("group",)), Id("member_id", None, ("member",)))
            )
            topics = _partitions(
                "topics", "topics", "partition_indexes", "partitions", "", "partition_index", by_id=True
            )
            return _Description(levels=(group, *topics), reads=True)
        case OffsetFetchRequest():
            topics = _partitions(*_COMMITTED)
            return _Description({"group": "group_id"}, topics, whole_first=True, reads=True)
        case AddPartitionsToTxnRequest() if version >= _TRANSACTIONS_FROM:
            transaction = Level(
                ("transactions",), "results_by_transaction", (Id("transactional_id", "transactional_id", ("txn_id",)),)
            )
            topics = _partitions("topics", "topic_results", "partitions", "results_by_partition", "", "partition_index")
            return _Description(levels=(transaction, *topics))
        case AddPartitionsToTxnRequest():
            topics = _partitions(
                "v3_and_below_topics",
                "results_by_topic_v3_and_below",
                "partitions",
                "results_by_partition",
                "",
                "partition_index",
            )
            return _Description({"txn_id": "v3_and_below_transactional_id"}, topics)
        case DeleteTopicsRequest() if version >= _TOPICS_FROM:
            ids = Id("name", "name", ("topic",)), Id("topic_id", "topic_id", ("topic_id",))
            return _Description(levels=(Level(("topics",), "responses", ids),))
        case DeleteTopicsRequest():
            return _Description(levels=_list("topic_names", "responses", "", "name", "topic"))
        case FindCoordinatorRequest():
            about = {_GROUP_KEY: "group", _TRANSACTION_KEY: "txn_id"}.get(request.key_type, "resources")
            if version >= _KEYS_FROM:
                return _Description(levels=_list("coordinator_keys", "coordinators", "", "key", about), reads=True)
            return _Description({} if about == "resources" else {about: "key"}, whole_first=True)
        case LeaveGroupRequest() if version >= _MEMBERS_FROM:
            ids = (
                Id("member_id", "member_id", ("member", "resources")),
                Id("group_instance_id", "group_instance_id", ("instance_id",)),
            )
            return _Description({"group": "group_id"}, (Level(("members",), "members", ids),), whole_first=True)
        case LeaveGroupRequest():
            return _whole(group="group_id", member="member_id")
        case _:
            return _DESCRIPTIONS.get(type(request), _whole())


def _present(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(name for name in names if name is not None)
